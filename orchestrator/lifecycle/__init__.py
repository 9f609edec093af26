"""What happens to runs and results after they were started: stopped, cleaned up, carried elsewhere, exported, run again and compared."""
