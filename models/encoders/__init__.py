"""A second encoder beside the stack: one registered class a file."""
