"""Registered contexts: states over depth."""
