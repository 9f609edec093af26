"""Which stored test is taken for which question."""

import json
from pathlib import Path

from orchestrator.ledger.keys import Keys
from orchestrator.ledger.results import Ledger
from orchestrator.scoring.significance.compare import Comparer
from orchestrator.scoring.significance.paired_tests import Bootstrap, Comparison, Sign


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
