"""Sentences, features and classifiers for the kind `probing`."""
