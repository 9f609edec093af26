"""Significance marks: compares each seed of a row with the same seed of its base row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from orchestrator.errors import UserError
from orchestrator.report.figures import short_id
from orchestrator.report.find import SeedResult
from orchestrator.scoring.significance.compare import Comparer
from orchestrator.scoring.significance.paired_tests import SAMPLES
from orchestrator.scoring.significance.rules import rule_of, tests_in_words
from orchestrator.specs.row import Row


def significance(
    row: Row, found: Sequence[SeedResult], base_id: str, base: Sequence[SeedResult], comparer: Comparer
) -> dict[str, Any] | None:
    """Returns {"against", "seeds", "p_sign", "p_bootstrap", "rule", "mark"}, or None if the rows are not comparable.

    There is one p-value per seed; the mark is that of the weakest seed, by the test that the row's file names (`rule`). Rows that are
    scored differently are not comparable, nor are two that share one run.
    """
    assert row.spec is not None
    theirs = {o.seed: o for o in base if o.status == "done"}
    pairs = [(o, theirs[o.seed]) for o in found if o.status == "done" and o.seed in theirs]
    pairs = [(ours, other) for ours, other in pairs if ours.keys.score != other.keys.score and ours.signature == other.signature]
    try:
        tests = [(ours.seed, comparer.compare(row.spec, ours.keys, other.keys)) for ours, other in pairs]
    except (UserError, ValueError):
        return None
    known = [(seed, test) for seed, test in tests if test is not None]
    if not known or len(known) < len(tests):
        return None
    return {
        "against": base_id,
        "seeds": [seed for seed, _ in known],
        "p_sign": [float(f"{test.sign.p:.4g}") for _, test in known],
        "p_bootstrap": [float(f"{test.bootstrap.p:.4g}") for _, test in known],
        "rule": row.significance or "both",
        "mark": rule_of(row.significance).mark([test for _, test in known]),
    }


def explained(tested: Sequence[dict[str, Any]]) -> str:
    """The note that explains the marks."""
    rules = [rule_of(name) for name in dict.fromkeys(str(one["rule"]) for one in tested)]
    how = "; ".join(f"{rule.words()}, {tests_in_words(rule.test, SAMPLES)}" for rule in rules)
    bases = " or ".join(dict.fromkeys(short_id(str(one["against"])) for one in tested))
    seeds = "in each seed tested" if any(len(one["seeds"]) > 1 for one in tested) else f"seed {tested[0]['seeds'][0]}"
    return f"{how}: against {bases}, {seeds}; they ask whether other sentences would say otherwise, not whether other seeds would"
