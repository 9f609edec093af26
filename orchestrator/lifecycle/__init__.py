"""Operations on existing runs and results: stop, clean up, export, import, reproduce and compare."""
