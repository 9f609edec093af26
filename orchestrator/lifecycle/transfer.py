"""Moves a ledger to another machine: `export_packed` packs its records, `import_ledger` copies what is absent from another results folder.

The other folder may hold packed runs, which become files, and runs as files, with weights and with the checkpoints of unfinished ones.

An import is copied next to the ledger, then verified and compared as a whole, and refused if a run differs: equal keys imply equal bits
on equal machines alone. A new run is then installed by one rename, an existing run file by file with its final record last, and sweep
files at the end. A killed import leaves consistent runs, and a second call completes it.
"""

import os
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator import interrupt
from orchestrator.errors import LockedError, UserError
from orchestrator.faults import fault
from orchestrator.files import atomic
from orchestrator.files.documents import read_bytes, read_document, unsealed
from orchestrator.files.folders import make, need_folder
from orchestrator.files.json_lines import read_lines
from orchestrator.ledger import layout, packed, packing, sweep_files
from orchestrator.ledger.run_lock import RunLock, owner
from orchestrator.ledger.sweep_files import SweepFile, asked, read_sweeps, sweep_name, together
from orchestrator.lifecycle.garbage import LOCK, temporary_folder, temporary_lock
from orchestrator.report import looks
from orchestrator.safe_text import log
from orchestrator.specs.positions import display, nearest, shown
from orchestrator.sweeps.options import whole_name
from orchestrator.tuning import choice

ONCE = ("train.json", "capsule.json", "history.jsonl")
WITHOUT_TIMINGS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "decode": lambda record: record.get("hypotheses_sha256"),
    "tune": lambda record: [record.get(name) for name in ("alpha", "candidates")],
    "search": lambda record: choice.content(record, ("seconds", "scores")),
}
"""Folder -> the part of its records that is the same wherever the same weights are decoded or searched."""


@dataclass
class Imported:
    """Names of runs by the action taken (kept: of other files too), and of sweeps added or completed. files: number of files written."""

    added: list[str] = field(default_factory=list)
    completed: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    same: list[str] = field(default_factory=list)
    sweeps: list[str] = field(default_factory=list)
    files: int = 0


def export_packed(results: Path, dest: Path, only: Sequence[str] = ()) -> tuple[dict[str, int], dict[str, str], dict[str, str]]:
    """Writes the packed form of runs and copies their sweep files.

    only: sweeps to export, with all their parts (`sweeps.options.PARTS`); all runs by default. Returns (runs per table,
    runs left out because a process works on them -> this reason, runs left out because a text is damaged -> the damage). UserError for an
    unknown sweep, no run, damaged records, and other runs in `dest`.
    """
    runs, live, sweeps = _chosen(results, only)
    others = layout.beside_runs(results, sweeps)
    names = [*others, *(name for run in runs for name in packing.names_of(run))]
    damaged = {line.partition("/")[0]: line for line in layout.texts_lacking(results, names)}
    runs = [run for run in runs if run.name not in damaged]
    if problems := list(layout.problems_of(results, names)) or ([] if runs else list(damaged.values())):
        raise UserError(*(f"{display(results)}: {line}" for line in problems))
    if any(run.is_dir() or run.name not in {each.name for each in runs} for run in packed.runs(dest)):
        raise UserError(f"{display(dest)}: holds other runs, which would be lost, or runs as files; expected a new folder")
    written = packing.write(runs, dest)
    for name in others:
        atomic.write_bytes(dest / name, (results / name).read_bytes())
    return written, live, damaged


def _chosen(results: Path, only: Sequence[str]) -> tuple[list[Path], dict[str, str], list[str] | None]:
    """(Folders of the runs to export, runs that a process is working on -> this reason, sweeps to export: None for all).

    UserError for an unknown sweep, and for no run.
    """
    sweeps = read_sweeps(results)
    whole = {name: whole_name(sweep) for name, sweep in sweeps.names.items()}
    known = whole | {name: name for name in whole.values()}
    for name in only:
        if name not in known:
            raise UserError(f"--sweep {shown(name)}: no such sweep in {display(results)}; {nearest(name, sweeps.names)}")
    asked = {known[name] for name in only}
    parts = [name for name in whole if whole[name] in asked]
    requested = {key[:16] for key, named in sweeps.rows.items() if any(one.sweep in parts for one in named)}
    runs = [run for run in packed.runs(results) if not run.is_symlink() and (not only or run.name in requested)]
    live = {run.name: f"{run.name}: a process is at work on it" for run in runs if owner(run / "lock") is not None}
    chosen = [run for run in runs if run.name not in live and packing.names_of(run)]
    if not chosen:
        raise UserError(f"{display(results)}: holds no run" + (f" but {len(live)} that are being worked on" if live else ""))
    return chosen, live, parts if only else None


def import_ledger(path: Path, results: Path, *, keep: bool = False, dry_run: bool = False) -> Imported:
    """Copies what is absent in `results` from another results folder. Runs that a process is working on there are left out.

    keep: leave runs that differ as they are here; else UserError with one line per run. dry_run: write nothing.
    Raises UserError for a folder without runs or with invalid files, and LockedError if a process holds a run that would change.
    """
    need_folder(path, "FOLDER")
    if not packed.runs(path):
        raise UserError(f"{display(path)}: holds no runs; expected a results folder, or what `results export` wrote")
    make(results, "--results")
    with interrupt.raising(), temporary_lock(RunLock(results / LOCK)), temporary_folder(results, "import") as staging:
        names = _copy(path, staging)
        if problems := list(layout.problems_of(staging, names)):
            more = [f"and {len(problems) - 20} more"] if len(problems) > 20 else []
            raise UserError(*(f"{display(path)}: {line}" for line in problems[:20]), *more)
        log(*(f"warning: {display(path)}: {line}" for line in layout.texts_lacking(staging, names)))
        return _merge(staging, results, names, keep, dry_run)


def _copy(path: Path, staging: Path) -> list[str]:
    """Copies the files of another ledger into the empty folder `staging`, packed ones as files. Returns their names."""
    held = [name for name in packed.tables_in(path) if layout.belongs(name)]
    runs = [path / name for name in sorted({run.name for run in packed.runs(path)}) if (path / name).is_dir()]
    loose = [name for run in runs if not run.is_symlink() and owner(run / "lock") is None for name in layout.of_run(run)]
    loose += layout.beside_runs(path)
    packing.write_files(path, [name for name in held if name not in set(loose)], staging)
    for name in loose:
        (staging / name).parent.mkdir(parents=True, exist_ok=True)
        with atomic.naming(staging / name):
            shutil.copyfile(path / name, staging / name)
        fault("import_file")
    os.sync()  # one sync of all files, before any is moved to its place
    return list(dict.fromkeys([*held, *loose]))


def _merge(staging: Path, results: Path, names: Iterable[str], keep: bool, dry_run: bool) -> Imported:
    groups: dict[str, dict[str, list[str]]] = defaultdict(lambda: {"add": [], "same": [], "differ": []})
    here, runs = staging / "here", {name[:16] for name in names}  # here: the runs that are packed in `results`
    packing.write_files(results, (name for name in packed.tables_in(results) if name[:16] in runs), here)
    for name in sorted(names):  # a group: a run, or one other file
        ours = here if (here / name[:16]).is_dir() and not (results / name).exists() else results
        groups[name[:16] if layout.of_a_run(name) else name][_compare(staging, ours, name)].append(name)
    differ = {group: found["differ"] for group, found in groups.items() if found["differ"]}
    if differ and not keep:
        lines = [
            f"{group}: differs here in {', '.join(names[:3])}{' and others' if len(names) > 3 else ''}" for group, names in differ.items()
        ]
        raise UserError(*lines, "nothing was imported; --on-conflict keep leaves these as they are here")
    imported, todo = Imported(), {group: found["add"] for group, found in groups.items() if found["add"] and not found["differ"]}
    for group, found in groups.items():
        if found["differ"]:
            imported.kept.append(group)
        elif _is_sweep(group):
            imported.sweeps += [sweep_name(Path(group).name)] if group in todo else []
        elif not layout.of_a_run(group):
            continue  # looks, sessions and what was measured
        elif group not in todo:
            imported.same.append(group)
        else:
            (imported.completed if (results / group).is_dir() or (here / group).is_dir() else imported.added).append(group)
        if group in todo and (holder := owner(_lock_of(results, group))) is not None:
            raise LockedError(f"{group}: process {holder.get('pid')} on {holder.get('host')} is at work on it; nothing was imported")
    if not dry_run:
        imported.files = sum(map(len, todo.values()))
        for group in sorted(todo, key=lambda group: (not layout.of_a_run(group), group)):
            _install(staging, results, group, todo[group])
        atomic.fsync_dir(results)
    return imported


def _compare(theirs: Path, ours: Path, name: str) -> str:
    """Returns add | same | differ for one file. A damaged record here counts as absent. To a run begun here, only a finished one adds."""
    here, there, file = ours / name, theirs / name, name.partition("/")[2]
    begun = any((ours / name[:16] / other).exists() for other in ("train.json", "ckpt"))
    if file == "journal.jsonl" or file.startswith("ckpt/"):
        return "same" if here.exists() or begun else "add"
    newer = "same" if begun and layout.is_unfinished(theirs / name[:16]) else "add"
    if not here.exists():
        return newer
    if name == layout.LOOKS:
        return "same" if looks.read(ours) == looks.together(looks.read(ours), looks.read(theirs)) else "add"
    if read_bytes(there) == read_bytes(here) or file == "spec.yaml":  # under one key it differs only in the row that trained first
        return "same"
    if file in ONCE or file.startswith("rungs/"):
        one, other = ((read_document(each / name[:16] / "train.json") or {}).get("weights_sha256") for each in (ours, theirs))
        if one is not None and one == other:
            return "same"  # trained twice to the same bits: ours says when and where
    if file == "history.jsonl" or name.startswith("sessions/"):
        one, other = list(read_lines(there)), list(read_lines(here))
        return newer if one[: len(other)] == other else "same" if other[: len(one)] == one else "differ"
    if name.startswith("sweeps/"):
        return _compare_sweeps(there, here) if _is_sweep(name) else _compare_decisions(there, here)
    if not file.endswith(".json"):
        return "differ"
    document = read_document(here)
    if document is None or name.startswith(layout.MEASURED):  # what was measured here stays
        return newer if document is None else "same"
    folder, other = file.partition("/")[0], read_document(there) or {}
    content = WITHOUT_TIMINGS.get(folder, unsealed)
    if content(other) != content(document):
        return "differ"
    return "add" if folder == "search" and choice.scored(other) and not choice.scored(document) else "same"


def _is_sweep(name: str) -> bool:
    return name.startswith("sweeps/") and not name.endswith(sweep_files.BESIDE)


def _compare_sweeps(there: Path, here: Path) -> str:
    """Returns add | same | differ. Sweeps differ if a row of one seed has other keys; their other rows and claims are added to ours."""
    theirs, ours = sweep_files.read(there), sweep_files.read_or_tell(here)
    if ours is None:
        return "differ"
    known = asked(ours)
    both = [(known[place]["keys"], row["keys"]) for place, row in asked(theirs).items() if place in known]
    if any(one.get(name) != other.get(name) for one, other in both for name in ("train", "score")):
        return "differ"
    return "same" if together(ours, theirs) == ours else "add"


def _compare_decisions(there: Path, here: Path) -> str:
    """Returns add | same | differ for the decisions of ASHA. `add`: theirs begin with ours at each rung."""
    theirs, ours = (unsealed(read_document(path) or {"rungs": {}}) for path in (there, here))
    of_theirs, of_ours = theirs.pop("rungs"), ours.pop("rungs")
    if ours and theirs != ours:
        return "differ"
    pairs = [(of_theirs.get(rung, []), of_ours.get(rung, [])) for rung in of_theirs | of_ours]
    if all(other == one[: len(other)] for one, other in pairs):
        return "add"
    return "same" if all(one == other[: len(one)] for one, other in pairs) else "differ"


def _lock_of(results: Path, group: str) -> Path:
    return (results / layout.claim_of(layout.group_of(group) or group)).with_suffix("")


def _install(staging: Path, results: Path, group: str, names: Iterable[str]) -> None:
    """Moves a new run as a whole, else file by file under the lock of the run or sweep."""
    if layout.of_a_run(group) and not (results / group).exists() and not (staging / "here" / group).exists():
        fault("import_pre_rename")
        (staging / group).rename(results / group)
        fault("import_post_rename")
        return
    with temporary_lock(RunLock(_lock_of(results, group))):
        if group == layout.LOOKS:
            looks.write(staging, looks.together(looks.read(results), looks.read(staging)))
        elif _is_sweep(group) and (results / group).exists():
            SweepFile(staging / group).write(together(sweep_files.read(results / group), sweep_files.read(staging / group)))
        for name in sorted(names, key=layout.writing_order):
            target = results / name
            target.parent.mkdir(parents=True, exist_ok=True)
            fault("import_pre_rename")
            (staging / name).rename(target)
            atomic.fsync_dir(target.parent)
            fault("import_post_rename")
