"""A report as one self-contained HTML page: tables, curves, translations, differences of specs, provenance."""
