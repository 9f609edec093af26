"""One layer of a stack: one registered class a file."""
