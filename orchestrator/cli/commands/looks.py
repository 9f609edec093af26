"""`sweep --until-decided`: two looks, with the first seeds and with all. Rows that the first look decides get no more seeds."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from orchestrator.engines.execute import execute
from orchestrator.errors import UserError
from orchestrator.ledger.results import Ledger
from orchestrator.ledger.run_lock import RunLock
from orchestrator.ledger.sweep_files import SweepFile
from orchestrator.report.claims import Comparisons
from orchestrator.report.figures import short_id
from orchestrator.report.find import Finder
from orchestrator.report.looks import level_of
from orchestrator.safe_text import log
from orchestrator.scoring.significance.verdicts import DECIDED, OPEN
from orchestrator.specs import index
from orchestrator.specs.claims import of_data
from orchestrator.specs.positions import display
from orchestrator.specs.row import Row, by_table, starts
from orchestrator.specs.table import SweepSpec
from orchestrator.sweeps.options import ExecutionOptions
from orchestrator.sweeps.plan import Data

Look = dict[str, Any]
LOOKS = 2
FIRST = 3
"""Seeds of the first look."""
BASELINE = "baseline"
"""In place of the verdict on a row that is compared with no other."""


def check(target: str, section: SweepSpec, seeds: Sequence[int], hours: float | None) -> None:
    """UserError if the sweep has no cap, too few seeds, or a scheduler that stops runs."""
    if hours is None:
        raise UserError("--until-decided: found no cap; expected --max-core-hours H (or --max-gpu-hours H)")
    if section.scheduler.kind != "fifo":
        table = next(found.table for found in index.find_all(target) if found.table.head.sweep is not None)
        position = table.document.at(("sweep", "scheduler", "kind"))
        raise UserError(position.line(f"found {section.scheduler.kind}, which stops runs; expected fifo, because of --until-decided"))
    if len(seeds) <= FIRST:
        raise UserError(
            f"--until-decided: found {len(seeds)} seeds; expected more than the {FIRST} of the first look, in sweep.seeds or --seeds"
        )


@dataclass(frozen=True)
class Judged:
    """A claim on a row, or its difference without a claim. needed: seeds of each row that would find it; None: over 200."""

    controls: tuple[str, ...]
    word: str
    reason: str
    needed: int | None

    def ends(self, most: int) -> str | None:
        """Why no more seeds than now, of `most` in all, are needed; None if they are."""
        if self.word in DECIDED:
            return f"{self.word}, {self.reason}"
        if self.word == OPEN and (self.needed is None or self.needed > most):
            return f"{self.word}, {self.needed or 'over 200'} seeds needed and {most} are the most"
        return None


def execute_looks(rows: list[Row], seeds: list[int], options: ExecutionOptions) -> list[dict[str, Any]]:
    """Runs every row with the first seeds, then those that the first look left with all seeds. Returns the records of `execute`.

    A look that was taken stays. None is taken while a run has failed.
    """
    file = SweepFile.of(options.results, options.slug)
    taken = _taken(file, seeds)
    if not taken:
        records = execute(rows, seeds[:FIRST], options)
        if _failed(records):
            return records
        taken = _keep(file, [take(rows, seeds[:FIRST], seeds, options)])
    _print(taken[0], 1)
    ended = _ended(taken[0], rows, seeds, options)
    dropped = {f"{row_id}:{seed}" for row_id in ended for seed in seeds[FIRST:]}
    records = execute(rows, seeds, replace(options, dropped=frozenset(dropped)))
    if _failed(records) or len(ended) == len(rows):
        return records
    if len(taken) == 1:
        taken = _keep(file, [*taken, take(rows, seeds, seeds, options, ended)])
    _print(taken[1], 2)
    return records


def _failed(records: Sequence[dict[str, Any]]) -> bool:
    return any(record["status"] not in ("done", "diverged") and not record.get("failed_as_stated") for record in records)


def _keep(file: SweepFile, looks: list[Look]) -> list[Look]:
    """Writes the looks into the sweep's file."""
    with RunLock(file.lock):
        file.write({**file.record(), "looks": looks})
    return looks


def _print(look: Look, number: int) -> None:
    for row_id, one in look["rows"].items():
        end = "goes on" if one["continue"] else "ends"
        log(f"{short_id(row_id)}: look {number} of 2, {look['seeds']} seeds: {end}: {one['reason']}")


def take(rows: Sequence[Row], some: Sequence[int], seeds: Sequence[int], options: ExecutionOptions, ended: Sequence[str] = ()) -> Look:
    """A look at the rows that have not `ended`, with the finished runs of the seeds `some`, the first ones or all of `seeds`."""
    finder = Finder(Ledger(options.results, list(options.mirrors)), Data(options.data_dir, options.cache_dir))
    found: dict[str, Any] = {}
    for address, own in by_table(rows).items():
        outcomes = {row.id: [o for o in finder.outcomes(row, some) if o.seed in some] for row in own}
        compared = Comparisons(own, outcomes, starts(own), finder.reader, of_data(options.claims, address), planned=LOOKS)
        decisions = _decide(own, _judge(compared), compared.starts, len(seeds), last=len(some) == len(seeds))
        for row in own:
            keys = finder.keys(row.at(seeds[0]))
            found |= {} if row.id in ended else {row.id: {"score": None if keys is None else keys.score, **decisions[row.id]}}
    return {"seeds": len(some), "all_seeds": list(seeds), "level": level_of(1, LOOKS), "rows": found}


def _judge(compared: Comparisons) -> dict[str, list[Judged]]:
    """Row -> its claims; without one that expects an effect, its difference to the row it is compared with too."""
    expected = {claim.row for claim in compared.claims if claim.effect is not None}
    found: dict[str, list[Judged]] = {}
    for one in compared.judgements:
        if one.stated and (one.claim.source != "row" or (one.effects and one.claim.row not in expected)):
            controls = tuple(effect.against for effect in one.effects) or (str(one.claim.against),)
            found.setdefault(one.claim.row, []).append(Judged(controls, one.verdict.word, one.verdict.reason, one.verdict.seeds))
    return found


def _decide(rows: Sequence[Row], found: dict[str, list[Judged]], start: dict[str, str], most: int, last: bool) -> dict[str, dict[str, Any]]:
    """Row -> {"verdict", "reason", "continue"}. A row goes on if it is open, or if an open one is compared with it or starts from it."""
    decisions: dict[str, dict[str, Any]] = {}
    open_of: dict[str, list[Judged]] = {}
    for row in rows:
        judgements = found.get(row.id) or ([Judged((start[row.id],), "no verdict", "no runs to compare", 1)] if row.id in start else [])
        open_of[row.id] = [] if last else [one for one in judgements if one.ends(most) is None]
        words = ", ".join(dict.fromkeys(one.word for one in judgements)) or BASELINE
        reasons = [one.ends(most) or f"{one.word}, {one.reason}" for one in open_of[row.id] or judgements]
        decisions[row.id] = {"verdict": words, "reason": "; ".join(reasons) or BASELINE, "continue": bool(open_of[row.id])}
    parents = {row.id: row.parent for row in rows}
    for row_id in [row_id for row_id, left in open_of.items() if left]:
        todo = [row_id, *(name for one in open_of[row_id] for name in one.controls)]
        while todo:
            name = todo.pop()
            if name in decisions and not decisions[name]["continue"]:
                decisions[name] |= {"continue": True, "reason": f"{decisions[name]['reason']}; {short_id(row_id)} needs it"}
            parent = parents.get(name)
            todo += [] if parent is None else [parent.id]
    return decisions


def _taken(file: SweepFile, seeds: Sequence[int]) -> list[Look]:
    """The looks of earlier calls. UserError if they were for other seeds: a third look would not keep the level."""
    taken: list[Look] = file.record().get("looks", [])
    for look in taken:
        if look["all_seeds"] != list(seeds):
            known = look["all_seeds"]
            raise UserError(f"{display(file.path)}: looks: its seeds are {known}, found {list(seeds)}; expected the same")
    return taken


def _ended(look: Look, rows: Sequence[Row], seeds: Sequence[int], options: ExecutionOptions) -> list[str]:
    """Rows that the look ended. One whose spec has changed since goes on."""
    finder = Finder(Ledger(options.results, list(options.mirrors)), Data(options.data_dir, options.cache_dir))
    ends = {row_id: one["score"] for row_id, one in look["rows"].items() if not one["continue"]}
    keys = {row.id: finder.keys(row.at(seeds[0])) for row in rows if row.id in ends}
    return [row_id for row_id, found in keys.items() if found is not None and found.score == ends[row_id]]
