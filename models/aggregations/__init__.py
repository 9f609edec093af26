"""What a stack returns: registered classes."""
