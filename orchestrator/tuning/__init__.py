"""Tuned arms: every row of a table is searched with the same budget, and its best configuration is judged with other seeds."""
