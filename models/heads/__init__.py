"""How a decoder's states become predictions: one registered class a file."""
