"""A sweep as a job of a cluster: validated here, identified by its content, and run there by `cluster/sweep.sh`."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from orchestrator.engines.execute import check_engine
from orchestrator.engines.ray.jobs.attempts import sweep_id
from orchestrator.errors import UserError
from orchestrator.files.canonical import digest
from orchestrator.ledger.keys import component_versions
from orchestrator.specs import index, yaml_file
from orchestrator.specs.controls import parse as parse_controls
from orchestrator.specs.controls import wanted
from orchestrator.specs.positions import shown
from orchestrator.specs.resources import parse
from orchestrator.specs.row import Row
from orchestrator.specs.rows import resolve, runs, sweep_of
from orchestrator.sweeps import looks
from orchestrator.sweeps.names import address_of, parse_seeds, sweep_name

FOLDERS = {"results": "NMT_RESULTS", "data_dir": "NMT_DATA_DIR", "cache_dir": "NMT_CACHE_DIR"}
"""Options of `sweep` that are folders of the cluster, with the environment variable that the job's processes read."""

NOT_IN_ID = ("as_json", "no_tracking", "debug")
"""Options that do not change what a sweep computes."""


@dataclass(frozen=True)
class SweepJob:
    """arguments: of `nmt-ablate sweep`. files: files that the job must be able to read. env: variables of its processes."""

    id: str
    name: str
    arguments: tuple[str, ...]
    runs: int
    files: tuple[Path, ...]
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def entrypoint(self) -> str:
        """The shell command of the job."""
        return shlex.join(["bash", "cluster/sweep.sh", *self.arguments])


def make(root: Path, target: str, options: Mapping[str, Any], arguments: Sequence[str]) -> SweepJob:
    """Returns the job of `sweep TARGET`. UserError for everything that `sweep` itself would refuse before it starts.

    options: values of the given options by name. arguments: the same as command-line words, without the target and the options in FOLDERS.
    """
    env = _folders(options)
    check_engine(options.get("engine", "ray"), options.get("workers"), options.get("jobs", "1"))
    parse(options.get("resources"))
    sets, profile = list(options.get("sets") or []), options.get("profile")
    seeds, controls = parse_seeds(options.get("seeds")), parse_controls(options.get("controls"))
    rows = resolve(target, sets=sets, profile=profile)
    section = sweep_of(target, profile)
    planned = runs(rows, seeds or section.seeds)
    if options.get("until_decided"):
        looks.check(target, section, seeds or section.seeds, options.get("max_hours"))
    if not planned:
        raise UserError(f"{rows[0].id}: found no row of kind run: nothing to execute")
    matched = wanted(rows, controls)
    name = sweep_name(address_of(target, rows), profile, sets, controls)
    content = {
        "name": name,
        "rows": [_row_content(row) for row in rows if row.spec is not None],
        "seeds": seeds or section.seeds,
        "section": section.model_dump(mode="json"),
        "components": [component_versions(row.spec.model) for row in rows if row.spec is not None],
        "options": {key: str(value) for key, value in sorted(options.items()) if key not in NOT_IN_ID},
    }
    if matched:
        content["controls"] = {row: [control.kind for control in each] for row, each in matched.items()}
    number = len(planned) + sum(map(len, matched.values())) * len(seeds or section.seeds)
    files = tuple(_source_files(target, rows))
    return SweepJob(sweep_id(digest(content)), name, (_uploaded_target(root, target), *arguments), number, files, env)


def _folders(options: Mapping[str, Any]) -> dict[str, str]:
    """Environment variables for the given folders. UserError for a relative path, which would be in the job's upload, which Ray deletes."""
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


def _row_content(row: Row) -> Any:
    """The spec and options of the row and of the rows that it starts from."""
    parent = None if row.parent is None else _row_content(row.parent)
    assert row.spec is not None
    also = {name: score.model_dump(mode="json") for name, score in row.also.items()}
    return [row.id, row.spec.model_dump(mode="json"), row.workers, row.pinned, also, parent]


def _uploaded_target(root: Path, target: str) -> str:
    """The target on the cluster: a path relative to the upload, or the unchanged address."""
    name, mark, row = target.partition("#")
    path = Path(name)
    if not (path.exists() or name.endswith((".yaml", ".yml"))):
        return target
    resolved = path.resolve()
    if not resolved.is_relative_to(root):
        raise UserError(f"{shown(name, 200)}: outside of the checkout, which is what the job gets ({root.name}/): move it there")
    return resolved.relative_to(root).as_posix() + mark + row


def _source_files(target: str, rows: Sequence[Row]) -> list[Path]:
    """The files from which the target's rows are read, through `extends` and `init_from`."""
    files: dict[Path, None] = {}

    def add(path: Path) -> None:
        path = path.absolute()
        if path in files:
            return
        files[path] = None
        base = yaml_file.load(path).data.get("extends")
        if isinstance(base, str):
            add((path.parent / base).resolve())

    for match in index.find_all(target):
        add(match.table.path)
    for row in rows:
        current: Row | None = row
        while current is not None:
            add(Path(current.source_file))
            current = current.parent
    return list(files)
