"""Rows on two workers that share one Train run: no pause between them, stopped rows free the workers, dead workers are replaced."""

import json
from itertools import pairwise

import pytest

from tests.integration.test_ray import SPEC, call

pytestmark = [pytest.mark.ray, pytest.mark.timeout(900)]
ROWS = """
  good: {workers: 2, pinned: true}
  slow: {workers: 2, optim: {schedule: {kind: inverse-sqrt, lr: 1.0e-5, warmup: 10}}}
  slower: {workers: 2, optim: {schedule: {kind: inverse-sqrt, lr: 1.0e-6, warmup: 10}}}
"""


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    spec = tmp_path_factory.mktemp("shared") / "shared.yaml"
    spec.write_text(SPEC[: SPEC.index("rows:")] + "rows:" + ROWS)
    return spec, call(spec, spec.parent / "sweep", "--engine", "ray", "--no-tracking")


def test_stopped_rows_free_their_workers_at_once_and_nothing_starts_anew(swept):
    spec, rows = swept
    assert {name: row["status"] for name, row in rows.items()} == {"good": "done", "slow": "stopped", "slower": "stopped"}
    results = spec.parent / "sweep" / "results"
    assert len(list((results / "ray" / "train").iterdir())) == 1, "one Train run"
    histories = [[json.loads(line)["t"] for line in path.read_text().splitlines()] for path in results.glob("*/history.jsonl")]
    gaps = [after[0] - before[-1] for before, after in pairwise(sorted(histories))]
    assert len(gaps) == 2 and max(gaps) < 8, "of a busy machine; when each row had a Train run of its own, 17 to 36 s"
    assert {json.loads(path.read_text())["world_size"] for path in results.glob("*/train.json")} == {2}


@pytest.mark.chaos
def test_a_worker_that_dies_is_replaced_and_its_row_goes_on_from_the_checkpoint(swept):
    spec, rows = swept
    base = spec.parent / "dies"
    again = call(spec, base, "--engine", "ray", "--no-tracking", NMT_FAULT="step@35:kill", NMT_FAULT_ONCE=str(base / "once"))
    assert list((base / "once").iterdir()), "the fault did not fire"
    assert {name: row["weights_sha256"] for name, row in again.items()} == {name: row["weights_sha256"] for name, row in rows.items()}
    journals = [path.read_text().splitlines() for path in base.glob("results/*/journal.jsonl")]
    assert 40 <= max(map(len, journals)) <= 45, "the row resumed from its checkpoint at 30"
