"""How sub-layers read the stack's stream and join it: registered classes."""
