"""Engines run the jobs of a sweep: `local` in this process, `ray` through Ray Tune (and Ray Train for several workers)."""
