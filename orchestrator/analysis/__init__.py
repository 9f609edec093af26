"""Analyses of trained rows: tables and figures computed from the ledger and the weights, without training any row."""
