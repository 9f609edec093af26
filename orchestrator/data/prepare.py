"""Prepares the token ids of a DataSpec once per content: hashes the text, builds in a temporary directory, then renames it."""

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from filelock import FileLock

from orchestrator.data import existing, oddities, sentences, store, toy
from orchestrator.data.build import build
from orchestrator.data.integrity import DamagedError, file_hash, sha256_of
from orchestrator.data.store import Prepared
from orchestrator.data.text import CorpusText
from orchestrator.errors import UserError
from orchestrator.files import atomic
from orchestrator.files.canonical import digest
from orchestrator.files.documents import sealed
from orchestrator.files.folders import make
from orchestrator.ledger.keys import without_grown
from orchestrator.safe_text import log
from orchestrator.specs.corpora import REQUIRED, CorpusEntry, load_entry
from orchestrator.specs.languages import primary_subtag
from orchestrator.specs.schema import DataSpec
from orchestrator.specs.text_form import RAW

FORMAT = 1
"""Increased when equal text and options give different ids."""
CHANGED = "corpus {}: its text changed since this command began; start the command again, which finds the results of the new text"


def manifest(data: DataSpec, data_dir: Path | None) -> dict[str, Any] | None:
    """Everything that determines the prepared data: hashes of the text (or the generator's parameters) and options.

    Names, paths and declared vocabulary sizes are excluded, and so are absent test sets other than `test`. Returns None if a required file
    is absent. Raises UserError for an unknown corpus.
    """
    entry = load_entry(data.corpus)
    if entry.generated is not None:
        text = {"generator": toy.GENERATOR_VERSION, "parameters": entry.generated.model_dump(mode="json")}
        return about(data, data_dir) | {"text": text, "tests": {}}
    hashes = _hashes(entry, data_dir)
    if any(name not in hashes for name in REQUIRED):
        return None
    raw = {name: sums for name in entry.splits if (sums := [file_hash(path) for path in entry.raw_references(name, data_dir)])}
    found = about(data, data_dir) | ({"raw": raw} if raw else {})
    return found | {"text": {name: hashes.pop(name) for name in ("train", "valid")}, "tests": hashes}


def about(data: DataSpec, data_dir: Path | None) -> dict[str, Any]:
    """The part of a manifest that does not depend on the text."""
    entry = load_entry(data.corpus)
    options = without_grown("data", data.model_dump(mode="json", exclude={"corpus", "vocab"}))
    if data.subword.existing:
        if entry.documents is not None:
            raise UserError(f"data.subword.{'model' if data.subword.model else 'dictionary'}: found one, but {entry.name} has documents")
        files = existing.files(data.subword, data_dir)
        sums = {name: [sha256_of(path) for path in paths] for name, paths in files.items()}
        options["subword"] = {"kind": data.subword.kind, "joint": data.subword.joint} | sums
    found: dict[str, Any] = {"format": FORMAT, "languages": [primary_subtag(entry.src), primary_subtag(entry.tgt)], "preparation": options}
    declared: dict[str, Any] = {"form": None if entry.text == RAW else entry.text, "pieces": entry.pieces, "normal_form": entry.normal_form}
    declared["documents"] = None if entry.documents is None else entry.documents.model_dump() | {"rule": sentences.RULE}
    declared["cleaned"] = None if entry.cleaned is None else entry.cleaned.model_dump(exclude_defaults=True)
    return found | {name: value for name, value in declared.items() if value is not None}


def prepare(data: DataSpec, data_dir: Path | None, cache_dir: Path, *, verify: bool = False, expected: str | None = None) -> Prepared:
    """Returns the prepared corpus and builds it if `cache_dir` has none or a damaged one. Concurrent processes wait for the first.

    verify: read every file now; by default sizes tell damage, and contents are verified when they are opened. expected: its key, if known.
    Raises UserError for absent, malformed or changed text, which leaves no files behind.
    """
    source_manifest = manifest(data, data_dir)
    entry = load_entry(data.corpus)
    if source_manifest is None:
        raise UserError(entry.missing_message(REQUIRED, data_dir))
    key = digest(source_manifest)
    if expected not in (None, key):
        raise UserError(CHANGED.format(data.corpus))
    folder = cache_dir / key[:16]
    with contextlib.suppress(DamagedError):
        if (prepared := _load_prepared(folder, key, verify)) is not None:
            return prepared
    make(cache_dir, "--cache-dir")
    with FileLock(cache_dir / f".{key[:16]}.lock"):
        try:
            if (prepared := _load_prepared(folder, key, verify)) is not None:
                return prepared
        except DamagedError as error:
            log(f"warning: {error.about}; it is prepared again from its source")
        for leftover in cache_dir.glob(f".{key[:16]}.*.tmp"):
            atomic.remove(leftover)
        return _build(data, CorpusText(entry, data_dir, list(source_manifest["tests"])), source_manifest, key, folder)


def _load_prepared(folder: Path, key: str, verify: bool) -> Prepared | None:
    """Returns the prepared corpus; None if it does not exist. Raises DamagedError."""
    if (prepared := store.load(folder, key)) is not None:
        prepared.files.check(contents=verify)
    return prepared


def _build(data: DataSpec, text: CorpusText, source_manifest: dict[str, Any], key: str, folder: Path) -> Prepared:
    with atomic.replacing(folder) as tmp, atomic.naming(folder):
        tmp.mkdir()
        next(text.rows("train"), None)  # a fault of train is named first
        watch = None if text.entry.generated is not None else oddities.Watch(text, ["train", *text.held_out])
        train = text.rows("train") if watch is None else watch.train()
        stats = build(data, source_manifest, text, tmp, train)
        if manifest(data, text.data_dir) != source_manifest:
            raise UserError(CHANGED.format(data.corpus))
        if watch is not None:
            stats["leaked"] = watch.leaked()
            log(*(f"warning: {line}" for line in watch.warnings()))
        sizes = {path.name: path.stat().st_size for path in sorted(tmp.iterdir())}
        sums = {name: sha256_of(tmp / name) for name in sizes}
        content = sealed({"manifest": source_manifest, "stats": stats, "files": sizes, "sha256": sums}, key)
        (tmp / store.ABOUT).write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        for path in tmp.iterdir():
            with path.open("rb") as file:
                os.fsync(file.fileno())
        atomic.fsync_dir(tmp)
        atomic.remove(folder)  # damaged, incomplete, or of an earlier version
    return Prepared(folder, content)


def _hashes(entry: CorpusEntry, data_dir: Path | None) -> dict[str, list[str]]:
    """Hashes of source and references of each complete split; for CSV files also the columns and records."""
    found = {}
    for name, split in entry.splits.items():
        if not entry.lacks([name], data_dir):
            found[name] = [file_hash(path) for path in entry.locate(name, data_dir)]
            if entry.csv is not None:
                found[name] += [entry.csv.src, entry.csv.tgt, *(str(n) for n in split.records or ())]
    return found
