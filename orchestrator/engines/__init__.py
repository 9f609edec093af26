"""Engines: where rows run. `local` in this process, `ray` through Tune (and Train, for two or more workers or a GPU)."""
