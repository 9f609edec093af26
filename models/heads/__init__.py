"""How a decoder's states become predictions: registered classes."""
