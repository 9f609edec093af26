"""From encoder states to what each decoder layer attends to: registered classes."""
