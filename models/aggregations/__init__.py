"""What a stack returns: one registered class a file."""
