"""`nmt-ablate data get NAME`: fetches a corpus from the Hugging Face Hub or sacreBLEU and writes it in the layout of its entry.

Text that differs from the entry's `pairs` or `sha256` is refused, and none of its files is written. `provenance.json` tells their origin.
"""

import contextlib
import csv
import json
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from itertools import zip_longest
from pathlib import Path
from typing import Any

from filelock import FileLock

from orchestrator.data import sacrebleu_sets
from orchestrator.data.formats import Columns, Row, one_line
from orchestrator.data.hub import Unreachable, delivered
from orchestrator.data.integrity import file_hash, file_lines
from orchestrator.errors import UserError
from orchestrator.files import atomic
from orchestrator.specs.corpora import REQUIRED, CorpusEntry, HuggingFace, SacreBleu, load_entry


def get(name: str, data_dir: Path | None, log: Callable[[str], None] = lambda line: None) -> list[Path]:
    """Fetches the missing splits of a corpus. Returns the files written, none if all exist.

    Each split comes from the first source of the entry that has it and works; a source that does not answer is asked once. Raises UserError
    for files that the user must supply (with their layout), a missing network, and text that is not the entry's, fetched or present.
    """
    entry = load_entry(name)
    if entry.generated is not None or not entry.sources:
        return []
    if data_dir is None:
        raise UserError(f"data get {name} needs --data-dir DIR, the directory to write to")
    written: list[Path] = []
    failures: dict[str, list[str]] = {}
    dead: dict[int, str] = {}  # number of a source -> why it does not answer
    for split in entry.splits:
        if not entry.lacks([split], data_dir):
            paths = entry.locate(split, data_dir)
            if fault := _fault(entry, split, paths, paths):
                failures.setdefault(f"{fault}; remove it, then {entry.how()}", []).append(split)
            continue
        sources = [(n, s) for n, s in enumerate(entry.sources) if isinstance(s, HuggingFace | SacreBleu) and split in s.splits]
        reasons = [] if sources or split not in REQUIRED else [entry.how()]
        for number, source in sources:
            if number in dead:
                reasons.append(dead[number])
                continue
            log(f"{name}: {split} from {source.kind}")
            try:
                written += _write(entry, data_dir, split, source)
                reasons = []
                break
            except UserError as error:
                reasons.append("; ".join(error.lines))
                if isinstance(error, Unreachable):
                    dead[number] = reasons[-1]
                if (number, source) != sources[-1]:
                    log(f"{name}: {split}: {reasons[-1]}; another source is tried")
        if reasons:
            failures.setdefault("; or: ".join(reasons), []).append(split)
    if failures:
        raise UserError(*(f"{name} ({', '.join(splits)}): {reason}" for reason, splits in failures.items()))
    return written


def _write(entry: CorpusEntry, data_dir: Path, split: str, source: HuggingFace | SacreBleu) -> list[Path]:
    names = entry.splits[split].files if entry.csv is None else [entry.splits[split].src]
    folder = data_dir / entry.folders[0]
    paths = [folder / name for name in names]
    with atomic.naming(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / ".get.lock"):
            atomic.remove_temporary(folder)
            if isinstance(source, SacreBleu):
                origin: dict[str, Any] = {"sacrebleu": source.splits[split], "langpair": source.langpair}
                _write_rows(entry, split, sacrebleu_sets.rows(source.splits[split], source.langpair), paths)
            else:
                origin = {}
                columns = Columns((entry.src, entry.tgt), (source.columns.src, source.columns.tgt) if source.columns else ())
                _write_rows(entry, split, delivered(source, split, columns, origin), paths)
            _record(folder, paths, origin)
    return paths


def _write_rows(entry: CorpusEntry, split: str, rows: Iterable[Row], paths: Sequence[Path]) -> None:
    count = 0
    with contextlib.ExitStack() as stack:
        temporary = [stack.enter_context(atomic.replacing(path)) for path in paths]
        outs = [stack.enter_context(path.open("w", encoding="utf-8", newline="")) for path in temporary]
        records = csv.writer(outs[0])
        if entry.csv is not None:
            records.writerow([entry.csv.src, entry.csv.tgt])
        for row in rows:
            count += 1
            if entry.csv is not None:
                records.writerow(row)
            elif len(row) != len(outs):
                raise UserError(f"found {len(row) - 1} references, expected {len(outs) - 1}")
            else:
                for out, text in zip(outs, row, strict=True):
                    out.write(one_line(text) + "\n")
        if not count:
            raise UserError("the source delivered no pairs")
        for out in outs:
            out.flush()
        if fault := _fault(entry, split, paths, temporary, records=count):
            raise UserError(fault)


def _record(folder: Path, paths: Sequence[Path], origin: dict[str, Any]) -> None:
    """Adds to `provenance.json` of the folder where these files came from: source, revision, time, and the sha256 of each file."""
    path = folder / "provenance.json"
    known: dict[str, Any] = {}
    with contextlib.suppress(OSError, ValueError):
        known = json.loads(path.read_text(encoding="utf-8"))
    time = datetime.now(UTC).isoformat(timespec="seconds")
    atomic.write_json(path, known | {file.name: {"sha256": file_hash(file), "source": origin, "time": time} for file in paths})


def _fault(entry: CorpusEntry, split: str, paths: Sequence[Path], texts: Sequence[Path], records: int | None = None) -> str | None:
    """A line for the first of `paths` whose text, now in `texts`, has not the number of pairs or the sha256 of the entry.

    records: number of records of a CSV file; without it, these are not compared.
    """
    expected = entry.splits[split]
    for path, text, digest in zip_longest(paths, texts, (expected.sha256 or [])[: len(paths)]):  # two of one CSV file
        lines = file_lines(text) if entry.csv is None else records
        if None not in (lines, expected.pairs) and expected.records is None and lines != expected.pairs:
            return f"{path}: found {lines:,} pairs, expected {expected.pairs:,}"
        if digest is not None and (found := file_hash(text)) != digest:
            return f"{path}: found sha256 {found[:16]}.., expected {digest[:16]}.."
    return None
