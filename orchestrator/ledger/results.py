"""The ledger: every result is a small JSON file under its key. It is the single source of truth; MLflow and tables are derived from it.

    ROOT/TRAIN16/{train,capsule}.json  spec.yaml  rungs/STEP.json  history.jsonl  decode/DECODE16.{json,txt}  {score,tune,search}/KEY16.json
    packed/TABLE.parquet: runs of the product's own results, read-only (see `packed`)
    (beside it, not part of the ledger: journal.jsonl  lock  lock.json  ckpt/  snapshots/  weights/)

Files are named by the first 16 digits of a key; `key` inside holds all of it, and a mismatch is an error. `digest` is the sha256 of the
rest. A damaged file is reported in one line and treated as absent; readers leave it as it is, and the next write of the record renames it
`.corrupt`. A write is durable when it returns, does nothing if the content is already there, and has fault points named after the kind of
record (`train_pre_rename`, `rung_post_rename@40`, ...).
Where the texts of a decoding were left out, as in the product's own results, its record says `has_texts: false`.
"""

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml

from orchestrator.files import atomic
from orchestrator.files.canonical import digest
from orchestrator.files.documents import checked, read_or_tell, sealed, write_document
from orchestrator.files.folders import no_file
from orchestrator.files.json_lines import records_or_warning
from orchestrator.ledger import packed
from orchestrator.ledger.packed import read_bytes
from orchestrator.ledger.records import FOLDERS, Record, RunReader
from orchestrator.ledger.run_lock import RunLock

T = TypeVar("T")


class Ledger:
    """Reads `root`, then `mirrors`; writes to `root` only. `lock`: lock of the run, checked before every write (FencedError).

    `on_bad(path, reason)` is called once for each damaged file (default: a warning on stderr).
    """

    def __init__(
        self, root: Path, mirrors: Sequence[Path] = (), *, lock: RunLock | None = None, on_bad: Callable[[Path, str], None] | None = None
    ) -> None:
        self.root, self.mirrors, self.lock = root, list(mirrors), lock
        self.reader = RunReader(on_bad)

    def run_dir(self, train_key: str) -> Path:
        """Directory to which the run is written. It need not exist."""
        return self.root / checked(train_key)[:16]

    def read_train(self, train_key: str) -> Record | None:
        return self._find(train_key, "train.json", train_key)

    def write_train(self, train_key: str, record: Mapping[str, Any]) -> None:
        """Writes the record. Translations and scores of other weights are set aside before."""
        self._check()
        run = self.run_dir(train_key)
        earlier = self._weights(run, train_key)
        for folder in ("decode", "score", "tune") if earlier not in (None, record.get("weights_sha256")) else ():
            atomic.set_aside(run / folder)
        self._write(train_key, "train.json", train_key, record, "train")

    def read_decode(self, train_key: str, decode_key: str) -> Record | None:
        """The record with its `hypotheses` (one string per sentence); None unless both files are intact and the texts are there."""
        return self._first(train_key, lambda run: self.reader.decoding(run, decode_key))

    def decoding_is_damaged(self, train_key: str, decode_key: str) -> bool:
        """Whether a decoding in `root` is damaged, and no mirror has it."""
        path = self.run_dir(train_key) / "decode" / f"{checked(decode_key)[:16]}.json"
        there = os.path.lexists(path) or os.path.lexists(path.with_suffix(".txt"))
        without_texts = (self.record(train_key, "decode", decode_key) or {}).get("has_texts") is False
        return there and not without_texts and self.read_decode(train_key, decode_key) is None

    def write_decode(self, train_key: str, decode_key: str, record: Mapping[str, Any], hypotheses: Sequence[str]) -> None:
        """Writes the texts first, then the record with their sha256. ValueError for a text with a line feed.

        `tokens` equal to the texts, as without a tokenizer, are not written a second time.
        """
        if any("\n" in line for line in hypotheses):
            raise ValueError("a hypothesis holds a line feed")
        data = "".join(f"{line}\n" for line in hypotheses).encode()
        path = self.run_dir(train_key) / "decode" / f"{checked(decode_key)[:16]}.txt"
        if read_bytes(path) != data:
            packed.refuse_packed(path.parents[1])
            if no_file(path) is not None:
                atomic.set_aside(path)
            atomic.write_bytes(path, data, points="hypotheses", check=self._check)
        about = {"train_key": train_key, "lines": len(hypotheses), "hypotheses_sha256": hashlib.sha256(data).hexdigest()}
        twice = {"hypotheses"} | ({"tokens"} if record.get("tokens") == list(hypotheses) else set())
        bare = {name: value for name, value in record.items() if name not in twice}
        self.write_record(train_key, "decode", decode_key, bare | about)

    def record(self, train_key: str, folder: str, key: str) -> Record | None:
        """A record of the run in `folder`: score, tune, or decode, without its texts (speed, and the sha256 of the hypotheses)."""
        return self._find(train_key, f"{folder}/{checked(key)[:16]}.json", key)

    def write_record(self, train_key: str, folder: str, key: str, record: Mapping[str, Any]) -> None:
        """Writes a record of the run into `folder`: score, tune, search (of an arm, in the folder of its trial 0; see `tuning.choice`), or
        decode, which must say `has_texts: false` without its texts."""
        self._write(train_key, f"{folder}/{checked(key)[:16]}.json", key, {**record, "train_key": train_key}, folder)

    def write_rung(self, train_key: str, step: int, metrics: Mapping[str, Any]) -> None:
        """Commits the metrics of a rung. The first commit of a step is final."""
        if step not in self.read_rungs(train_key):
            self._write(train_key, f"rungs/{step}.json", train_key, {**metrics, "step": step}, "rung", step)

    def read_rungs(self, train_key: str) -> dict[int, Record]:
        """Metrics by step, in ascending order."""
        rungs: dict[int, Record] = {}
        for run in self.places(train_key):
            for path in packed.files(run / "rungs"):
                if path.stem.isdecimal() and int(path.stem) not in rungs and (record := self.reader.record(path, train_key)) is not None:
                    rungs[int(path.stem)] = record
        return dict(sorted(rungs.items()))

    def read_capsule(self, train_key: str) -> Record | None:
        return self._find(train_key, "capsule.json", train_key)

    def write_capsule(self, train_key: str, record: Mapping[str, Any]) -> None:
        self._write(train_key, "capsule.json", train_key, record, "capsule")

    def read_spec(self, train_key: str) -> Record | None:
        """The row that trained this run, as passed to `write_spec`; None, and reported as damaged, if its digest is wrong."""
        return self._first(train_key, self.reader.spec)

    def write_spec(self, train_key: str, spec: Mapping[str, Any]) -> None:
        """Stores a resolved row as spec.yaml, for readers and for `reconcile`."""
        document = sealed(spec, train_key)
        text = yaml.safe_dump({"key": train_key, **document}, sort_keys=False, allow_unicode=True, width=140)
        path = self.run_dir(train_key) / "spec.yaml"
        if read_bytes(path) != text.encode():
            packed.refuse_packed(path.parent)
            if self.reader.spec(path.parent) is None:
                atomic.set_aside(path)
            atomic.write_text(path, text, points="spec", check=self._check)

    def reports(self, train_key: str) -> list[Record]:
        """Every report in the order of writing. Damaged lines are named in a warning and passed over."""

        def read(run: Path) -> list[Record] | None:
            path = run / "history.jsonl"
            return records_or_warning(path, read_bytes(path) or b"") or None

        return self._first(train_key, read) or []

    def history(self, train_key: str) -> list[Record]:
        """Reports in order of steps, one per step: a metric that is reported again after a crash replaces the earlier one."""
        by_step: dict[int, Record] = {}
        for report in self.reports(train_key):
            if isinstance(step := report.get("step"), int):
                by_step[step] = by_step.get(step, {}) | report
        return [by_step[step] for step in sorted(by_step)]

    def runs(self) -> list[str]:
        """The train keys of all runs with at least one readable record. Other files are ignored."""
        keys = (self.reader.key(path) for root in (self.root, *self.mirrors) for path in packed.runs(root))
        return list(dict.fromkeys(key for key in keys if key is not None))

    def records(self, train_key: str, folder: str) -> list[Record]:
        """All records of a run in `folder`: decode (without texts), score, tune, or search."""
        found: dict[str, Record] = {}
        for run in self.places(train_key):
            for path in packed.files(run / folder):
                if packed.RUN.fullmatch(path.stem) and (record := self.reader.record(path)) is not None:
                    found.setdefault(record["key"], record)
        return list(found.values())

    def documents(self, folder: str) -> Iterator[Record]:
        """The sealed documents beside the runs in `folder`, as noise and speed. Damaged ones are named and passed over."""
        for path in (path for root in (self.root, *self.mirrors) for path in sorted((root / folder).glob("*.json"))):
            if packed.RUN.fullmatch(path.stem) and (document := read_or_tell(path)) is not None:
                yield document

    def write_document(self, folder: str, key: str, record: Mapping[str, Any]) -> Path:
        """Writes a sealed document beside the runs. A bucket takes it over when the lock is released."""
        path = self.root / folder / f"{key[:16]}.json"
        with RunLock(path.with_suffix(".lock")).acquire(timeout=30):
            write_document(path, record, key)
        return path

    def remove_temporary(self, train_key: str) -> None:
        """Removes temporary files of killed writers. Only for the holder of the run's lock."""
        run = self.run_dir(train_key)
        for directory in (run, *(run / name for name in FOLDERS)):
            atomic.remove_temporary(directory)

    def places(self, train_key: str) -> list[Path]:
        """Where the run may be, the folder that counts first. A mirror with other weights than the root does not count."""
        own, *others = [root / checked(train_key)[:16] for root in (self.root, *self.mirrors)]
        mine = self._weights(own, train_key) if others else None
        return [own, *(other for other in others if mine is None or self._weights(other, train_key) in (None, mine))]

    def _weights(self, run: Path, train_key: str) -> str | None:
        return (self.reader.record(run / "train.json", train_key) or {}).get("weights_sha256")

    def _first(self, train_key: str, read: Callable[[Path], T | None]) -> T | None:
        return next((found for run in self.places(train_key) if (found := read(run)) is not None), None)

    def _find(self, train_key: str, name: str, key: str) -> Record | None:
        return self._first(train_key, lambda run: self.reader.record(run / name, key))

    def _write(self, train_key: str, name: str, key: str, record: Mapping[str, Any], points: str, step: int | None = None) -> None:
        self._check()
        document = sealed(packed.with_text(record), key)
        path = self.run_dir(train_key) / name
        known = self.reader.record(path, key)
        if known is None or digest(packed.with_text(known)) != document["digest"]:
            packed.refuse_packed(self.run_dir(train_key))
            if known is None:
                atomic.set_aside(path)
            atomic.write_json(path, document, points=points, step=step, check=self._check)

    def _check(self) -> None:
        if self.lock is not None:
            self.lock.check()
