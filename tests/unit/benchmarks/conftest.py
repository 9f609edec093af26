"""The benchmarks are scripts, not a package: their folders come onto the path here."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "benchmarks" / place) for place in ("", "peers", "gpu")]
