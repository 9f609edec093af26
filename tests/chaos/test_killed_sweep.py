"""A sweep whose driver is killed six times at random points ends as if nobody had killed it, and repeats no run that was finished."""

import json
import random
import signal
import time
from pathlib import Path

import pytest

from tests.command import start
from tests.tiny import tiny

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1200)]
KILLS, INTERVAL, STEPS = 6, 5, 40
SPEC = tiny(f"""
source: {{paper: chaos, table: sweep}}
train: {{max_steps: {STEPS}, validate_every: 20, checkpoint_every: {INTERVAL}}}
decode: {{beam_size: 1}}
sweep:
  seeds: [1, 2]
  scheduler: {{kind: asha, rungs: [20], reduction_factor: 2.0, shuffle_seed: 3}}
rows:
  base: {{pinned: true}}
  slow: {{optim: {{schedule: {{kind: inverse-sqrt, lr: 1.0e-5, warmup: 10}}}}}}
  linear: {{model: {{encoder: {{aggregation: {{kind: linear}}}}}}}}
  tuned: {{init_from: base, model: {{encoder: {{aggregation: {{kind: iterative}}}}}}}}
""")


def written(results: Path) -> int:
    """Grows with everything that a sweep does: updates, and files of results."""
    return sum(path.read_bytes().count(b"\n") for path in results.glob("*/journal.jsonl")) + len(list(results.glob("*/*/*.json")))


def finished(results: Path) -> dict[Path, bytes]:
    """Journals, records, translations and scores of runs whose training is over."""
    over = [path.parent for path in results.glob("*/train.json")]
    return {
        path: path.read_bytes()
        for run in over
        for pattern in ("*.json*", "decode/*", "score/*")
        for path in run.glob(pattern)
        if "lock" not in path.name and ".tmp" not in path.name
    }


def test_kills_of_the_driver_repeat_no_finished_run(tmp_path, cli):
    spec = tmp_path / "sweep.yaml"
    spec.write_text(SPEC)

    def words(base: str) -> list[object]:
        places = ["--results", tmp_path / base / "results", "--cache-dir", tmp_path / "cache"]
        return ["sweep", spec, "--engine", "local", "--no-tracking", "--json", *places]

    def finish(base: str) -> tuple[dict[tuple[str, int], dict], str]:
        code, out, err = cli(*words(base))
        assert code == 0, err
        records = [json.loads(line) for line in out.splitlines()]
        return {(record["id"].rpartition("/")[2], record["seed"]): record for record in records}, err

    golden, _ = finish("golden")
    results, chance = tmp_path / "killed" / "results", random.Random(8)
    whole = written(tmp_path / "golden" / "results")
    over: dict[Path, bytes] = {}
    kills = during = 0
    while kills < KILLS:
        process = start(*words("killed"))
        goal = written(results) + chance.randrange(1, 2 * whole // KILLS)
        while process.poll() is None and written(results) < goal:
            time.sleep(0.02)
        time.sleep(chance.uniform(0, 0.1))
        ended = process.poll() is not None
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
        if ended:
            break
        kills += 1
        now = finished(results)
        assert over.items() <= now.items(), f"kill {kills}: a finished run was touched"
        during += len(now) > len(over)
        over = now
    assert kills >= KILLS * 2 // 3 and during >= 2  # they were spread over the sweep
    found, _ = finish("killed")
    assert over.items() <= finished(results).items()
    assert found.keys() == golden.keys() and {record["status"] for record in golden.values()} == {"done", "stopped"}
    fields = ("status", "steps", "weights_sha256", "bleu", "keys", "reason")
    for name, record in golden.items():
        assert {field: found[name][field] for field in fields} == {field: record[field] for field in fields}, name
    steps = sum(path.read_bytes().count(b"\n") for path in results.glob("*/journal.jsonl"))
    alone = sum(path.read_bytes().count(b"\n") for path in (tmp_path / "golden" / "results").glob("*/journal.jsonl"))
    assert alone <= steps <= alone + kills * INTERVAL  # of a run under way, what came after its last checkpoint
    again, said = finish("killed")
    assert "0 steps executed" in said and again == found
