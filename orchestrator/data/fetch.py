"""`nmt-ablate data get NAME`: fetches a corpus from HuggingFace or sacreBLEU and writes it in the layout of its entry.

HuggingFace's library is optional. Without it, or without a network, the error is one line.
"""

from __future__ import annotations

import contextlib
import csv
import io
import secrets
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from orchestrator.data.corpus import iter_lines
from orchestrator.errors import UserError
from orchestrator.specs.corpora import REQUIRED, CorpusEntry, Generated, HuggingFace, SacreBleu, Source, User, load_entry

Progress = Callable[[str], None]
Rows = Iterable[tuple[str, ...]]


def get(name: str, data_dir: Path | None, on_progress: Progress | None = None) -> list[Path]:
    """Fetches the missing splits of a corpus. Returns the files written, none if all exist.

    Each split comes from the first source of the entry that has it and works. Raises UserError for files that the user must supply (with
    their layout), a missing library, or a missing network.
    """
    log = on_progress or (lambda line: None)
    entry = load_entry(name)
    if entry.generated is not None:
        log(f"{name} is generated; nothing to fetch")
        return []
    if not entry.sources:
        log(f"{name}: your own files; nothing to fetch")
        return []
    if data_dir is None:
        raise UserError(f"data get {name} needs --data-dir DIR, the directory to write to")
    written: list[Path] = []
    failures: dict[str, list[str]] = {}
    for split, files in entry.splits.items():
        if all(entry.find(file, data_dir) for file in files.files):
            continue
        sources = [source for source in entry.sources if not isinstance(source, (User, Generated)) and split in source.splits]
        reasons = [] if sources or split not in REQUIRED else [entry.how()]
        for source in sources:
            try:
                log(f"{name}: {split} from {source.kind}")
                written += _write(entry, data_dir, split, _rows(source, split))
                reasons = []
                break
            except UserError as error:
                reasons += error.lines
        if reasons:
            failures.setdefault("; or: ".join(reasons), []).append(split)
    if failures:
        raise UserError(*(f"{name} ({', '.join(splits)}): {reason}" for reason, splits in failures.items()))
    return written


def _write(entry: CorpusEntry, data_dir: Path, split: str, rows: Rows) -> list[Path]:
    """Writes the files of a split, or its CSV file, each completely or not at all."""
    names = entry.splits[split].files if entry.csv is None else [entry.splits[split].src]
    paths = [data_dir / entry.folders[0] / name for name in names]
    paths[0].parent.mkdir(parents=True, exist_ok=True)
    temporary = [path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp") for path in paths]
    try:
        with contextlib.ExitStack() as stack:
            outs = [stack.enter_context(tmp.open("w", encoding="utf-8", newline="")) for tmp in temporary]
            records = None if entry.csv is None else csv.writer(outs[0])
            if records is not None and entry.csv is not None:
                records.writerow([entry.csv.src, entry.csv.tgt])
            delivered = False
            for row in rows:
                delivered = True
                if records is not None:
                    records.writerow(row)
                elif len(row) != len(outs):
                    raise UserError(f"found {len(row) - 1} references, expected {len(outs) - 1}")
                else:
                    for out, text in zip(outs, row, strict=True):
                        out.write(" ".join(text.replace("\0", " ").splitlines()) + "\n")
            if not delivered:
                raise UserError("the source delivered no pairs")
        for tmp, path in zip(temporary, paths, strict=True):
            tmp.replace(path)
    finally:
        for tmp in temporary:
            tmp.unlink(missing_ok=True)
    return paths


def _rows(source: Source, split: str) -> Iterator[tuple[str, ...]]:
    """Yields source and references of each pair. Raises UserError if the library fails."""
    try:
        if isinstance(source, HuggingFace):
            yield from _huggingface(source, split)
        elif isinstance(source, SacreBleu):
            yield from _sacrebleu(source, split)
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        reason = " ".join(str(error).split())[:200]
        cause = f"{type(error).__name__}: {reason}"
        raise UserError(f"{source.kind} could not deliver it; is there a network? ({cause})") from None


def _huggingface(source: HuggingFace, split: str) -> Iterator[tuple[str, ...]]:
    try:
        import datasets
    except ImportError:
        raise UserError("needs the HuggingFace library; install it with: pip install datasets") from None
    options: dict[str, Any] = {"revision": source.revision} if source.revision else {}
    if source.data_files:
        options["data_files"] = source.data_files
    table = datasets.load_dataset(source.id, source.config, split=source.splits[split], **options)
    for record in table:
        texts = record[source.field] if source.field else record
        yield texts[source.columns["src"]], texts[source.columns["tgt"]]


def _sacrebleu(source: SacreBleu, split: str) -> Iterator[tuple[str, ...]]:
    from sacrebleu.utils import get_reference_files, get_source_file

    name = source.splits[split]
    with contextlib.redirect_stdout(io.StringIO()):
        paths = [get_source_file(name, source.langpair), *get_reference_files(name, source.langpair)]
    yield from zip(*(iter_lines(Path(path)) for path in paths), strict=True)
