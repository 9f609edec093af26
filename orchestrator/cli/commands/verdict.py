"""`verdict`."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import typer

from orchestrator.cli.commands.request import Request
from orchestrator.cli.commands.sizes import at_sizes
from orchestrator.cli.output import console, print_json
from orchestrator.errors import UserError, raise_all
from orchestrator.ledger import sweep_files
from orchestrator.report import sessions
from orchestrator.report.claims import Comparisons
from orchestrator.report.judgement import Judgement, exit_code
from orchestrator.report.notes import warn_of_changes
from orchestrator.safe_text import log, log_once
from orchestrator.specs import claims
from orchestrator.specs.row import short_id, starts
from orchestrator.sweeps.options import RowOptions
from orchestrator.tables import cell, make_table


@dataclass
class Answer:
    """A judgement of a row as written or of a tuned row.

    more: further facts on a claim of a file. session: its line in the session. size: profile of the size, for a ladder.
    """

    judgement: Judgement
    tuned: bool
    more: dict[str, Any] = field(default_factory=dict)
    session: dict[str, Any] | None = None
    size: str | None = None

    @property
    def question(self) -> tuple[Any, ...]:
        claim = self.judgement.claim
        return claim.row, claim.against, claim.metric, self.size

    def as_json(self) -> dict[str, Any]:
        found = self.judgement.as_json() | {"configuration": "tuned" if self.tuned else "as written"} | self.more
        return found | ({} if self.size is None else {"size": self.size})


def verdict(target: str, options: RowOptions, *, session: str | None = None, as_json: bool) -> None:
    """Prints one record or line per claim and metric; if there is no claim, per difference of the rows.

    Exit codes: see `report.judgement.exit_code`; in a session 7 unless all pass.
    """
    if session is not None and options.ladder is not None:
        raise UserError("--session: found --ladder too; expected one of them, for a session judges a claim once")
    sizes = at_sizes(options, target)
    found = [(each.profile if len(sizes) > 1 else None, one) for each in sizes for one in _answers(target, each, session)]
    answers = [replace(one, size=size) for size, one in found]
    answers = [one for one in answers if one.judgement.claim.source != "row"] or answers  # without claims, differences
    if not answers:
        either = "the paper or the file (`claims`), and no row that the table compares with another"
        where = either if session is None else "the file (`claims`) with an effect on a row of ours"
        raise UserError(f"{target}: found no claim in {where}")
    if as_json:
        for one in answers:
            print_json(({} if session is None else {"session": one.session}) | one.as_json())
    else:
        _print(answers)
    code = exit_code([one.judgement for one in headlines(answers)])
    if session is not None and code != 6:
        code = 0 if all(one.session and one.session["accepted"] for one in answers) else 7
    if code:
        raise typer.Exit(code)


def _answers(target: str, options: RowOptions, session: str | None) -> list[Answer]:
    """Returns the judgement of each claim, and of each difference without a claim, on each metric."""
    request = Request.of(target, options)
    finder = request.finder
    roots = [finder.ledger.root, *finder.ledger.mirrors]
    setting = ", ".join([*([options.profile] if options.profile else []), *(f"--set {text}" for text in options.sets or [])])
    answers: list[Answer] = []
    problems: list[str] = []
    for family in request.families():
        address, file, rows = family.address, family.file, family.rows
        by_id = {row.id: row for row in rows}
        outcomes = {row.id: family.finder.outcomes(row, family.seeds) for row in rows}
        warn_of_changes(rows, outcomes, family.finder, family.seeds, options.arguments)
        stated = claims.of_table(address, file.head.claims)
        if session is not None:
            problems += sessions.undeclared(file.document, stated, by_id, starts(rows))
        named, recorded = family.named(request.rows), sweep_files.recorded_claims(roots, address)
        for one in Comparisons(rows, outcomes, starts(rows), finder.reader, stated, setting=setting, seen=named).judgements:
            if one.claim.row in named and (session is None or sessions.judges(one.claim, by_id)):
                answers.append(Answer(one, bool(family.searches), _history(one, recorded)))
        for line in family.notes({row_id: found for row_id, found in outcomes.items() if row_id in named}):
            log_once(f"warning: {family.name}: {line}")
    raise_all(problems)
    if session is not None:
        answers = _in_session(headlines(answers), session, finder.ledger.root)
    return answers


def headlines(answers: list[Answer]) -> list[Answer]:
    """Returns the answers that count for each claim: tuned rows if they were judged, else the rows as written."""
    tuned = {one.question for one in answers if one.tuned and one.judgement.p is not None}
    return [one for one in answers if one.tuned or one.question not in tuned]


def _in_session(answers: list[Answer], name: str, results: Path) -> list[Answer]:
    """Returns the claims on their own metrics with their lines in the session; None for unfinished runs."""
    own = [one for one in answers if one.judgement.stated]
    ready = [one for one in own if one.judgement.raw is not None]
    ready = [one for one in ready if min(min(effect.seeds) for effect in one.judgement.effects) >= one.judgement.claim.seeds]
    for one, line in zip(ready, sessions.join(results, name, [one.judgement for one in ready]), strict=True):
        one.session = {"name": name} | {part: line[part] for part in ("number", "p", "level", "accepted")}
    return own


def _history(judgement: Judgement, recorded: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns {"least_seeds", "recorded", "changed"} of a claim of a file; {} for others.

    These are the minimum number of seeds, the time when a sweep first recorded the claim, and the claim at that time if it differs.
    """
    claim = judgement.claim.of
    if claim is None or not judgement.stated:
        return {}
    key = (claim.row, claim.metric, claim.against)
    earlier = [r for r in recorded if tuple(map(r["claim"].get, ("row", "metric", "against"))) == key]
    first = min(earlier, key=lambda each: each["recorded"], default=None)
    changed = None if first is None or first["claim"] == claim.model_dump(mode="json") else first["claim"]
    return {"least_seeds": claim.seeds, "recorded": None if first is None else first["recorded"], "changed": changed}


def _print(answers: list[Answer]) -> None:
    tuned, sized = any(one.tuned for one in answers), any(one.size is not None for one in answers)
    heads = ("row", *["size"] * sized, *["configuration"] * tuned, "strongest control", "metric", "claim", "ours, with its interval")
    setting = None if sized else answers[0].judgement.setting
    title = f"not as published: {setting}" if setting else None
    table = make_table((*heads, "p", "seeds", "look", "verdict"), title=title, numeric=("claim", "p", "look"))
    place = {one.question: i for i, one in reversed([*enumerate(answers)])}  # answers to the same claim are adjacent
    for one in sorted(answers, key=lambda one: place[one.question]):
        found, claim, effect = one.judgement, one.judgement.claim, one.judgement.effect
        table.add_row(
            cell(short_id(claim.row)),
            *[cell(one.size)] * sized,
            *["tuned" if one.tuned else "as written"] * tuned,
            cell(short_id((claim.against or "") if effect is None else effect.against)),
            claim.metric,
            found.claimed_effect,
            "" if effect is None else cell(effect.interval),
            f"{found.p:.2g}" if found.p is not None else "",
            "" if effect is None else ", ".join(map(str, effect.seeds)),
            str(found.look),
            cell(found.verdict.word),
        )
    console().print(table)
    for one in answers:
        found, row = one.judgement, short_id(one.judgement.claim.row)
        which = (", tuned" if one.tuned else "") + (f", {one.size}" if sized else "")
        over = "" if found.effect is None else f" against {short_id(found.effect.against)}"
        log(f"{row}{which}{over}, {found.metric}: {found.verdict.word}: {found.verdict.reason}")
        if line := one.session:
            word, where = "accepted" if line["accepted"] else "not accepted", f"claim {line['number']} of session {line['name']}"
            log(f"{row}{which}, {found.metric}: {word}: p = {line['p']:.2g}, level {line['level']:.2g}, {where}")
        if found.effect is not None and found.effect.shares:
            chrf = "" if found.chrf is None else f"; chrF {found.chrf.interval}"
            log(f"{row}{which}, {found.metric}: by precision, length: {found.effect.shares}{chrf}")
        log(*(f"{row}{which}, {found.metric}: {effect.interval} to {short_id(effect.against)}" for effect in found.effects[1:]))
        if found.stated and found.unmet:
            log(f"{row}{which}: not compared with {', '.join(found.unmet)}")
