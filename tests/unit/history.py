"""Reports of a run, appended as a training appends them, and a run in a ledger of its own."""

from contextlib import closing
from pathlib import Path
from typing import Any

from orchestrator.files.json_lines import JsonLines
from orchestrator.ledger import packing
from orchestrator.ledger.results import Ledger


def append_history(ledger: Ledger, train_key: str, report: dict[str, Any]) -> None:
    with closing(JsonLines(ledger.run_dir(train_key) / "history.jsonl")) as lines:
        lines.append(report)


def publish(ledger: Ledger, train_key: str, dest: Path, *, texts: bool = True) -> None:
    """Copies the records of a run to the ledger at `dest`. texts: with its translations."""
    packing.write_files(ledger.root, packing.names_of(ledger.run_dir(train_key)), dest)
    for record in [] if texts else ledger.records(train_key, "decode"):
        other, bare = Ledger(dest), {name: value for name, value in record.items() if name not in ("tokens", "hypotheses")}
        (other.run_dir(train_key) / "decode" / f"{record['key'][:16]}.txt").unlink()
        other.write_record(train_key, "decode", record["key"], bare | {"has_texts": False})
