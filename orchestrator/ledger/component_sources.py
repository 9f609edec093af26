"""Source hashes of a run's components, which reveal whether one of them was edited since the training.

A component's files are its own module and the modules of `models` that it imports, except those that the bare transformer imports too:
the code common to all rows (attention, stack, dropout, ...), decoding and the training loop are covered by the capsule's commit only.
Comments, docstrings and layout do not count.
"""

import ast
import functools
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from importlib.util import resolve_name
from pathlib import Path
from typing import Any

from models.registry import REGISTRIES
from orchestrator.errors import UserError, raise_all
from orchestrator.ledger.keys import component_versions
from orchestrator.ledger.results import Ledger
from orchestrator.paths import ROOT

EQUAL: dict[str, list[str]] = json.loads(Path(__file__).with_name("equal_sources.json").read_text())
"""File -> sha256 of all syntax trees that train to the same bits: the current source, its earlier versions and files merged into it.

Add a refactored source only after a test: rows with the component, trained under `smoke` before and after the change, have the same
`weights_sha256`. Results of the old source then count as results of the new one."""
SHARED = "models.transformer"
SEVERAL = "several"
"""Replaces the sha256 of a file that was edited while the run trained."""
PARENT = "the weights that it starts from"
LISTED = 5
"""Maximum number of runs that a warning names."""


def hashes(model: Any) -> dict[str, str]:
    """Hashes the sources of every component that a ModelSpec uses: `{"models/aggregations/linear.py": sha256, ...}`.

    UserError: a component of another package, whose edits would go unnoticed and which `export` would leave out."""
    shared = _closure([SHARED])
    classes = [REGISTRIES[registry].get(kind) for registry, kind in (name.split("/") for name in component_versions(model))]
    outside = [cls for cls in classes if not _files(cls.__module__)]
    raise_all(f"{cls.registry} {cls.kind}: found in module {cls.__module__}; expected a file of a package in models/" for cls in outside)
    modules = _closure(cls.__module__ for cls in classes)
    return {file: sha for file in sorted(modules - shared) if (sha := _sha256(file)) is not None}


def changed(record: Mapping[str, Any] | None, ledger: Ledger) -> list[str]:
    """Returns the files that changed since a run's record (train.json), and PARENT if its parent changed. Empty without hashes."""
    known = record or {}
    found = _edited(known.get("sources") or {}, _sha256)
    parent = known.get("parent") or {}
    now = (ledger.read_train(parent["key"]) or {}).get("weights_sha256") if parent else None
    return found + [PARENT] * (now not in (None, parent.get("weights_sha256")))


def check_unchanged(name: str, train_key: str, ledger: Ledger) -> None:
    """Raises UserError if a component was edited after the training: the new code would use the old code's weights.

    An edit while the run trained is no error: the training continued with the new code."""
    sources = (ledger.read_train(train_key) or {}).get("sources") or {}
    if files := ", ".join(_edited_after(sources, _sha256)):
        ways = "the earlier code, a higher `version` (trains anew) or, for the same bits, an entry in equal_sources.json"
        raise UserError(f"{name}: {files} changed since the training; expected {ways}")


def mark_edited(origin: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Marks and returns the files of a training's origin that have changed when it resumes. Does nothing if sources are not recorded."""
    known, sources = origin.get("sources", {}), now.get("sources")
    edited = [] if sources is None else _edited_after(known, sources.get)
    known |= dict.fromkeys(edited, SEVERAL)
    return edited


def _edited_after(sources: Mapping[str, str], current: Callable[[str], str | None]) -> list[str]:
    """Returns `_edited` without the files that are marked as edited already."""
    return [file for file in _edited(sources, current) if sources[file] != SEVERAL]


def _edited(sources: Mapping[str, str], current: Callable[[str], str | None]) -> list[str]:
    """Returns the files whose recorded source gives other bits than the current one, even if renamed. current: file -> its sha256 now."""
    edited = [(file, sha) for file, sha in sources.items() if sha != current(file)]
    return [file for file, sha in edited if not any(sha in equal and current(now) in equal for now, equal in EQUAL.items())]


def warnings(found: Mapping[tuple[str, int], list[str]], given: str = "") -> list[str]:
    """Returns a warning per set of changed files. found: (row, seed) -> files; given: options that the rows need on a command line."""
    groups: dict[tuple[str, ...], list[tuple[str, int]]] = {}
    for run, files in found.items():
        if files:
            groups.setdefault(tuple(files), []).append(run)
    lines = []
    for changed_files, runs in groups.items():
        names = ", ".join(row if seed == 1 else f"{row} seed {seed}" for row, seed in runs[:LISTED])
        more = f" and {len(runs) - LISTED} more runs" if len(runs) > LISTED else ""
        (row, seed), old = runs[0], "weights" if changed_files == (PARENT,) else "code"
        command = f"nmt-ablate repro {row}{given}{'' if seed == 1 else f' --seed {seed}'} --into FOLDER"
        lines.append(
            f"{names}{more}: {', '.join(changed_files)} changed since the training. The result is of the old {old}. Train anew: {command}"
        )
    return lines


def _closure(modules: Iterable[str]) -> frozenset[str]:
    """Returns the files, relative to ROOT, of modules and of everything that they import from `models`."""
    found: set[str] = set()
    todo = [file for module in modules for file in _files(module)]
    while todo:
        if (file := todo.pop()) not in found:
            found.add(file)
            todo += [other for module in _read(file)[1] for other in _files(module)]
    return frozenset(found)


def _files(module: str) -> list[str]:
    """Returns the source files of a module of `models`; empty for other modules."""
    base = module.replace(".", "/")
    names = (f"{base}.py", f"{base}/__init__.py") if module.partition(".")[0] == "models" else ()
    return [name for name in names if (ROOT / name).is_file()]


def _sha256(file: str) -> str | None:
    """Returns the sha256 of a file's syntax tree; None if the file is missing or does not parse."""
    try:
        return _read(file)[0]
    except (OSError, SyntaxError):
        return None


def _read(file: str) -> tuple[str, frozenset[str]]:
    path = ROOT / file
    status = path.stat()
    return _parsed(path, status.st_mtime_ns, status.st_size)


@functools.lru_cache(maxsize=512)
def _parsed(path: Path, modified: int, size: int) -> tuple[str, frozenset[str]]:
    tree, package = ast.parse(path.read_bytes()), ".".join(path.parent.relative_to(ROOT).parts)
    imports: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imports |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = resolve_name("." * node.level + (node.module or ""), package)
            imports |= {module, *(f"{module}.{alias.name}" for alias in node.names)}
    return hashlib.sha256(repr(_plain(tree)).encode()).hexdigest(), frozenset(imports)


def _plain(value: Any) -> Any:
    """Converts a syntax tree to nested tuples, without docstrings and without empty fields, which newer Python versions add."""
    if isinstance(value, ast.AST):
        fields = ((name, _plain(item)) for name, item in ast.iter_fields(value) if item is not None and item != [])
        return type(value).__name__, *fields
    is_text = lambda node: isinstance(node, ast.Expr) and isinstance(getattr(node.value, "value", None), str)  # noqa: E731
    return [_plain(item) for item in value if not is_text(item)] if isinstance(value, list) else value
