"""Sweeps as jobs of a Ray cluster: what is uploaded, under which name, and how a terminal follows and comes back."""
