"""One layer of a stack: registered classes."""
