"""What each layer reads: one registered class a file."""
