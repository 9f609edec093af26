"""States over depth: one registered class a file."""
