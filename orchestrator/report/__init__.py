"""Tables of results: what the paper reports beside what was measured here."""
