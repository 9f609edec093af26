"""From the targets of a command to the rows that are looked at: which kind of analysis, which rows, which of them have a finished run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from orchestrator.analysis import base
from orchestrator.analysis.base import Subject
from orchestrator.decoding.length_penalty import with_known
from orchestrator.errors import UserError
from orchestrator.files.canonical import digest
from orchestrator.ledger.keys import Keys
from orchestrator.ledger.results import Ledger
from orchestrator.ledger.run_files import Store
from orchestrator.report.find import Finder
from orchestrator.specs.positions import nearest
from orchestrator.specs.row import Row
from orchestrator.specs.rows import resolve
from orchestrator.sweeps.plan import Data


@dataclass(frozen=True)
class How:
    """How the rows of every target are resolved: as for `run`."""

    sets: list[str] = field(default_factory=list)
    profile: str | None = None
    seed: int = 1

    def rows(self, target: str) -> list[Row]:
        return resolve(target, sets=self.sets, profile=self.profile, seed=self.seed)


@dataclass(frozen=True)
class Group:
    """One analysis to do. `left_out`: a line for each row that has no finished run, with the command that makes one."""

    kind: str
    subjects: list[Subject]
    left_out: list[str]


def rows_of(targets: Sequence[str], how: How) -> list[Row]:
    """Rows of all targets, each once, in order. UserError with every target's problems."""
    rows: dict[str, Row] = {}
    problems: list[str] = []
    for target in targets:
        try:
            for row in how.rows(target):
                rows.setdefault(row.id, row)
        except UserError as error:
            problems += error.lines
    if problems:
        raise UserError(*dict.fromkeys(problems))
    return list(rows.values())


def kinds_of(rows: Sequence[Row], kind: str | None) -> dict[str, list[Row]]:
    """Kind -> its rows. `kind`: asked for, so that it is the only one and all rows are its own.

    Without it the rows' own `analysis` says; rows that name none join the only kind there is. UserError where none is known.
    """
    if kind is not None:
        base.module_of(kind)
        return {kind: list(rows)}
    named = dict.fromkeys(row.analysis for row in rows if row.analysis is not None)
    if not named:
        raise UserError(f"{rows[0].id}: names no analysis; give --kind: {nearest('', base.KINDS)}")
    if len(named) == 1:
        return {name: list(rows) for name in named}
    return {name: [row for row in rows if row.analysis == name] for name in named}


def group(kind: str, rows: Sequence[Row], how: How, ledger: Ledger, data_dir: Path | None, again: str) -> Group:
    """The subjects of one analysis: rows that run stand for themselves, analysis rows for those in their `of`, each row once.

    again: options of the command that would run a missing row. UserError where no subject is left.
    """
    finder, needed, tensors = Finder(ledger, Data(data_dir)), base.needs_runs(kind), base.needs_weights(kind)
    subjects: dict[str, Subject] = {}
    left_out: list[str] = []
    for row, asked in _asked(rows, how):
        if row.id in subjects:
            continue
        keys = finder.keys(row) or Keys(None, None, None)
        problem = _unfinished(row, keys, ledger) if needed else None
        if problem is not None:
            seed = "" if how.seed == 1 else f" --seed {how.seed}"
            left_out.append(f"{row.id} seed {how.seed}: {problem}; run it first: nmt-ablate run {row.id}{seed}{again}")
        elif tensors and not _has_weights(ledger, keys):
            left_out.append(f"{row.id} seed {how.seed}: its weights are not in {ledger.root} (published results hold none)")
        else:
            assert row.spec is not None  # `_asked` gives rows that run
            subjects[row.id] = Subject(row, keys, _label(row, asked), asked, with_known(row.spec, keys, ledger))
    left_out = list(dict.fromkeys(left_out))
    if not subjects:
        raise UserError(*(left_out or [f"{rows[0].id}: found no row to analyse; expected rows that run, or an analysis of some"]))
    return Group(kind, list(subjects.values()), left_out)


def _asked(rows: Sequence[Row], how: How) -> list[tuple[Row, Row | None]]:
    """(row that runs, analysis row it stands for)."""
    found: list[tuple[Row, Row | None]] = []
    for row in rows:
        if row.spec is not None:
            found.append((row, None))
        for address in row.of:
            found += [(other, row) for other in how.rows(_beside(row, address)) if other.spec is not None]
    return found


def _beside(row: Row, address: str) -> str:
    """A row of the same file by its file: that also works where the file is not one of ours."""
    table = "/".join(row.id.split("/")[:2]) + "/"
    here = address.startswith(table) and Path(row.source_file).is_file()
    return f"{row.source_file}#{address.removeprefix(table)}" if here else address


def _label(row: Row, asked: Row | None) -> str:
    """The analysis row's own label where it is about this row alone and says more than its address."""
    alone = asked is not None and len(asked.of) == 1 and asked.label and not asked.id.endswith(f"/{asked.label}")
    return asked.label if alone and asked is not None else row.label or row.id


def _unfinished(row: Row, keys: Keys, ledger: Ledger) -> str | None:
    """Why the row cannot be looked at, or None."""
    assert row.spec is not None
    if keys.train is None or keys.score is None:
        return f"corpus {row.spec.data.corpus} is absent (--data-dir) and no run is in {ledger.root}"
    record = ledger.read_train(keys.train)
    if record is None:
        return f"found no run in {ledger.root}"
    if record["status"] != "done":
        return f"its run is {record['status']}"
    return None if ledger.read_score(keys.train, keys.score) is not None else "its run is not scored"


def _has_weights(ledger: Ledger, keys: Keys) -> bool:
    return keys.train is not None and Store(ledger.run_dir(keys.train), keys.train).has_weights()


def slug(rows: Sequence[Row], how: How, options: Sequence[str] = (), *, picked: bool = False) -> str:
    """Stable name of the folder of an analysis: the row, table or papers, the profile, and a digest of whatever else was chosen.

    picked: the rows come from several targets, so that they need not be a whole table.
    """
    tables = list(dict.fromkeys("/".join(row.id.split("/")[:2]) for row in rows))
    if len(rows) == 1:
        name = rows[0].id
    elif len(tables) == 1:
        name = tables[0]
    else:
        name = "+".join(dict.fromkeys(table.partition("/")[0] for table in tables))[:60]
    chosen = [[row.id for row in rows] if picked or len(tables) > 1 else [], sorted(how.sets), sorted(options)]
    marks = (f"@{how.profile}" if how.profile else "") + (f"-seed{how.seed}" if how.seed != 1 else "")
    return name.replace("/", "-") + marks + (f"+{digest(chosen)[:8]}" if any(chosen) else "")
