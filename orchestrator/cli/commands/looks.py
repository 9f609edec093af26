"""`sweep --until-decided`: two looks, first with some seeds, then with all. Rows that the first look decides get no more seeds."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from orchestrator.cli.commands.request import Request
from orchestrator.engines.execute import execute
from orchestrator.errors import UserError
from orchestrator.ledger.run_lock import RunLock
from orchestrator.ledger.sweep_files import SweepFile
from orchestrator.report.claims import Comparisons
from orchestrator.report.find import Finder
from orchestrator.report.looks import level_of
from orchestrator.safe_text import log
from orchestrator.scoring.significance.verdicts import DECIDED, OPEN, Verdict
from orchestrator.specs import index
from orchestrator.specs.claims import of_data
from orchestrator.specs.positions import display
from orchestrator.specs.row import Row, by_table, short_id, starts
from orchestrator.specs.table import SweepSpec
from orchestrator.sweeps.options import ExecutionOptions
from orchestrator.sweeps.row import Result

Look = dict[str, Any]
Judged = tuple[Verdict, tuple[str, ...]]
"""The verdict on a claim, or on a row's difference without a claim, and the compared rows."""
LOOKS = 2
FIRST = 3
"""Number of seeds of the first look."""
BASELINE = "baseline"
"""Replaces the verdict on a row that is not compared with another row."""


def check(target: str, section: SweepSpec, seeds: Sequence[int], hours: float | None) -> None:
    """Raises UserError if the sweep has no cap, too few seeds, or a scheduler that stops runs."""
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


def ends(judged: Verdict, most: int) -> str | None:
    """Returns why a row gets no more seeds; None if it needs more. most: maximum number of seeds."""
    if judged.word in DECIDED:
        return f"{judged.word}, {judged.reason}"
    if judged.word == OPEN and (judged.seeds is None or judged.seeds > most):
        return f"{judged.word}, {judged.seeds or 'over 200'} seeds needed and {most} are the most"
    return None


def execute_looks(request: Request, rows: list[Row], seeds: list[int], options: ExecutionOptions) -> list[Result]:
    """Runs every row with the first seeds, then the undecided rows with all seeds. Returns the results of `execute`.

    request: the request with these rows; its tables are judged as in every command. An earlier look stays valid. If rows are new, its
    decisions stay, and the new rows get a look. No look is taken while a run has failed. The table of the results is the second look.
    """
    file = SweepFile.of(options.results, options.slug)
    look: Look = next(iter(file.record().get("looks", [])), {"all_seeds": seeds, "rows": {}})
    if look["all_seeds"] != seeds:  # a third look would exceed the level
        raise UserError(f"{display(file.path)}: looks: its seeds are {look['all_seeds']}, found {seeds}; expected the same")
    known = look["rows"]
    if any(row.id not in known for row in rows):
        results = execute(rows, seeds[:FIRST], options)
        if not all(result.outcome.finished for result in results):
            return results
        look = take(request, rows, seeds, options)
        look["rows"] |= {row_id: one for row_id, one in known.items() if not one["continue"]}
        with RunLock(file.lock):
            file.write({**file.record(), "looks": [look]})
    for row_id, one in look["rows"].items():
        log(f"{short_id(row_id)}: look 1 of 2, {look['seeds']} seeds: {'goes on' if one['continue'] else 'ends'}: {one['reason']}")
    dropped = {f"{row_id}:{seed}" for row_id in _ended(look, rows, seeds, request.finder) for seed in seeds[FIRST:]}
    return execute(rows, seeds, replace(options, dropped=frozenset(dropped)))


def take(request: Request, rows: Sequence[Row], seeds: Sequence[int], options: ExecutionOptions) -> Look:
    """Takes the first look at the rows, with finished runs of the first of `seeds`."""
    found: dict[str, Any] = {}
    some = seeds[:FIRST]
    families = {family.address: family for family in request.again().families() if not family.searches}
    for address, own in by_table(rows).items():
        whole, finder = list({row.id: row for row in [*families[address].rows, *own]}.values()), families[address].finder
        outcomes = {row.id: [o for o in finder.outcomes(row, some) if o.seed in some] for row in whole}
        planned = dict.fromkeys((row.id for row in own), LOOKS)
        compared = Comparisons(whole, outcomes, starts(whole), finder.reader, of_data(options.claims, address), planned=planned)
        decisions = _decide(own, _judge(compared), compared.starts, len(seeds))
        for row in own:
            keys = finder.keys(row.at(seeds[0]))
            found[row.id] = {"score": None if keys is None else keys.score, **decisions[row.id]}
    return {"seeds": len(some), "all_seeds": list(seeds), "level": level_of(1, LOOKS), "rows": found}


def _judge(compared: Comparisons) -> dict[str, list[Judged]]:
    """Returns row -> its judged claims. Without a claim about an effect, also its difference to the comparison row."""
    expected = {claim.row for claim in compared.claims if claim.effect is not None}
    found: dict[str, list[Judged]] = {}
    for one in compared.judgements:
        if one.stated and (one.claim.source != "row" or (one.effects and one.claim.row not in expected)):
            controls = tuple(effect.against for effect in one.effects) or (str(one.claim.against),)
            found.setdefault(one.claim.row, []).append((one.verdict, controls))
    return found


def _decide(rows: Sequence[Row], found: dict[str, list[Judged]], start: dict[str, str], most: int) -> dict[str, dict[str, Any]]:
    """Returns row -> {"verdict", "reason", "continue"}. A row continues if it, a row compared with it or a row started from it is open."""
    decisions: dict[str, dict[str, Any]] = {}
    open_of: dict[str, list[Judged]] = {}
    for row in rows:
        nothing = [(Verdict("no verdict", "no runs to compare", 1), (start[row.id],))] if row.id in start else []
        judged = found.get(row.id) or nothing
        open_of[row.id] = [(one, controls) for one, controls in judged if ends(one, most) is None]
        words = ", ".join(dict.fromkeys(one.word for one, _ in judged)) or BASELINE
        reasons = [ends(one, most) or f"{one.word}, {one.reason}" for one, _ in open_of[row.id] or judged]
        decisions[row.id] = {"verdict": words, "reason": "; ".join(reasons) or BASELINE, "continue": bool(open_of[row.id])}
    parents = {row.id: row.parent for row in rows}
    for row_id in [row_id for row_id, left in open_of.items() if left]:
        todo = [row_id, *(name for _, controls in open_of[row_id] for name in controls)]
        while todo:
            name = todo.pop()
            if name in decisions and not decisions[name]["continue"]:
                decisions[name] |= {"continue": True, "reason": f"{decisions[name]['reason']}; {short_id(row_id)} needs it"}
            parent = parents.get(name)
            todo += [] if parent is None else [parent.id]
    return decisions


def _ended(look: Look, rows: Sequence[Row], seeds: Sequence[int], finder: Finder) -> list[str]:
    """Returns the rows that the look ended. A row whose spec has changed since continues."""
    ends = {row_id: one["score"] for row_id, one in look["rows"].items() if not one["continue"]}
    keys = {row.id: finder.keys(row.at(seeds[0])) for row in rows if row.id in ends}
    return [row_id for row_id, found in keys.items() if found is not None and found.score == ends[row_id]]
