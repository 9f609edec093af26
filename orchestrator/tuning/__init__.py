"""Tuned arms: every row of a table gets a search with the same budget, and other seeds judge its best configuration."""
