"""Analyses of trained rows: tables and figures that no training gives. They read the ledger and the weights and train nothing."""
