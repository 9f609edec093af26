"""Self-attention sub-layers: registered classes."""
