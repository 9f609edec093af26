"""One module per kind of analysis, named like the kind with underscores, imported when the kind is used."""
