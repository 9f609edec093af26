"""Analyses of trained rows: the figures and tables of the papers that no training gives. They only read the ledger and the weights."""
