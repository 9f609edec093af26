"""Rows on two workers that share one Train run: no pause between them, stopped rows free the workers, dead workers are replaced."""

import json
from itertools import pairwise

import pytest

from tests.integration.test_ray import SPEC, call

pytestmark = [pytest.mark.ray, pytest.mark.chaos, pytest.mark.timeout(900)]
ROWS = """
  good: {workers: 2, pinned: true}
  slow: {workers: 2, optim: {schedule: {kind: inverse-sqrt, lr: 1.0e-5, warmup: 10}}}
  slower: {workers: 2, optim: {schedule: {kind: inverse-sqrt, lr: 1.0e-6, warmup: 10}}}
"""


def test_stopped_rows_free_their_workers_and_a_dead_worker_is_replaced(tmp_path):
    """A worker of the first row dies; test_ray and test_growing_cluster compare the bits of such rows."""
    spec, base = tmp_path / "shared.yaml", tmp_path / "sweep"
    spec.write_text(SPEC[: SPEC.index("rows:")] + "rows:" + ROWS)
    rows = call(spec, base, "--engine", "ray", "--no-tracking", NMT_FAULT="step@35:kill", NMT_FAULT_ONCE=str(base / "once"))
    assert list((base / "once").iterdir()), "the fault did not fire"
    assert {name: row["status"] for name, row in rows.items()} == {"good": "done", "slow": "stopped", "slower": "stopped"}
    results = base / "results"
    assert len(list((results / "ray" / "train").iterdir())) == 1, "one Train run"
    histories = [[json.loads(line)["t"] for line in path.read_text().splitlines()] for path in results.glob("*/history.jsonl")]
    gaps = [after[0] - before[-1] for before, after in pairwise(sorted(histories))]
    assert len(gaps) == 2 and max(gaps) < 8, "of a busy machine; when each row had a Train run of its own, 17 to 36 s"
    assert {json.loads(path.read_text())["world_size"] for path in results.glob("*/train.json")} == {2}
    journals = [path.read_text().splitlines() for path in results.glob("*/journal.jsonl")]
    assert 40 <= max(map(len, journals)) <= 45, "the row resumed from its checkpoint at 30"
