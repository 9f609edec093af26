"""Reads the files in the folder of a run and checks them: digest, key, and the types and ranges of figures.

`RunReader` reports a damaged file in one line, and it counts as absent.
"""

import functools
import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from orchestrator.errors import UserError
from orchestrator.files.canonical import digest
from orchestrator.files.documents import checked, key_in, unsealed
from orchestrator.files.folders import no_file
from orchestrator.ledger import packed
from orchestrator.ledger.packed import exists, read_bytes, read_document
from orchestrator.safe_text import log_once
from orchestrator.specs.positions import describe, shown

Record = dict[str, Any]

FOLDERS = ("rungs", "decode", "score", "tune", "search")
STATUSES = ("done", "stopped", "diverged", "failed")
"""Statuses of a run that ended."""
FIGURES = ("params", "steps", "seconds", "tokens_per_second")
"""Figures of a training that tables show."""
MAX_SPEC = 1 << 20
MOST_MARKS = 5000
"""Maximum number of marks in a spec.yaml that may open a level. libyaml's composer recurses, and 30,000 levels overflow its stack."""
LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # libyaml's is faster; both are as strict as `safe_load`
_REFUSED = (yaml.AliasToken, yaml.AnchorToken, yaml.TagToken)


class DamagedError(Exception):
    """A file of the ledger is no complete record. The message is the reason, without the path."""


def read_record(path: Path, key: str | None = None) -> Record | None:
    """Returns a record without its digest, or None if nothing is at `path`.

    key: the key that the record must have; by default any that starts with the name of its file or run. Raises DamagedError if the file is
    no whole record, and UserError if it is the record of another key.
    """
    there, document = exists(path), read_document(path)  # in this order, for it may be written in between
    if document is None:
        if (reason := no_file(path)) is None and not there:
            return None
        raise DamagedError(reason or "not a whole record (damaged JSON or digest)")
    if key is not None and document.get("key") != key:
        raise UserError(f"{path}: holds key {document.get('key')}, expected {key}")
    folder, run = path.parent.name, path.parents[1 if path.parent.name in FOLDERS else 0].name
    if key is None and key_in(document, path.stem if folder in FOLDERS[1:] else run) is None:
        raise DamagedError("holds another key than its name says")
    if (reason := _wrong(folder if folder in FOLDERS else path.stem, document)) is not None:
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
    if (marks := sum(map(data.count, b"[{-?:"))) > MOST_MARKS:
        raise DamagedError(f"has {marks} marks of lists and mappings; expected at most {MOST_MARKS}")
    try:
        if scan and any(isinstance(token, _REFUSED) for token in yaml.scan(data, Loader=LOADER)):
            raise DamagedError("holds an alias, an anchor or a tag")
        return dict(_document(data))
    except (yaml.YAMLError, TypeError, ValueError, RecursionError):
        raise DamagedError("not readable YAML") from None


@functools.lru_cache(maxsize=2048)
def _document(data: bytes) -> Record:
    """Parses a record. Cached, because a page's tables read the same hundreds of files. Nested values are shared: copy before a change."""
    document = dict(LOADER(data).get_single_data())
    if document.get("digest") != digest(unsealed(document)):
        raise DamagedError("its digest is not the one of its content")
    return document


def _wrong(kind: str, record: Mapping[str, Any]) -> str | None:
    """Describes an unknown status or an impossible figure; None if the record is valid."""
    if kind == "train":
        if record.get("status") not in STATUSES:
            return f"status: found {describe(record.get('status'))}; expected {', '.join(STATUSES)}"
        for name in FIGURES:
            value = record.get(name)
            if value is not None and not (isinstance(value, (int, float)) and 0 <= value <= 10**15):
                return f"{name}: found {shown(describe(value), 60)}; expected a number from 0 to 1e15"
    if kind != "score":
        return None
    bleu = record.get("bleu")
    if not isinstance(bleu, (int, float)) or not 0 <= bleu <= 100:
        return f"bleu: found {shown(describe(bleu), 60)}; expected a number from 0 to 100"
    return None


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
        """A decoding with its `hypotheses`; None unless both files are intact and the texts are there."""
        path = run / "decode" / f"{checked(decode_key)[:16]}.json"
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

    def key(self, run: Path) -> str | None:
        """The train key that the run's readable records state; None without one."""
        names = (run / "train.json", run / "capsule.json", *packed.files(run / "rungs"))
        found = (key_in(self.record(path), run.name) for path in names)
        return next((key for key in found if key is not None), None) or key_in(self.spec(run), run.name)

    def tell(self, path: Path, reason: str) -> None:
        if path not in self._told:
            self._told.add(path)
            self.on_bad(path, reason)


def _say(path: Path, reason: str) -> None:
    again = "its run is trained anew" if path.name == "capsule.json" else "`nmt-ablate run` of its row writes it again"
    log_once(f"warning: {path}: {reason}; it counts as absent until {again}")
