"""The benchmarks are scripts, not a package: their folders come onto the path here."""

import sys

from orchestrator.paths import ROOT

sys.path[:0] = [str(ROOT / "benchmarks" / place) for place in ("", "peers", "gpu")]
