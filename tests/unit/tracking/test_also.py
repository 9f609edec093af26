"""Other scorings of a training in MLflow: metrics of the same run, and the run is done when they are all there."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from orchestrator.files.documents import sealed
from orchestrator.tracking.source import read_result, read_sweep


def test_figures_of_also_are_metrics_of_the_row(fake_results: Any) -> None:
    score = hashlib.sha256(b"valid").hexdigest()
    bare = fake_results.row("dense")
    row = bare | {"also": {"valid": {"keys": bare["keys"] | {"score": score}}}}
    fake_results.finished(row)
    sweep = read_sweep(fake_results.root / "sweeps" / f"{fake_results.sweep([row])}.json")
    (found,) = sweep.rows
    waiting = read_result([fake_results.root], found, sweep)
    assert waiting is not None and waiting.state == "running" and "bleu_valid" not in waiting.metrics
    path = fake_results.run_dir(row) / "score" / f"{score[:16]}.json"
    path.write_text(json.dumps(sealed({"bleu": 26.13}, score)))
    done = read_result([fake_results.root], found, sweep)
    assert done is not None and done.state == "done" and (done.metrics["bleu"], done.metrics["bleu_valid"]) == (27.64, 26.13)
    assert done.content != waiting.content


def test_a_row_is_the_same_row_with_a_scoring_more(fake_results: Any) -> None:
    row = fake_results.row("dense")
    more = row | {"also": {"valid": {"keys": row["keys"] | {"score": "ab" * 32}}}}
    keys = []
    for number, item in enumerate((row, more)):
        sweep_id = fake_results.sweep([item], f"sweep-{number}")
        keys += [found.key for found in read_sweep(fake_results.root / "sweeps" / f"{sweep_id}.json").rows]
    assert keys[0] == keys[1]
