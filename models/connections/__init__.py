"""What each layer reads: registered classes."""
