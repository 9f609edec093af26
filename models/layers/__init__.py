"""Registered layers of a stack."""
