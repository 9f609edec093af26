"""From a DataSpec to token ids, once per content: hash, then build in a temporary directory, then rename."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from orchestrator.data import sentences, store, toy
from orchestrator.data.build import Progress, build
from orchestrator.data.hashes import file_hash
from orchestrator.data.integrity import sha256_of
from orchestrator.data.store import Prepared
from orchestrator.data.text import Text, text_of
from orchestrator.errors import UserError
from orchestrator.ledger.keys import manifest_key, without_grown
from orchestrator.specs.corpora import REQUIRED, Entry, load_entry
from orchestrator.specs.schema import DataSpec
from orchestrator.specs.text_form import RAW

FORMAT = 1
"""Raised when equal text and equal options give other ids."""


def manifest(data: DataSpec, data_dir: Path | None) -> dict[str, Any] | None:
    """What decides the prepared data: hashes of the text (or the generator's parameters) and the options. None while a file is absent.

    Names and paths do not enter, nor do the declared vocabulary sizes. Test sets that are not there are left out, `test` itself is needed.
    UserError for an unknown corpus.
    """
    entry = load_entry(data.corpus)
    options = without_grown("data", data.model_dump(mode="json", exclude={"corpus", "vocab"}))
    found = {"format": FORMAT, "languages": [entry.src, entry.tgt], "preparation": options}
    if entry.documents is not None:
        found["documents"] = entry.documents.model_dump() | {"rule": sentences.RULE}
    if entry.text != RAW:
        found["form"] = entry.text
    if entry.generated is not None:
        return found | {"text": toy.manifest(entry.generated), "tests": {}}
    hashes = _hashes(entry, data_dir)
    if any(name not in hashes for name in REQUIRED):
        return None
    if raw := _raw_hashes(entry, data_dir):
        found["raw"] = raw
    return found | {"text": {name: hashes.pop(name) for name in ("train", "valid")}, "tests": hashes}


def prepare(data: DataSpec, data_dir: Path | None, cache_dir: Path, on_progress: Progress | None = None) -> Prepared:
    """The prepared corpus, built if `cache_dir` does not have it. Processes that race wait for the first, or the first to finish wins.

    `on_progress(stage, done, total)`; total is None where it is not known. UserError for absent or malformed text: nothing is left behind,
    and for a file of another size than written.
    """
    about = manifest(data, data_dir)
    entry = load_entry(data.corpus)
    if about is None:
        raise UserError(entry.missing_message(REQUIRED, data_dir))
    key = manifest_key(about)
    place = cache_dir / key[:16]
    if (ready := _ready(place, key)) is not None:
        return ready
    with _locked(cache_dir / f".{key[:16]}.lock") as alone:
        if (ready := _ready(place, key)) is not None:
            return ready
        if alone:
            for leftover in cache_dir.glob(f".{key[:16]}.*.tmp"):
                shutil.rmtree(leftover, ignore_errors=True)
        return _build(data, text_of(entry, data_dir, list(about["tests"])), about, key, place, on_progress)


def _ready(place: Path, key: str) -> Prepared | None:
    ready = store.load(place, key)
    if ready is not None:
        ready.files.check_sizes()
    return ready


def _build(data: DataSpec, text: Text, about: dict[str, Any], key: str, place: Path, on_progress: Progress | None) -> Prepared:
    tmp = place.with_name(f".{place.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    tmp.mkdir()
    ways: dict[str, Any] = ({"documents": True} if "documents" in about else {}) | ({"form": about["form"]} if "form" in about else {})
    try:
        stats = build(data, text, about["languages"], tmp, on_progress or (lambda stage, done, total: None), **ways)
        sizes = {path.name: path.stat().st_size for path in sorted(tmp.iterdir())}
        sums = {name: sha256_of(tmp / name) for name in sizes}
        content: dict[str, Any] = {"key": key, "manifest": about, "stats": stats, "files": sizes, "sha256": sums}
        content[store.OWN] = store.own_sum(json.loads(json.dumps(content)))
        (tmp / store.ABOUT).write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        for path in (*tmp.iterdir(), tmp):
            _fsync(path)
        _publish(tmp, place, key)
        _fsync(place.parent)
    finally:
        shutil.rmtree(tmp, ignore_errors=True)
    ready = store.load(place, key)
    if ready is None:
        raise UserError(f"{place}: the prepared data vanished or changed while it was written; is something else cleaning that directory?")
    return ready


def _publish(tmp: Path, place: Path, key: str) -> None:
    """Renames into place. A whole store that came first stays; a damaged one is moved aside."""
    try:
        tmp.rename(place)
    except OSError:
        if store.load(place, key) is not None:
            return
        aside = place.with_name(f"{tmp.name.removesuffix('.tmp')}-old.tmp")
        place.rename(aside)
        tmp.rename(place)
        shutil.rmtree(aside, ignore_errors=True)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[bool]:
    """Exclusive among processes of this machine; False where the file system has no locks (the rename decides then).

    Makes the folder. UserError where it cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        opened = path.open("wb")
    except OSError as error:
        raise UserError(f"--cache-dir {path.parent}: cannot be written: {error.strerror}; expected a folder for prepared corpora") from None
    with opened as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError:
            yield False
            return
        yield True


def _hashes(entry: Entry, data_dir: Path | None) -> dict[str, list[str]]:
    """Hashes of source and references of each split whose files are all there; of CSV files the columns and records too."""
    found = {}
    for name, split in entry.splits.items():
        if data_dir is None:
            break
        paths = [entry.find(file, data_dir) for file in split.files]
        if None not in paths:
            found[name] = [file_hash(path) for path in paths if path is not None]
            if entry.csv is not None:
                found[name] += [entry.csv.src, entry.csv.tgt, *(str(n) for n in split.records or ())]
    return found


def _raw_hashes(entry: Entry, data_dir: Path | None) -> dict[str, list[str]]:
    """Of the raw references of each split that has them all."""
    found = {}
    for name in entry.splits:
        if data_dir is not None and (paths := entry.raw_references(name, data_dir)):
            found[name] = [file_hash(path) for path in paths]
    return found


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
