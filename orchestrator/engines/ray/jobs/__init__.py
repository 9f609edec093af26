"""Sweeps as jobs of a Ray cluster: upload, job ids and logs."""
