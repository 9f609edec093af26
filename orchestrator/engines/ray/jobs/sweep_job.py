"""A sweep as a job: checked here before anything travels, named by what it means, run there by `cluster/sweep.sh`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from orchestrator.engines.ray.jobs.attempts import sweep_id
from orchestrator.errors import UserError
from orchestrator.specs.positions import shown

if TYPE_CHECKING:
    from orchestrator.specs.row import Row

FOLDERS = {"results": "NMT_RESULTS", "data_dir": "NMT_DATA_DIR", "cache_dir": "NMT_CACHE_DIR"}
"""Options of `sweep` that name a folder of the cluster -> the variable that every process of the job reads."""

NO_MEANING = ("as_json", "no_tracking", "debug")
"""Options that make it no other sweep."""


@dataclass(frozen=True)
class SweepJob:
    """`arguments`: of `nmt-ablate sweep`, as the job calls it. `files`: what it must be able to read. `env`: of its processes."""

    id: str
    name: str
    arguments: tuple[str, ...]
    runs: int
    files: tuple[Path, ...]
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def entrypoint(self) -> str:
        """One line for the shell that Ray gives it to."""
        return shlex.join(["bash", "cluster/sweep.sh", *self.arguments])


def make(root: Path, target: str, options: Mapping[str, Any], arguments: Sequence[str]) -> SweepJob:
    """The job of `sweep TARGET`. UserError, all at once, for whatever `sweep` itself would refuse before it starts.

    options: by their names in the command, those that were given. arguments: the same as they were written, without the target
    and without the options of FOLDERS.
    """
    from orchestrator.engines.execute import check_engine
    from orchestrator.files.canonical import digest
    from orchestrator.ledger.keys import component_versions
    from orchestrator.specs.resources import parse
    from orchestrator.specs.rows import resolve, runs, sweep_of
    from orchestrator.sweeps.names import address_of, parse_seeds, sweep_name

    env = _folders(options)
    check_engine(options.get("engine", "ray"), options.get("workers"))
    parse(options.get("resources"))
    sets, profile = list(options.get("sets") or []), options.get("profile")
    seeds = parse_seeds(options.get("seeds"))
    rows = resolve(target, sets=sets, profile=profile)
    section = sweep_of(target, profile)
    todo = runs(rows, seeds or section.seeds)
    if not todo:
        raise UserError(f"{rows[0].id}: found no row of kind run: nothing to execute")
    name = sweep_name(address_of(target, rows), profile, sets)
    meaning = {
        "name": name,
        "rows": [_meaning(row) for row in rows if row.spec is not None],
        "seeds": seeds or section.seeds,
        "section": section.model_dump(mode="json"),
        "components": [component_versions(row.spec.model) for row in rows if row.spec is not None],
        "options": {key: str(value) for key, value in sorted(options.items()) if key not in NO_MEANING},
    }
    place = _place(root, target)
    return SweepJob(sweep_id(digest(meaning)), name, (place, *arguments), len(todo), tuple(_files(target, rows)), env)


def _folders(options: Mapping[str, Any]) -> dict[str, str]:
    """UserError for a relative one: the job's own folder is its upload, which Ray deletes."""
    problems, env = [], {}
    for name, variable in FOLDERS.items():
        value = options.get(name)
        if value is None:
            continue
        if not PurePosixPath(value).is_absolute() and not (name == "results" and "://" in value):
            problems.append(
                f"--{name.replace('_', '-')} {shown(str(value))}: a folder of the cluster that every node sees; expected an absolute path"
            )
        env[variable] = str(value)
    if problems:
        raise UserError(*problems)
    return env


def _meaning(row: Row) -> Any:
    """What the row and those that it starts from are to become."""
    parent = None if row.parent is None else _meaning(row.parent)
    assert row.spec is not None
    also = {name: score.model_dump(mode="json") for name, score in row.also.items()}
    return [row.id, row.spec.model_dump(mode="json"), row.workers, row.pinned, also, parent]


def _place(root: Path, target: str) -> str:
    """The target as the job names it: a path in the upload, or the address that it is."""
    name, mark, row = target.partition("#")
    path = Path(name)
    if not (path.exists() or name.endswith((".yaml", ".yml"))):
        return target
    resolved = path.resolve()
    if not resolved.is_relative_to(root):
        raise UserError(f"{shown(name, 200)}: outside of the checkout, which is what the job gets ({root.name}/): move it there")
    return resolved.relative_to(root).as_posix() + mark + row


def _files(target: str, rows: Sequence[Row]) -> list[Path]:
    """The files that the target's rows were read from, through `extends` and `init_from`."""
    from orchestrator.specs import index, yaml_file

    found: dict[Path, None] = {}

    def add(path: Path) -> None:
        path = path.absolute()
        if path in found:
            return
        found[path] = None
        base = yaml_file.load(path).data.get("extends")
        if isinstance(base, str):
            add((path.parent / base).resolve())

    for one in index.find_all(target):
        add(one.table.path)
    for row in rows:
        current: Row | None = row
        while current is not None:
            add(Path(current.source_file))
            current = current.parent
    return list(found)
