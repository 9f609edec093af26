"""Reads the files in the folder of a run. A damaged one is reported in one line and counts as absent."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

from orchestrator.files.documents import checked, key_in
from orchestrator.ledger import packed
from orchestrator.ledger.keys import short
from orchestrator.ledger.packed import read_bytes
from orchestrator.ledger.records import DamagedError, Record, read_record, read_spec
from orchestrator.safe_text import log_once


class RunReader:
    """`on_bad(path, reason)` is called once for each damaged file (default: a warning on stderr)."""

    def __init__(self, on_bad: Callable[[Path, str], None] | None = None) -> None:
        self.on_bad = _say if on_bad is None else on_bad
        self._told: set[Path] = set()

    def record(self, path: Path, key: str | None = None) -> Record | None:
        """Reads one record as `read_record` does; None if it is damaged."""
        try:
            return read_record(path, key)
        except DamagedError as error:
            self.tell(path, str(error))
            return None

    def decoding(self, run: Path, decode_key: str) -> Record | None:
        """A decoding with its `hypotheses`; None unless both files are intact and `export` kept the texts."""
        path = run / "decode" / f"{short(checked(decode_key))}.json"
        record, data = self.record(path, decode_key), read_bytes(path.with_suffix(".txt"))
        if record is None or not record.get("has_texts", True):
            return None
        if data is None or hashlib.sha256(data).hexdigest() != record.get("hypotheses_sha256"):
            self.tell(path.with_suffix(".txt"), "not the hypotheses of the record beside it (missing or damaged)")
            return None
        lines = data.decode().split("\n")[:-1]
        return {"tokens": lines} | record | {"hypotheses": lines}

    def spec(self, run: Path) -> Record | None:
        try:
            return read_spec(run / "spec.yaml")
        except DamagedError as error:
            self.tell(run / "spec.yaml", str(error))
            return None

    def file(self, run: Path, name: str, key: str) -> Path | None:
        """The intact file from which the record of this key is read; None if there is none. name: of the file in the run's folder."""
        if name == "spec.yaml":
            found = self.spec(run)
        else:
            found = self.decoding(run, key) if name.endswith(".txt") else self.record(run / name, key)
        return None if found is None else _as_file(run, name)

    def key(self, run: Path) -> str | None:
        """The train key that the run's readable records state; None without one."""
        names = (run / "train.json", run / "capsule.json", *packed.files(run / "rungs"))
        found = (key_in(self.record(path), run.name) for path in names)
        return next((key for key in found if key is not None), None) or key_in(self.spec(run), run.name)

    def tell(self, path: Path, reason: str) -> None:
        """Reports a damaged file."""
        if path not in self._told:
            self._told.add(path)
            self.on_bad(path, reason)


def _as_file(run: Path, name: str) -> Path | None:
    """The file of a run; for a packed run a copy in the user's cache."""
    if (run / name).is_file():
        return run / name
    from orchestrator.ledger import packing  # deferred: it imports numpy and pyarrow

    folder = packing.as_folder(run)
    return None if folder is None else folder / name


def _say(path: Path, reason: str) -> None:
    log_once(f"warning: {path}: {reason}; it counts as absent until `nmt-ablate run` of its row writes it again")
