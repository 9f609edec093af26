"""Operations on existing runs and results: clean up, export, import, reproduce and compare."""
