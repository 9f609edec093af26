"""The files of a ledger: the names that are allowed in it and in an archive of it, and validation of their content."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path

from orchestrator.files.documents import KEY, key_in, parse, read_document
from orchestrator.ledger import object_store, sweep_files
from orchestrator.ledger.manifest import CorruptError, decode_manifest
from orchestrator.ledger.records import DamagedError, read_record, read_spec

_RUN = r"[0-9a-f]{16}"
_STEP = r"step-[0-9]{8,12}"
_SWEEP = r"sweeps/[A-Za-z0-9@+._-]{1,200}\.json"
SMALL = re.compile(
    rf"{_SWEEP}|{_RUN}/(?:(?:train|capsule)\.json|spec\.yaml|history\.jsonl|rungs/[0-9]{{1,12}}\.json"
    r"|decode/[0-9a-f]{16}\.(?:json|txt)|(?:score|tune)/[0-9a-f]{16}\.json)"
)
"""Records, small files."""
LARGE = re.compile(
    rf"{_RUN}/(?:weights/(?:(?:last|best)\.json|(?:last|best)-[0-9a-f]{{16}}\.safetensors)|snapshots/{_STEP}\.(?:json|safetensors)"
    rf"|ckpt/{_STEP}/(?:[a-z][a-z0-9_-]{{0,31}}\.safetensors|state\.json|manifest\.json)|journal\.jsonl)"
)
"""Tensors, and the journal that accompanies a checkpoint."""
MAX_TEXT = 256 * 2**20
"""Maximum size in bytes of a file without tensors."""


UNFINISHED = (None, "stopped", "failed")
"""Statuses of a run that continues from its checkpoint."""


def belongs(name: str) -> bool:
    """Returns whether a ledger may contain a file of this name (relative, with `/`). Names with `..` never match."""
    if name.startswith("sweeps/"):
        return SMALL.fullmatch(name) is not None and not name[7:].startswith(".") and not name.endswith(".lock.json")
    return (SMALL.fullmatch(name) or LARGE.fullmatch(name)) is not None


def is_tensor(name: str) -> bool:
    return name.endswith(".safetensors")


def of_run(run: Path, *, weights: bool) -> list[str]:
    """Sorted names, relative to the ledger, of a run's files. weights: include tensors; checkpoints only if the run is unfinished."""
    status = (read_document(run / "train.json") or {}).get("status")
    if weights:  # the scratch copy of a bucket fetches them on demand
        for name in ("weights", "snapshots", *(("ckpt", "journal.jsonl") if status in UNFINISHED else ())):
            object_store.fetch(run / name)
    found = []
    for path in sorted(run.rglob("*")):
        name = f"{run.name}/{path.relative_to(run).as_posix()}"
        if path.is_symlink() or not path.is_file() or not belongs(name):
            continue
        resumable = ("/ckpt/" not in name and not name.endswith("/journal.jsonl")) or status in UNFINISHED
        if SMALL.fullmatch(name) or (weights and resumable):
            found.append(name)
    return found


def of_sweeps(results: Path, names: list[str] | None) -> list[str]:
    """Names of the files of the given sweeps (None: of all)."""
    found = [f"sweeps/{path.name}" for path in sorted((results / "sweeps").glob("*.json")) if path.is_file() and not path.is_symlink()]
    stems = None if names is None else {f"sweeps/{name}{end}" for name in names for end in (".json", ".asha.json")}
    return [name for name in found if belongs(name) and (stems is None or name in stems)]


def writing_order(name: str) -> tuple[int, str]:
    """Sort key: a file comes before the records that name it, and train.json, which marks the run as done, comes last."""
    if name.endswith("/train.json"):
        return 3, name
    if "/score/" in name:
        return 2, name
    return (1 if name.endswith(".json") and not name.endswith("/state.json") else 0), name


def problems_of(root: Path, names: list[str]) -> Iterator[str]:
    """Yields a line for each file whose content is not valid for its name."""
    keys: dict[str, str] = {}
    for name in sorted(names, key=lambda name: (not name.endswith(("train.json", "capsule.json")), name)):
        problem = _problem(root, name, keys)
        if problem:
            yield f"{name}: {problem}"


def _problem(root: Path, name: str, keys: dict[str, str]) -> str | None:
    path, (folder, _, rest) = root / name, name.partition("/")
    if is_tensor(name):
        return None  # verified through its manifest
    if folder == "sweeps":
        return None if name.endswith(".asha.json") else _sweep_problem(path)
    if rest == "spec.yaml":
        try:
            key = (read_spec(path, scan=True) or {}).get("key")
        except DamagedError as error:
            return str(error)
        return _same_run(key if isinstance(key, str) else None, folder, keys)
    if rest.endswith(".jsonl"):
        return None if _lines_are_good(path) else "holds a line that is no JSON object"
    if rest.startswith(("weights/", "snapshots/", "ckpt/")):
        return _tensor_manifest(path, folder, keys) if rest != "state.json" and not rest.endswith("/state.json") else None
    if rest.endswith(".txt"):
        record = read_document(path.with_suffix(".json")) or {}
        good = hashlib.sha256(path.read_bytes()).hexdigest() == record.get("hypotheses_sha256", "")
        return None if good else "its sha256 is not the one in the record beside it"
    try:
        document = read_record(path) or {}
    except DamagedError as error:
        return str(error)
    if rest.startswith(("decode/", "score/", "tune/")):
        of_run = document.get("train_key")
        return None if of_run is None else _same_run(str(of_run), folder, keys)
    return _same_run(key_in(document, folder), folder, keys)


def _same_run(key: str | None, folder: str, keys: dict[str, str]) -> str | None:
    """Checks that all files in one folder have the same key and that the folder is named after it."""
    if key is None or not KEY.fullmatch(key) or not key.startswith(folder):
        return "holds another key than its folder says"
    return None if keys.setdefault(folder, key) == key else "holds another key than its folder's other files"


def _lines_are_good(path: Path) -> bool:
    lines = path.read_bytes().split(b"\n")
    try:
        return all(isinstance(parse(line), dict) for line in lines[:-1] if line)  # the last line may be incomplete
    except (ValueError, RecursionError):
        return False


def _sweep_problem(path: Path) -> str | None:
    try:
        sweep_files.read(path)
    except ValueError as error:
        return f"is no file of a sweep: {error}"
    return None


def _tensor_manifest(path: Path, folder: str, keys: dict[str, str]) -> str | None:
    try:
        manifest = decode_manifest(path.read_bytes())
        files = dict(manifest["files"])
        for file, entry in files.items():
            if not re.fullmatch(r"[a-z0-9_-]+\.(?:safetensors|json)", file):
                return f"names a file that is none of a run, {file[:80]!r}"
            if _sha256(path.with_name(file)) != entry["sha256"]:
                return f"{file} is missing or has another sha256"
        key = manifest["key"]
    except (CorruptError, KeyError, TypeError, ValueError, OSError) as error:
        return f"is no manifest ({error})"
    return _same_run(key if isinstance(key, str) else None, folder, keys)


def _sha256(path: Path) -> str | None:
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
