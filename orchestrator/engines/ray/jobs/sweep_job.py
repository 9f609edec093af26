"""A sweep as a job of a cluster: validated here, identified by its content, and run there by `cluster/sweep.sh`."""

import posixpath
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from orchestrator.engines.execute import check_engine
from orchestrator.errors import UserError, raise_all
from orchestrator.files.canonical import digest
from orchestrator.ledger.keys import component_versions
from orchestrator.paths import in_search_spaces
from orchestrator.specs import corpora, index, yaml_file
from orchestrator.specs.controls import parse as parse_controls
from orchestrator.specs.controls import wanted
from orchestrator.specs.positions import shown
from orchestrator.specs.row import Row
from orchestrator.specs.rows import resolve, runs, sweep_of
from orchestrator.specs.show import dumped
from orchestrator.specs.sweep import parse_resources
from orchestrator.sweeps import looks
from orchestrator.sweeps.names import address_of, parse_seeds, sweep_name

FOLDERS = {"results": "NMT_RESULTS", "data_dir": "NMT_DATA_DIR", "cache_dir": "NMT_CACHE_DIR"}
"""Options of `sweep` that are folders of the cluster, with the environment variable that the job's processes read."""

OUTSIDE = "search_spaces/submitted"
"""Where tables from outside of the checkout are in the upload."""

NOT_IN_ID = ("as_json", "no_tracking", "debug")
"""Options that do not change what a sweep computes."""


@dataclass(frozen=True)
class SweepJob:
    """arguments: of `nmt-ablate sweep`. files: files that the job must be able to read. env: variables of its processes.

    extra: path in the upload -> content of each file that lies outside of the checkout.
    """

    id: str
    name: str
    arguments: tuple[str, ...]
    runs: int
    files: tuple[Path, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    extra: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def entrypoint(self) -> str:
        """The shell command of the job."""
        return shlex.join(["bash", "cluster/sweep.sh", *self.arguments])


def make(root: Path, target: str, options: Mapping[str, Any], arguments: Sequence[str]) -> SweepJob:
    """Returns the job of `sweep TARGET`. UserError for everything that `sweep` itself would refuse before it starts.

    options: values of the given options by name. arguments: the same as command-line words, without the target and the options in FOLDERS.
    """
    if options.get("ladder") is not None:
        raise UserError("--ladder: found with submit; expected --profile, a job for each size")
    env = _folders(options)
    check_engine(options.get("engine", "ray"), options.get("workers"), options.get("jobs", "1"))
    parse_resources(options.get("resources"))
    sets, profile = list(options.get("sets") or []), options.get("profile")
    seeds, controls = parse_seeds(options.get("seeds")), parse_controls(options.get("controls"))
    rows, section = resolve(target, sets=sets, profile=profile), sweep_of(target, profile)
    seeds = seeds or section.seeds
    planned, trained = runs(rows, seeds), [row for row in rows if row.kind == "run"]
    if options.get("until_decided"):
        looks.check(target, section, seeds, options.get("max_hours"))
    if not planned:
        raise UserError(f"{rows[0].id}: found no row of kind run: nothing to execute")
    matched = wanted(rows, controls)
    name = sweep_name(address_of(target, rows), profile, sets, controls)
    content = {
        "name": name,
        "rows": [_row_content(row) for row in trained],
        "seeds": seeds,
        "section": section.model_dump(mode="json"),
        "components": [component_versions(row.spec.model) for row in trained if row.spec is not None],
        "options": {key: str(value) for key, value in sorted(options.items()) if key not in NOT_IN_ID},
    }
    if matched:
        content["controls"] = {row: [control.kind for control in each] for row, each in matched.items()}
    number = len(planned) + sum(map(len, matched.values())) * len(seeds)
    names = {row.spec.data.corpus for row in rows if row.spec is not None}
    tables, entries = _tables(target, rows), [corpora.entry_file(corpus) for corpus in sorted(names)]
    inside = tuple(path for path in (*tables, *entries) if path.resolve().is_relative_to(root))
    outside = {path: f"{OUTSIDE}/{i}-{path.name}" for i, path in enumerate(tables) if path not in inside}
    extra = {place: _moved(path, place, root, outside) for path, place in outside.items()}
    extra |= {f"search_spaces/data/{path.name}": path.read_bytes() for path in entries if path not in inside}
    words = (_uploaded_target(root, target, outside), *arguments)
    return SweepJob(f"sweep-{digest(content)[:16]}", name, words, number, inside, env, extra)


def _folders(options: Mapping[str, Any]) -> dict[str, str]:
    """Environment variables for the given folders. UserError for a relative path, which would be in the job's upload, which Ray deletes."""
    given = {name: str(options[name]) for name in FOLDERS if options.get(name) is not None}
    problems = [
        f"--{name.replace('_', '-')} {shown(value)}: a folder of the cluster that every node sees; expected an absolute path"
        for name, value in given.items()
        if not PurePosixPath(value).is_absolute() and not (name == "results" and "://" in value)
    ]
    raise_all(problems)
    return {FOLDERS[name]: value for name, value in given.items()}


def _row_content(row: Row) -> Any:
    """The spec and options of the row and of the rows that it starts from."""
    parent = None if row.parent is None else _row_content(row.parent)
    assert row.spec is not None
    also = {name: score.model_dump(mode="json") for name, score in row.also.items()}
    return [row.id, row.spec.model_dump(mode="json"), row.workers, row.pinned, also, parent]


def _uploaded_target(root: Path, target: str, outside: Mapping[Path, str]) -> str:
    """The target on the cluster: a path relative to the upload, or the unchanged address."""
    name, mark, row = target.partition("#")
    path = Path(name)
    found = index.find_all(target)[0]
    if (place := outside.get(found.table.path.absolute())) is not None and not path.is_dir():
        return place + (mark + row if path.exists() else "#" + ",".join(found.rows) if found.rows else "")
    if not path.exists():
        return target
    if not path.resolve().is_relative_to(root):
        raise UserError(f"{shown(name, 200)}: a folder outside of the checkout; expected a file, or a folder in {root.name}/")
    return path.resolve().relative_to(root).as_posix() + mark + row


def _moved(path: Path, place: str, root: Path, outside: Mapping[Path, str]) -> bytes:
    """A table's file as it is uploaded to `place`: what it extends is named relative to there."""
    data = yaml_file.load(path).data
    if isinstance(base := data.get("extends"), str):
        parent = in_search_spaces((path.parent / base).resolve())
        there = outside.get(parent) or parent.relative_to(root).as_posix()
        data["extends"] = posixpath.relpath(there, posixpath.dirname(place))
    return dumped(data).encode()


def _tables(target: str, rows: Sequence[Row]) -> list[Path]:
    """The files from which the target's rows are read, through `extends` and `init_from`."""
    found: dict[Path, None] = {}
    waiting = [match.table.path for match in index.find_all(target)]
    waiting += [Path(each.source_file) for row in rows for each in row.lineage]
    for path in waiting:  # grows while it is read
        if (path := path.absolute()) not in found:
            found[path] = None
            if isinstance(base := yaml_file.load(path).data.get("extends"), str):
                waiting.append(in_search_spaces((path.parent / base).resolve()))
    return list(found)
