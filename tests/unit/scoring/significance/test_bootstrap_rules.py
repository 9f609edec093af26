"""The bootstrap's interval from its own resamples, and which stored test is taken for which question."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from orchestrator.ledger.keys import Keys
from orchestrator.ledger.results import Ledger
from orchestrator.ledger.statistics import corpus_bleu
from orchestrator.scoring.significance.compare import Comparer
from orchestrator.scoring.significance.paired_tests import Bootstrap, Comparison, Sign, bootstrap
from orchestrator.specs.schema import ScoreSpec


def test_the_interval_is_of_the_middle_95_percent_of_resamples() -> None:
    """Of 40 resamples the 2.5th percentile lies at place 0.975 of the sorted differences, the 97.5th at 38.025."""
    rng = np.random.default_rng(3)
    systems = []
    for share in (0.7, 0.5):
        lengths = rng.integers(6, 12, 30)
        matches = [rng.binomial(np.maximum(lengths - n, 0), share) for n in range(4)]
        totals = [np.maximum(lengths - n, 0) for n in range(4)]
        systems.append(np.stack([*matches, *totals, lengths, lengths], axis=1).astype(np.int64))
    spec = ScoreSpec()
    draws = np.random.default_rng(9).choice(30, size=(40, 30), replace=True)
    deltas = sorted(
        float(corpus_bleu(systems[0][draw].sum(axis=0), spec)) - float(corpus_bleu(systems[1][draw].sum(axis=0), spec)) for draw in draws
    )
    found = bootstrap(systems[0], systems[1], spec, 40, 9)
    assert found.low == pytest.approx(deltas[0] + 0.975 * (deltas[1] - deltas[0]))
    assert found.high == pytest.approx(deltas[38] + 0.025 * (deltas[39] - deltas[38]))
    assert found.wins == sum(delta > 0 for delta in deltas) / 40


def test_a_stored_test_answers_its_own_question_alone(tmp_path: Path) -> None:
    system, baseline = (Keys(name, name, name * 32) for name in ("ab", "cd"))
    comparison = Comparison(31.0, 30.0, 1.0, Sign(9, 1, 0, 0.02), Bootstrap(0.5, 1.5, 0.9, 0.03))

    def comparer(**options: int) -> Comparer:
        return Comparer(Ledger(tmp_path), lambda data: None, **options)

    path = comparer().save(system, baseline, comparison)
    spec: object = type("Spec", (), {"data": None})()
    asked = [comparer(), comparer(samples=500), comparer(seed=7)]
    assert [each.compare(spec, system, baseline) for each in asked] == [comparison, None, None]  # type: ignore[arg-type]
    assert comparer().compare(spec, baseline, system) is None, "the other way round"  # type: ignore[arg-type]
    path.write_text(json.dumps(json.loads(path.read_text()) | {"key": "0" * 64}))
    assert comparer().compare(spec, system, baseline) is None, "a file of another key under this name"  # type: ignore[arg-type]
