"""Registered heads: how a decoder's states become predictions."""
