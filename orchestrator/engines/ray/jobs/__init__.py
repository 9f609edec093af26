"""Sweeps as jobs of a Ray cluster: the upload, the job's id, following its logs."""
