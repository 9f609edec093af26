"""States over depth: registered classes."""
