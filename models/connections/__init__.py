"""Registered connections: what each layer reads of the layers below it."""
