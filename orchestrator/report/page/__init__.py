"""A report as one HTML page that needs nothing else: tables, curves, translations, differences of specs, provenance."""
