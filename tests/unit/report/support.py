"""Runs as a training leaves them in a ledger, without a training."""

import json
import math
from collections.abc import Sequence
from pathlib import Path

from orchestrator.ledger.results import Ledger
from orchestrator.report.cells import columns
from orchestrator.report.table import Table
from orchestrator.specs.row import Row
from orchestrator.specs.rows import resolve
from orchestrator.sweeps.plan import Data, keys_for


def shown(table: Table) -> dict[str, dict[str, str]]:
    """Name of a row -> its cells by the titles of their columns, each of which is there once."""
    found = columns(table)
    assert len({column.title for column in found}) == len(found)
    lines = zip(*(column.cells for column in found), strict=True)
    return {line[0]: {column.title: cell for column, cell in zip(found, line, strict=True)} for line in lines}


CAPSULE = {"git_commit": "c" * 40, "lock_sha256": "d" * 64, "libraries": {"torch": "2.0"}}


def write_run(
    ledger: Ledger,
    row: Row,
    *,
    hypotheses: Sequence[str] = ("a",),
    bleu: float | None = None,
    status: str = "",
    params: int = 1000,
    reports: Sequence[dict] = (),
) -> None:
    """A run of the row with its seed: by default stopped without a `bleu`. reports: lines of its history."""
    keys = keys_for(row, Data(None))
    ledger.write_spec(keys.train, {"id": row.id, "seed": row.spec.seed, "spec": row.spec.model_dump(), "keys": keys.as_dict()})
    status = status or ("stopped" if bleu is None else "done")
    speed = 90.0 + row.spec.seed + params / 100
    reason = {"diverged": "loss", "stopped": "stopped at step 4"}.get(status, "")
    ledger.write_train(keys.train, {"status": status, "steps": 4, "params": params, "tokens_per_second": speed, "reason": reason})
    ledger.write_capsule(keys.train, CAPSULE)
    (ledger.run_dir(keys.train) / "history.jsonl").write_text("".join(json.dumps(each) + "\n" for each in reports))
    if bleu is not None:
        ledger.write_decode(keys.train, keys.decode, {"sentences_per_second": 5.0}, list(hypotheses))
        ledger.write_record(keys.train, "score", keys.score, {"decode_key": keys.decode, "bleu": bleu, "signature": "BLEU|x"})


def many_rows(folder: Path, rows: int, seeds: int, sentences: int = 50) -> tuple[Path, Path]:
    """A table's file and a ledger in which all of its rows are done. Curves have 60 points, sentences 15 words."""
    names = [f"fusion-{'linear' if n % 2 else 'hierarchical'}-both-sides-{n}" for n in range(rows)]
    lines = "".join(f"  {name}: {{label: 'layers joined in way {n}', model: {{d_ff: {16 + 8 * n}}}}}\n" for n, name in enumerate(names))
    file, root = folder / "many.yaml", folder / "results"
    file.write_text(
        "source: {paper: demo, table: many}\n"
        "data: {corpus: toy-smoke, subword: {kind: word, size: 200}, vocab: {src: 200, tgt: 200}}\n"
        "model: {d_model: 16, d_ff: 32, num_heads: 2, encoder: {num_layers: 2}, decoder: {num_layers: 2}}\n"
        "train: {max_steps: 300, validate_every: 5, checkpoint_every: 300}\n"
        f"sweep: {{seeds: {seeds}}}\nrows:\n{lines}"
    )
    ledger = Ledger(root)
    for n, row in enumerate(resolve(file)):
        for seed in range(1, seeds + 1):
            losses = [2.0 + 6.123456 * math.exp(-step / (100 + n)) + seed / 97 for step in range(5, 301, 5)]
            names_ = ("valid/nll", "train/nll")
            reports = [{"step": 5 * i + 5} | {name: loss + j for j, name in enumerate(names_)} for i, loss in enumerate(losses)]
            said = [" ".join(f"word{(i * k + n * seed) % 89}" for k in range(1, 16)) for i in range(sentences)]
            write_run(ledger, row.at(seed), hypotheses=said, bleu=20 + n / 10 + seed / 7, params=1000 + 80 * n, reports=reports)
    return file, root
