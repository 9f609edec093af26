"""Cross-attention sub-layers: registered classes."""
