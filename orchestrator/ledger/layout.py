"""The files of a ledger: the names that are allowed in it, and validation of their content.

A run (RUN16), a sweep (sweeps/NAME), a session of claims (sessions/NAME), a measurement (noise/KEY16, speed/KEY16) or the looks at claims
are a group of files: with a bucket one process at a time writes a group.
"""

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from orchestrator.files.documents import KEY, read_document
from orchestrator.ledger import sweep_files
from orchestrator.ledger.packed import read_bytes
from orchestrator.ledger.records import DamagedError, RunReader, read_record, read_spec

_RUN = r"[0-9a-f]{16}"
_STEP = r"step-[0-9]{8,12}"
_SWEEP = r"sweeps/[A-Za-z0-9@+._-]{1,205}\.json"  # a name of 200 and `.asha`
_SESSION = r"sessions/[A-Za-z0-9][A-Za-z0-9@+._-]{0,199}\.jsonl"
LOOKS = "looks.json"
MEASURED = ("noise", "speed")
SMALL = re.compile(
    rf"{_SWEEP}|{_SESSION}|looks\.json|(?:{'|'.join(MEASURED)})/{_RUN}\.json"
    rf"|{_RUN}/(?:(?:train|capsule)\.json|spec\.yaml|history\.jsonl|rungs/[0-9]{{1,12}}\.json"
    r"|decode/[0-9a-f]{16}\.(?:json|txt)|(?:score|tune|search)/[0-9a-f]{16}\.json)"
)
"""Records, small files."""
LARGE = re.compile(
    rf"{_RUN}/(?:weights/(?:last|best|ema)(?:\.json|-[0-9a-f]{{16}}\.safetensors)|snapshots/{_STEP}\.(?:json|safetensors)"
    rf"|ckpt/{_STEP}/(?:[a-z][a-z0-9_-]{{0,31}}\.safetensors|state\.json|manifest\.json)|journal\.jsonl)"
)
"""Tensors, and the journal that accompanies a checkpoint."""
_GROUP = re.compile(
    rf"({_RUN})(?:/.*)?|(looks|(?:sweeps|sessions)/[^/]+?|(?:noise|speed)/{_RUN})\.(?:asha\.json|lock\.json|lock|jsonl?|stop)"
)


def belongs(name: str) -> bool:
    """Returns whether a ledger may contain a file of this name (relative, with `/`). Names with `..` never match."""
    if name.startswith("sweeps/"):
        return SMALL.fullmatch(name) is not None and not name[7:].startswith(".") and not name.endswith(".lock.json")
    return (SMALL.fullmatch(name) or LARGE.fullmatch(name)) is not None


def of_a_run(name: str) -> bool:
    return re.match(rf"{_RUN}(?:/|$)", name) is not None


def is_unfinished(run: Path) -> bool:
    """Returns whether the run would continue from its checkpoint."""
    return (read_document(run / "train.json") or {}).get("status") in (None, "stopped", "failed")


def of_run(run: Path) -> list[str]:
    """Returns the sorted names, relative to the ledger, of a run's files. Checkpoints are included only if the run is unfinished."""
    unfinished, names = is_unfinished(run), files_in(run.parent, run.name)
    return [name for name in names if unfinished or ("/ckpt/" not in name and not name.endswith("/journal.jsonl"))]


def beside_runs(results: Path, sweeps: list[str] | None = None) -> list[str]:
    """Returns the names of the files of the given sweeps (None: all sweeps), of looks and sessions, and of measured noise and speeds."""

    def wanted(group: str) -> bool:
        folder, _, name = group.partition("/")
        return not of_a_run(group) and (folder != "sweeps" or sweeps is None or name in sweeps)

    return [name for group in sorted(groups_in(results)) if wanted(group) for name in files_in(results, group) if belongs(name)]


def writing_order(name: str) -> tuple[int, str]:
    """Sort key: a file comes before the records that name it, and train.json, which marks the run as done, comes last."""
    if name.endswith("/train.json"):
        return 3, name
    if "/score/" in name:
        return 2, name
    return (1 if name.endswith(".json") and not name.endswith("/state.json") else 0), name


def group_of(name: str) -> str | None:
    """The group of a file, folder or lock, named relative to the ledger; None for files that stay on this machine."""
    match = _GROUP.fullmatch(name)
    return None if match is None else match[1] or match[2]


def claim_of(group: str) -> str:
    """Returns the name of the object that states which process has the group: the record of its lock."""
    return f"{group}/lock.json" if of_a_run(group) else f"{group}.lock.json"


def is_shared(name: str) -> bool:
    """Returns whether the bucket holds a file of this name."""
    return belongs(name) or (name.startswith("sweeps/") and name.endswith(".stop"))


def files_in(root: Path, group: str) -> list[str]:
    """Names, relative to the ledger, of the group's files in `root`."""
    if not of_a_run(group):
        names = [f"{group}{end}" for end in (".json", ".jsonl", ".asha.json", ".stop")]
        return [name for name in names if is_shared(name) and (root / name).is_file() and not (root / name).is_symlink()]
    paths = (Path(folder, file) for folder, _, files in os.walk(root / group) for file in files)  # a folder may be removed meanwhile
    return sorted(name for path in paths if belongs(name := path.relative_to(root).as_posix()) and not path.is_symlink())


def groups_in(root: Path) -> set[str]:
    """Every group with a folder or file in `root`."""
    folders = ("sweeps", "sessions", *MEASURED)
    paths = (*root.iterdir(), *(path for folder in folders for path in root.glob(f"{folder}/*.json*")))
    found = (group_of(path.relative_to(root).as_posix()) for path in paths)
    return {group for group in found if group is not None}


def on_demand(name: str) -> bool:
    """Returns whether the file is fetched only when it is read."""
    return name.endswith((".safetensors", "/journal.jsonl", "/state.json"))


def is_needed(root: Path, name: str) -> bool:
    """Returns whether a file that is fetched on demand is needed. Tensors and states with a replaced manifest are not."""
    folder, _, file = name.rpartition("/")
    stem = file.removesuffix(".safetensors")
    manifest = "manifest" if "/ckpt/" in name else stem.rpartition("-")[0] if "/weights/" in name else stem
    return name.endswith("/journal.jsonl") or (root / folder / f"{manifest}.json").exists()


def problems_of(root: Path, names: list[str]) -> Iterator[str]:
    """Yields a line for each record, spec or sweep that is invalid or belongs to another run than its folder.

    Tensors are not read; their loaders verify the recorded digest. Translations: see `texts_lacking`.
    """
    keys: dict[str, str] = {}
    for name in sorted(names, key=lambda name: (not name.endswith(("train.json", "capsule.json")), name)):
        folder, key = name.partition("/")[0], None
        try:
            if folder == "sweeps":
                if not name.endswith(".asha.json"):  # the search that reads it checks its digest
                    sweep_files.read(root / name)
            elif folder in MEASURED:
                if read_document(root / name) is None:
                    raise DamagedError("its digest is not the one of its content")
            elif name == LOOKS:
                _check_looks(root / name)
            elif name.endswith("/spec.yaml"):
                key = str((read_spec(root / name, scan=True) or {}).get("key"))
            elif name.endswith(".json") and not LARGE.fullmatch(name):
                key = (read_record(root / name) or {}).get("train_key" if re.search("/(decode|score|tune|search)/", name) else "key")
        except (DamagedError, ValueError, RecursionError, OSError) as error:
            yield f"{name}: {error}"
            continue
        if key is not None and (not KEY.fullmatch(key) or not key.startswith(folder) or keys.setdefault(folder, key) != key):
            yield f"{name}: holds another key than its folder or the folder's other files"


def texts_lacking(root: Path, names: Iterable[str]) -> list[str]:
    """Returns a line for each history that is no text, and for each decoding whose translations are missing or differ from its record."""
    names, found = list(names), list[str]()
    for name in (name for name in names if name.endswith("/history.jsonl")):
        try:
            (read_bytes(root / name) or b"").decode()
        except UnicodeDecodeError as error:
            found.append(f"{name}: is not UTF-8 (byte {error.start})")
    reader = RunReader(lambda path, reason: found.append(f"{path.relative_to(root)}: {reason}; `nmt-ablate run` of its row makes it anew"))
    for path in (root / name for name in names if "/decode/" in name and name.endswith(".json")):
        if (record := reader.record(path)) is not None:
            reader.decoding(path.parents[1], record["key"])
    return found


def _check_looks(path: Path) -> None:
    claims = (read_document(path) or {}).get("claims")
    looks = [look for each in claims.values() for look in each] if isinstance(claims, dict) else [None]
    if not all(isinstance(look, dict) and isinstance(look.get("runs"), dict) and {"time", "planned"} <= look.keys() for look in looks):
        raise DamagedError("holds no looks, or its digest is not the one of its content")
