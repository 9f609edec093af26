"""`verdict`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from orchestrator.cli.commands.request import Request
from orchestrator.cli.commands.sizes import at_sizes
from orchestrator.cli.output import console, print_json
from orchestrator.errors import UserError
from orchestrator.ledger import sweep_files
from orchestrator.report import sessions
from orchestrator.report.claims import Comparisons
from orchestrator.report.effects import Outcomes, interval, named_verdict, parts
from orchestrator.report.figures import short_id
from orchestrator.report.find import SeedResult
from orchestrator.report.judgement import exit_code
from orchestrator.safe_text import log
from orchestrator.specs import claims
from orchestrator.specs.row import starts
from orchestrator.sweeps.options import RowOptions
from orchestrator.tables import cell, make_table


def verdict(target: str, options: RowOptions, *, session: str | None = None, as_json: bool) -> None:
    """Prints one record or line for each claim and metric. Exit codes: `report.claims.exit_code`; in a session 7 unless it accepts all."""
    if session is not None and options.ladder is not None:
        raise UserError("--session: found --ladder too; expected one of them, for a session judges a claim once")
    sizes = at_sizes(target, options)
    records = [record | ({"size": each.profile} if len(sizes) > 1 else {}) for each in sizes for record in _records(target, each, session)]
    if not records:
        raise UserError(f"{target}: found no claim: no row of it reports a difference to another row, and no file has `claims`")
    if as_json:
        for record in records:
            print_json(record)
    else:
        _print(records)
    code = exit_code(headlines(records))
    if session is not None and code != 6:
        code = 0 if all(record["session"] and record["session"]["accepted"] for record in records) else 7
    if code:
        raise typer.Exit(code)


def _records(target: str, options: RowOptions, session: str | None) -> list[dict[str, Any]]:
    """A record for each claim and metric."""
    request = Request.of(target, options)
    finder = request.finder
    roots = [finder.ledger.root, *finder.ledger.mirrors]
    setting = ", ".join([*([options.profile] if options.profile else []), *(f"--set {text}" for text in options.sets or [])])
    records: list[dict[str, Any]] = []
    known: dict[str, Sequence[SeedResult]] = {}
    problems: list[str] = []
    for family in request.families():
        address, file, rows = family.address, family.file, family.rows
        outcomes = {row.id: family.finder.outcomes(row, family.seeds) for row in rows}
        stated, known = claims.of_table(address, file.claims), known | outcomes
        problems += (
            [] if session is None else sessions.undeclared(file.document, address, file.claims, {row.id: row for row in rows}, starts(rows))
        )
        found = Comparisons(rows, outcomes, starts(rows), finder.reader, stated, setting=setting).of_claims()
        configuration, named = "as written" if not family.searches else "tuned", family.named(request.rows)
        own = [record | {"configuration": configuration} for record in found if record["row"] in named]
        records += _with_history(own, address, file.claims, sweep_files.recorded_claims(roots, address))
    if problems:
        raise UserError(*problems)
    if session is not None:
        records = _in_session(headlines(records), session, finder.ledger.root, known)
    return records


def headlines(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The records that answer each claim: those of tuned rows where they were judged, else those of the rows as written."""
    tuned = {_claim(record) for record in records if record["configuration"] == "tuned" and record["p"] is not None}
    return [record for record in records if record["configuration"] == "tuned" or _claim(record) not in tuned]


def _claim(record: dict[str, Any]) -> tuple[Any, ...]:
    return record["row"], record["against"], record["metric"], record.get("size")


def _in_session(records: list[dict[str, Any]], name: str, results: Path, outcomes: Outcomes) -> list[dict[str, Any]]:
    """The claims of files with "session", {"name", "number", "p", "level", "accepted"}; null where their runs are not done.

    A claim of no effect has no p of its own, and is not judged.
    """
    own = [record for record in records if record["source"] == "file" and record["stated"]]
    ready = [
        record
        for record in own
        if record["p_raw"] is not None
        and record["claim"] != 0
        and min(min(effect["seeds"]) for effect in (record["effect"], *record["controls"])) >= record["least_seeds"]
    ]
    for record, line in zip(ready, sessions.join(results, name, ready, outcomes), strict=True):
        record["session"] = {"name": name} | {part: line[part] for part in ("number", "p", "level", "accepted")}
    return [{"session": None} | record for record in own]


def _with_history(
    records: list[dict[str, Any]], address: str, own: list[claims.Claim], recorded: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Adds {"least_seeds", "recorded", "changed"} to claims of a file.

    These are the seeds that it asks for, when a sweep first recorded it, and the claim of then if it differs.
    """
    stated = list(zip(claims.of_table(address, own), own, strict=True))
    for record in [record for record in records if record["source"] == "file" and record["stated"]]:
        whose = [(full, claim) for full, claim in stated if full.row == record["row"]]
        claim = next(c for full, c in whose if full.against in (None, record["against"]) and full.metric in (None, record["metric"]))
        key = (claim.row, claim.metric, claim.against)
        earlier = [r for r in recorded if tuple(map(r["claim"].get, ("row", "metric", "against"))) == key]
        first = min(earlier, key=lambda each: each["recorded"], default=None)
        now = claim.model_dump(mode="json")
        record["least_seeds"] = claim.seeds
        record["recorded"] = None if first is None else first["recorded"]
        record["changed"] = None if first is None or first["claim"] == now else first["claim"]
    return records


def _print(records: list[dict[str, Any]]) -> None:
    tuned = any(record["configuration"] == "tuned" for record in records)
    sized = any("size" in record for record in records)
    heads = (
        "row",
        *["size"] * sized,
        *["configuration"] * tuned,
        "strongest control",
        "metric",
        "claim",
        "ours, with its interval",
        "p",
        "seeds",
        "look",
        "verdict",
    )
    table = make_table(heads, numeric=("claim", "p", "look"))
    place = {_claim(record): i for i, record in reversed([*enumerate(records)])}  # the answers to a claim stand together
    for record in sorted(records, key=lambda record: place[_claim(record)]):
        effect = record["effect"] or {}
        table.add_row(
            cell(short_id(record["row"])),
            *[cell(record.get("size"))] * sized,
            *[record["configuration"]] * tuned,
            cell(short_id(effect.get("against") or record["against"] or "")),
            record["metric"],
            "" if record["claim"] is None else f"{record['claim']:+.2f}",
            cell(interval(effect)),
            f"{record['p']:.2g}" if record["p"] is not None else "",
            ", ".join(map(str, effect.get("seeds", []))),
            str(record["look"]),
            cell(named_verdict(record["verdict"], record["setting"])),
        )
    console().print(table)
    for record in records:
        row = short_id(record["row"]) + (", tuned" if record["configuration"] == "tuned" else "") + (f", {record['size']}" if sized else "")
        log(f"{row}, {record['metric']}: {record['verdict']}: {record['reason']}")
        if found := record.get("session"):
            word, where = "accepted" if found["accepted"] else "not accepted", f"claim {found['number']} of session {found['name']}"
            log(f"{short_id(record['row'])}, {record['metric']}: {word}: p = {found['p']:.2g}, level {found['level']:.2g}, {where}")
        if shares := parts(record["effect"]):
            chrf = f"; chrF {interval(record['chrf'])}" if record["chrf"] else ""
            log(f"{short_id(record['row'])}, {record['metric']}: by precision, length: {shares}{chrf}")
        for effect in record["controls"]:
            log(f"{short_id(record['row'])}, {record['metric']}: {interval(effect)} to {short_id(effect['against'])}")
        if record.get("changed"):
            log(f"{short_id(record['row'])}: the claim has changed since a sweep recorded it; it was {record['changed']}")
