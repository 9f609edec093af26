"""Ledgers of runs that were never trained, in the format of the engines, with `synthetic` in their names and random figures."""

import hashlib
import math
import random
from contextlib import closing
from pathlib import Path
from typing import Any

from orchestrator.files.json_lines import JsonLines
from orchestrator.ledger.results import Ledger
from orchestrator.ledger.sweep_files import SweepFile

CONNECTIONS = ("residual", "dense", "hierarchical", "linear", "iterative")


def fill(results: Path, runs: int, *, name: str = "synthetic/grid", reports: int = 20, seeds: int = 2, spec: Any = None) -> str:
    """Writes a sweep of `runs` runs (rows x seeds) with `reports` reports each and returns its id. `spec`: a resolved spec to vary."""
    chance, ledger, rows = random.Random(name), Ledger(results), []
    for number in range(runs):
        row, seed = f"synthetic-{number // seeds:04d}", number % seeds + 1
        kind, depth = CONNECTIONS[number // seeds % len(CONNECTIONS)], 6 * (1 + number // seeds % 12)
        varied = _with(dict(spec or {"optim": {"peak_lr": 2e-3}}), kind, depth) | {"seed": seed}
        keys = {part: hashlib.sha256(f"{part}:{name}:{number}".encode()).hexdigest() for part in ("train", "decode", "score")}
        address = {"paper": "synthetic", "table": "grid", "row": row}
        label = f"synthetic: {kind}, {depth} layers, random figures"
        rows.append({"id": f"{name}/{row}", "label": label, "seed": seed, "keys": keys, "spec": varied, "also": {}} | address)
        _run(ledger, keys, rows[-1], chance, reports)
    slug = name.replace("/", "-")
    record = {"sweep_id": slug, "name": name, "started": 1_700_000_000.0, "scheduler": {"kind": "fifo"}, "rows": rows}
    SweepFile.of(results, slug).write(record)
    return slug


def _with(spec: dict[str, Any], kind: str, depth: int) -> dict[str, Any]:
    model = dict(spec.get("model") or {"d_model": 64})
    model["encoder"] = dict(model.get("encoder") or {}) | {"num_layers": depth, "connection": {"kind": kind}}
    return spec | {"model": model}


def _run(ledger: Ledger, keys: dict[str, str], row: dict[str, Any], chance: random.Random, reports: int) -> None:
    train, decode, score = keys["train"], keys["decode"], keys["score"]
    bleu, speed = chance.uniform(18, 30), chance.uniform(900, 2500)
    ledger.write_spec(train, {name: row[name] for name in ("id", "seed", "spec", "keys")})
    start = 1_700_000_000.0 + chance.uniform(0, 1e5)
    with closing(JsonLines(ledger.run_dir(train) / "history.jsonl")) as lines:
        for step in range(1, reports + 1):
            loss = 3 + 6 * math.exp(-step / 8) + chance.uniform(-0.05, 0.05)
            lines.append(
                {
                    "step": step * 100,
                    "t": start + step,
                    "train/loss": loss,
                    "train/nll": loss - 1,
                    "train/lr": 2e-3 / math.sqrt(step),
                    "train/tokens_per_second": speed * chance.uniform(0.98, 1.02),
                    "valid/nll": loss - 0.8,
                    "valid/ppl": math.exp(loss - 0.8),
                }
            )
    about = {"key": train, "status": "done", "steps": reports * 100, "params": 10_000_000, "seconds": 600.0, "tokens_per_second": speed}
    ledger.write_capsule(train, {"key": train, "python": "synthetic"})
    ledger.write_train(train, about | {"weights_sha256": train, "reason": ""})
    ledger.write_decode(train, decode, {"sentences_per_second": chance.uniform(10, 40)}, ["synthetic"] * 100)
    ledger.write_record(train, "score", score, {"bleu": bleu, "chrf": {"score": bleu * 1.8}, "signature": "synthetic|nrefs:1|tok:13a"})
