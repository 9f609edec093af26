"""From encoder states to what each decoder layer attends to: one registered class a file."""
