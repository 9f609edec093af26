"""Sentences, features and classifiers of the kind `probing`."""
