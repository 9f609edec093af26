"""The specs and keys that a ledger records. By their digests a row finds its other seeds, and its runs if its data is absent."""

import functools
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pydantic import ValidationError

from orchestrator.files.canonical import digest
from orchestrator.ledger import packed, sweep_files
from orchestrator.ledger.keys import Keys, without_former
from orchestrator.ledger.packed import read_bytes
from orchestrator.ledger.results import Ledger
from orchestrator.specs.schema import RunSpec, ScoreSpec

_KEY = re.compile(rb"^  (?:train|decode|score|tune): '?([0-9a-f]{64})'?$", re.MULTILINE)
_CORPUS = re.compile(rb"^  data:\n    corpus: ['\"]?(.*?)['\"]?$", re.MULTILINE)


class Entry(NamedTuple):
    """One run with its scoring. id: address of the row. others: (meaning, keys) of its other scorings."""

    id: str
    seed: int
    meaning: str
    search: str
    training: str
    init_from: str | None
    keys: Keys
    others: list[tuple[str, Keys]]


def entries(ledger: Ledger, corpus: str) -> Iterator[Entry]:
    """Yields entries from sweep files, the latest first, then from the spec.yaml of runs that no sweep file contains. It skips specs with
    another corpus, because parsing a thousand specs takes seconds."""
    said: set[frozenset[str]] = set()
    seen: set[str] = set()
    roots = (ledger.root, *ledger.mirrors)
    for path in (path for root in roots for path in sorted(sweep_files.paths(root), key=lambda path: -path.stat().st_mtime)):
        for row in sweep_files.asked(sweep_files.read_or_tell(path) or {}).values():
            said.add(frozenset(key for key in row["keys"].values() if key))
            if (entry := _entry(row, corpus)) is not None:
                yield entry
    for run in (run for root in roots for run in packed.runs(root)):
        if run.name in seen:
            continue
        text = read_bytes(run / "spec.yaml") or b""
        if (stated := _CORPUS.search(text)) is not None and stated[1] != corpus.encode():
            continue
        if frozenset(key.decode() for key in _KEY.findall(text)) in said:
            seen.add(run.name)
            continue
        key = re.search(rb"^key: '?([0-9a-f]{64})'?$", text, re.MULTILINE)
        whole = "" if key is None else key[1].decode()
        if whole.startswith(run.name) and (record := ledger.read_spec(whole)) is not None:
            seen.add(run.name)
            if (entry := _entry(record, corpus)) is not None:
                yield entry


def _entry(record: Mapping[str, Any], corpus: str) -> Entry | None:
    try:
        if record.get("kind") == "external":
            meaning, name = (external_of(record["id"], score) for score in (ScoreSpec.model_validate(record["score"]), None))
            return Entry(str(record["id"]), int(record["seed"]), meaning, name, name, None, Keys(**record["keys"]), [])
        plain = dict(record["spec"])
        seed = int(plain.pop("seed"))
        if plain["data"]["corpus"] != corpus:
            return None
        also = [other for other in (record.get("also") or {}).values() if "score" in other]
        spec, meaning, search, training = _validated(json.dumps(plain, sort_keys=True))
        others = [(meaning_of(spec.model_copy(update={"score": ScoreSpec.model_validate(o["score"])})), Keys(**o["keys"])) for o in also]
        return Entry(str(record.get("id", "")), seed, meaning, search, training, spec.init_from, Keys(**record["keys"]), others)
    except (ValidationError, KeyError, TypeError, ValueError, AttributeError):
        return None  # written by a version with other spec fields


@functools.lru_cache(maxsize=1024)
def _validated(text: str) -> tuple[RunSpec, str, str, str]:
    """Returns the validated spec and its digests from JSON without a seed. All seeds of a row share this result."""
    spec = RunSpec.model_validate(without_former(json.loads(text)))
    return spec, meaning_of(spec), search_of(spec), training_of(spec)


def external_of(row_id: str, score: ScoreSpec | None = None) -> str:
    """Returns the digest of an external row with its scoring. Without a scoring, all its results share the digest."""
    return digest(["external", row_id, None if score is None else score.model_dump(mode="json")])


def meaning_of(spec: RunSpec) -> str:
    return digest(spec.model_dump(mode="json", exclude={"seed"}))


def search_of(spec: RunSpec) -> str:
    """Returns a digest that is equal for rows that differ at most in seed, scoring and the address of the parent row."""
    return digest(spec.model_dump(mode="json", exclude={"seed", "score", "init_from"}))


def training_of(spec: RunSpec) -> str:
    """Returns a digest that is equal for rows that may share a training: seed, decoding, scoring and the parent's address may differ.

    The choice of the parent's weights may not differ (`ledger.keys`).
    """
    return digest([spec.start, spec.model_dump(mode="json", exclude={"seed", "decode", "score", "init_from"})])
