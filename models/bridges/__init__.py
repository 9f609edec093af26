"""Registered bridges: from encoder states to what each decoder layer attends to."""
