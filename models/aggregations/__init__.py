"""Registered aggregations: what a stack returns."""
