"""Reads one record of the ledger and checks it: its digest, its key, and the types and ranges of its figures."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from orchestrator.errors import UserError
from orchestrator.files.canonical import digest
from orchestrator.files.documents import KEY, key_in, unsealed
from orchestrator.files.no_file import no_file
from orchestrator.ledger.packed import exists, read_bytes, read_document
from orchestrator.specs.positions import describe, shown

Record = dict[str, Any]

FOLDERS = ("rungs", "decode", "score", "tune")
STATUSES = ("done", "stopped", "diverged", "failed")
MAX_SPEC = 1 << 20
LARGEST = 1e15
"""Of any count or speed."""
_COUNTS = ("steps", "params", "epochs", "executed_steps", "world_size", "sentences", "lines", "best_step")
_AMOUNTS = ("seconds", "tokens_per_second", "sentences_per_second")
_PERCENT = ("bleu", "rouge1", "rouge2", "rougeL")
_SCORES = ("chrf", "sacrebleu", "tokenised", "mteval")
_SECTIONS = (*_SCORES, "statistics", "score", "valid", "parent", "text", "sources")
_TEXTS = ("reason", "signature", "metric", "weights_sha256")
_KEYS = ("train_key", "decode_key", "hypotheses_sha256")
_NEEDED = {"train": "status", "score": "bleu"}


LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml's is faster; both are as strict as `safe_load`
_REFUSED = (yaml.AliasToken, yaml.AnchorToken, yaml.TagToken)


class DamagedError(Exception):
    """A file of the ledger is no whole record. The message is the reason, without the path."""


def read_record(path: Path, key: str | None = None) -> Record | None:
    """Returns a record without its digest, or None if nothing is at `path`.

    key: the key that the record must have; by default any that starts with the name of its file or run. Raises DamagedError if the file is
    no whole record, and UserError if it is the record of another key.
    """
    document = read_document(path)
    if document is None:
        if (reason := no_file(path)) is None and not exists(path):
            return None
        raise DamagedError(reason or "not a whole record (damaged JSON or digest)")
    if key is not None and document.get("key") != key:
        raise UserError(f"{path}: holds key {document.get('key')}, expected {key}")
    folder, run = path.parent.name, path.parents[1 if path.parent.name in FOLDERS else 0].name
    if key is None and key_in(document, path.stem if folder in FOLDERS[1:] else run) is None:
        raise DamagedError("holds another key than its name says")
    if (reason := wrong_figure(folder if folder in FOLDERS else path.stem, document)) is not None:
        raise DamagedError(reason)
    return unsealed(document)


def read_spec(path: Path, *, scan: bool = False) -> Record | None:
    """Returns the content of a spec.yaml, or None if nothing is at `path`. Raises DamagedError like `read_record`.

    scan: refuse aliases, anchors and tags, so that the size of a foreign file bounds the memory of the parser.
    """
    data = read_bytes(path)
    if data is None:
        if (reason := no_file(path)) is not None:
            raise DamagedError(reason)
        return None
    if len(data) > MAX_SPEC:
        raise DamagedError(f"has {len(data)} bytes; expected at most {MAX_SPEC}")
    try:
        if scan and any(isinstance(token, _REFUSED) for token in yaml.scan(data, Loader=LOADER)):
            raise DamagedError("holds an alias, an anchor or a tag")
        document = dict(LOADER(data).get_single_data())
        if document.get("digest") == digest(unsealed(document)):
            return document
    except (yaml.YAMLError, TypeError, ValueError, RecursionError):
        raise DamagedError("not readable YAML") from None
    raise DamagedError("its digest is not the one of its content")


def wrong_figure(kind: str, record: Mapping[str, Any]) -> str | None:
    """Describes the first value of a record that cannot be meant, or a score that its own statistics do not give; None if all are right."""
    if kind not in ("train", "decode", "score"):
        return None
    if (need := _NEEDED.get(kind)) is not None and record.get(need) is None:
        return f"{need}: is missing"
    if kind == "train" and record["status"] not in STATUSES:
        return f"status: found {describe(record['status'])}; expected {', '.join(STATUSES)}"
    scores = {f"{name}.score": section.get("score") for name in _SCORES if isinstance(section := record.get(name), Mapping)}
    scores |= {name: record.get(name) for name in _PERCENT}
    found = [
        *((name, record.get(name), isinstance(record.get(name), Mapping), "a mapping") for name in _SECTIONS),
        *((name, record.get(name), _is_count(record.get(name)), "a whole number from 0") for name in _COUNTS),
        *((name, record.get(name), _is_number(record.get(name), LARGEST), f"a number from 0 to {LARGEST:g}") for name in _AMOUNTS),
        *((name, value, _is_number(value, 100), "a number from 0 to 100") for name, value in scores.items()),
        *((name, record.get(name), isinstance(record.get(name), str), "text") for name in _TEXTS),
        *((name, record.get(name), _is_key(record.get(name)), "64 hexadecimal digits") for name in _KEYS),
    ]
    for name, value, good, words in found:
        if value is not None and not good:
            return f"{name}: found {shown(describe(value), 60)}; expected {words}"
    if kind != "score":
        return None
    from orchestrator.ledger.statistics import contradiction  # deferred: numpy, which commands without scores do without

    return contradiction(record)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and _is_number(value, LARGEST)


def _is_number(value: Any, largest: float) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= largest


def _is_key(value: Any) -> bool:
    return isinstance(value, str) and KEY.fullmatch(value) is not None
