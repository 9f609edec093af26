"""Cross-attention sub-layers: one registered class a file."""
