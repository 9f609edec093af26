"""The specs and keys that a ledger records: digests by which a row finds its runs where its data is absent, and its other seeds."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from orchestrator.files.canonical import digest
from orchestrator.ledger import packed, superseded, sweep_files
from orchestrator.ledger.index import Index
from orchestrator.ledger.packed import read_bytes
from orchestrator.ledger.results import Ledger
from orchestrator.specs.schema import RunSpec, ScoreSpec

_KEY = re.compile(rb"^  (?:train|decode|score|tune): '?([0-9a-f]{64})'?$", re.MULTILINE)


class Entry(NamedTuple):
    """One run with its scoring. others: (meaning, keys) of its other scorings."""

    seed: int
    meaning: str
    search: str
    training: str
    init_from: str | None
    keys: dict[str, str | None]
    others: list[tuple[str, dict[str, str | None]]]


def entries(ledger: Ledger) -> Iterator[Entry]:
    """From sweep files, then from the spec.yaml of runs whose keys no sweep file contains."""
    said: set[frozenset[str]] = set()
    roots = (ledger.root, *ledger.mirrors)
    indexes = [Index(root, "specs") for root in roots]
    for root, index in zip(roots, indexes, strict=True):
        for path in sweep_files.paths(root):
            for keys, entry in index.of(path, functools.partial(_of_sweep, path)) or []:
                said.add(frozenset(keys))
                if entry is not None:
                    yield Entry(*entry)
    seen: set[str] = set()
    for root, index in zip(roots, indexes, strict=True):
        for name in (path.name for path in packed.runs(root)):
            if name in seen or (root != ledger.root and superseded.folders(ledger.root, name)):
                continue
            good = lambda value: value[1] is not None or frozenset(value[0]) in said  # noqa: E731
            value = index.of(root / name / "spec.yaml", functools.partial(_of_run, ledger, root / name, said), good)
            if value is not None:
                seen.add(name)
                if value[1] and frozenset(value[0]) not in said:
                    yield Entry(*value[1])
        index.save()


def _of_sweep(path: Path) -> list[Any] | None:
    """[[keys, entry]] of each row of a sweep file; entry: None if this version cannot read the spec."""
    record = sweep_files.read_or_tell(path)
    return None if record is None else [[sorted(key for key in row["keys"].values() if key), _entry(row)] for row in record["rows"]]


def _of_run(ledger: Ledger, run: Path, said: set[frozenset[str]]) -> list[Any] | None:
    """[keys, entry] of a run's spec.yaml; entry: None where `said` has the keys, [] if this version cannot read the spec."""
    text = read_bytes(run / "spec.yaml") or b""
    keys = sorted(key.decode() for key in _KEY.findall(text))
    if frozenset(keys) in said:
        return [keys, None]
    whole = re.search(rb"^key: '?([0-9a-f]{64})'?$", text, re.MULTILINE)
    if whole is None or not whole[1].decode().startswith(run.name):
        return None
    record = ledger.read_spec(whole[1].decode())
    return None if record is None else [keys, _entry(record) or []]


def _entry(record: Mapping[str, Any]) -> Entry | None:
    try:
        plain = dict(record["spec"])
        seed = int(plain.pop("seed"))
        also = [other for other in (record.get("also") or {}).values() if "score" in other]
        spec, meaning, search, training = _validated(json.dumps(plain, sort_keys=True))
        others = [(meaning_of(spec.model_copy(update={"score": ScoreSpec.model_validate(o["score"])})), dict(o["keys"])) for o in also]
        return Entry(seed, meaning, search, training, spec.init_from, dict(record["keys"]), others)
    except (ValidationError, KeyError, TypeError, ValueError, AttributeError):
        return None  # written by a version with other spec fields


@functools.lru_cache(maxsize=256)
def _validated(text: str) -> tuple[RunSpec, str, str, str]:
    """Of a spec without its seed, as JSON, which the seeds of a row share."""
    spec = RunSpec.model_validate(json.loads(text))
    return spec, meaning_of(spec), search_of(spec), training_of(spec)


def meaning_of(spec: RunSpec) -> str:
    return digest(spec.model_dump(mode="json", exclude={"seed"}))


def search_of(spec: RunSpec) -> str:
    """Digest shared by rows that differ at most in seed, scoring and the address of the parent row."""
    return digest(spec.model_dump(mode="json", exclude={"seed", "score", "init_from"}))


def training_of(spec: RunSpec) -> str:
    """Digest shared by rows that may share a training: seed, decoding, scoring and the address of the parent row may differ."""
    return digest(spec.model_dump(mode="json", exclude={"seed", "decode", "score", "init_from"}))
