"""One module per kind of analysis, named after the kind with underscores and imported on first use."""
