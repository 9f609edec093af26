"""A second encoder beside the stack: registered classes."""
