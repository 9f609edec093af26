"""Names of the analysis kinds and the modules of `orchestrator.analysis.kinds` that register them, listed without importing them."""

from orchestrator.files.listed import mapped

MODULES = {name: module for module, names in mapped(__file__, "analyses.txt").items() for name in names.split()}
KINDS = tuple(sorted(MODULES))
