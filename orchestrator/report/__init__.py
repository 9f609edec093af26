"""Tables of results: reported figures of a paper next to measured ones."""
