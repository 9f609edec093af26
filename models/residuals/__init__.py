"""How sub-layers read the stack's stream and join it: one registered class a file."""
