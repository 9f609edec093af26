"""Converts a table to text cells, which all formats share."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.report.figures import OURS, short_id
from orchestrator.report.speeds import SPEEDS
from orchestrator.report.table import Line, Table
from orchestrator.scoring.rouge import PRINCIPAL
from orchestrator.specs.table import FAILED, SCORED, number

_TITLES = {
    "params": "params",
    "params_added": "params added",
    "bleu": "BLEU",
    "chrf": "chrF",
    "rouge1": "ROUGE-1",
    "rouge2": "ROUGE-2",
    "rougeL": "ROUGE-L",
    "delta": "delta",
    "against": "strongest control",
    "nll": "delta of test nll",
    "chrf_delta": "delta of chrF",
    "parts": "delta by precision, length",
    "controls": "delta to other controls",
    "pareto": "Pareto front",
    "tokens_per_second": "tokens/s",
    "sentences_per_second": "sentences/s",
    "words_per_second": "words/s",
    "train_hours": "training, h",
}
_SCORES = ("bleu", "delta", "bleu_spread")
_WORDS = ("against", "verdict", "nll", "chrf_delta", "parts", "controls")
_HIDDEN = ("tokens_per_second", "sentences_per_second")
"""Speeds of single runs under unknown load. They are not comparable and appear only in the JSON."""


@dataclass(frozen=True)
class Column:
    """One column as text. name: of its figure (`bleu`); ours: measured, not reported; numeric: of numbers."""

    name: str
    title: str
    cells: list[str]
    ours: bool = True
    numeric: bool = False


def columns(table: Table) -> list[Column]:
    """Every column. One that is both reported and measured becomes two; the last ones are conditions and status."""
    reported = {c for c in table.columns if any(line.reported.get(c) is not None for line in table.rows)}
    hidden = {*_HIDDEN, "significant", *(("bleu",) if PRINCIPAL in table.scores and "bleu" not in reported else ())}
    mine = ({*OURS} - hidden) | table.scores | (reported & {"significant"})
    measured = {c for c in table.columns if c in mine and any((line.ours or {}).get(c) not in (None, []) for line in table.rows)}
    measured |= {c for c in ("bleu",) if c in table.columns and any(failed(line) for line in table.rows)}
    found = [
        Column("row", "row", [line.id.removeprefix(f"{table.address}/") for line in table.rows]),
        Column("system", "system", [x.label for x in table.rows]),
    ]
    for name in table.columns:
        title, figures = _title(name, table), name not in _WORDS
        if name in reported:
            found.append(Column(name, f"{title} (paper)", [_cell(table, line, name, False) for line in table.rows], False, figures))
        if name in measured:
            shown = f"{title} (ours)" if name in reported else title
            found.append(Column(name, shown, [_cell(table, line, name, True) for line in table.rows], numeric=figures))
    if measured:
        conditions = [_conditions(line) for line in table.rows]
        found += [Column(name, name, [each[i] for each in conditions]) for i, name in enumerate(("data", "steps", "seeds"))]
    return [*found, Column("status", "status", [state(line) for line in table.rows])]


def cells(table: Table) -> tuple[list[str], list[list[str]]]:
    found = columns(table)
    return [column.title for column in found], [list(row) for row in zip(*(column.cells for column in found), strict=True)]


def state(line: Line) -> str:
    """Status of a row: `done`, `done (shipped)`, `not run`, `quoted`, `external: fairseq 0.12.2`, or the reason why it has no figures."""
    if line.kind not in SCORED:
        kind = f"{line.kind} ({line.analysis})" if line.analysis else line.kind
        return f"{kind}: {line.note}" if line.note else kind
    if line.ours is None:
        return "not run" if line.kind == "run" else "external: not added"
    if line.ours["status"] != "done":
        return str(line.ours["reason"])
    if line.kind == "external":
        return f"external: {line.ours['system']}" if "system" in line.ours else "external"
    if "same_as" in line.ours:
        return f"done: it is {short_id(line.ours['same_as'])}"
    return ("done (shipped)" if line.ours.get("shipped") else "done") + "".join(
        f"; seed {seed} {why}" for seed, why in line.ours["unfinished"].items()
    )


def failed(line: Line) -> bool:
    """Returns True if the row failed by its own rule (`failed_below`), which is shown in place of its BLEU."""
    return bool((line.ours or {}).get("failed_as_stated"))


def figure(column: str, value: Any) -> str:
    """Formats a measured value: 88.00M, 27.64, +0.30, 1,234, yes or no."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if column in ("params", "params_added"):
        sign = "+" if column == "params_added" else ""
        return f"{value / 1e6:{sign}.2f}M" if abs(value) >= 1e5 or value == 0 else f"{value:{sign},}"
    if column in (*_SCORES, *SPEEDS):
        return f"{value:+.2f}" if column == "delta" else f"{value:.2f}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}"


def _title(column: str, table: Table) -> str:
    title = _TITLES.get(column, column.replace("_", " "))
    return f"{title} × {table.base.removeprefix(table.address + '/')}" if column in SPEEDS and table.base is not None else title


def _conditions(line: Line) -> list[str]:
    """Cells with corpus, updates and seeds; empty for a row without figures."""
    ours = line.ours or {}
    if "bleu" not in ours and not failed(line):
        return ["", "", ""]
    steps = ours["steps"] if len(set(ours["steps"])) > 1 else ours["steps"][:1]
    return [str(ours["data"] or ""), ", ".join(f"{step:,}" for step in steps), seed_list(ours["seeds"])]


def _cell(table: Table, line: Line, column: str, ours: bool) -> str:
    score = column in table.scores
    if ours and column == "bleu" and failed(line):
        return FAILED
    if ours:
        return _measured(line, "bleu" if score else column, column)
    value = line.reported.get(column)
    if value is None or isinstance(value, bool):
        return figure(column, value)
    if column in SPEEDS and (base := _reported_base(table, column)):
        return f"{(number(value) or 0.0) / base:.2f}"
    if isinstance(value, float):
        return f"{value:{'+' if column == 'delta' else ''}.{2 if score or column in _SCORES else _decimals(table, column)}f}"
    return str(value)


def _measured(line: Line, kind: str, column: str) -> str:
    """A measured figure: BLEU with its standard deviation over seeds, delta with its 95 % interval, the verdict in words."""
    ours, own, nll, effect = line.ours or {}, line.judged.own, line.judged.nll, line.judged.effect
    words = {
        "verdict": "" if own is None else own.said,
        "nll": "" if nll is None else nll.plain,
        "against": "" if effect is None else short_id(effect.against),
        "chrf_delta": "" if own is None or own.chrf is None else own.chrf.interval,
        "parts": "" if effect is None else effect.shares,
        "controls": "; ".join(f"{each.interval} to {short_id(each.against)}" for each in (own.effects[1:] if own is not None else ())),
    }
    if column in words:
        return words[column]
    text = figure(kind, ours.get(column))
    if column == "bleu" and ours.get("bleu_spread") is not None:
        return f"{text} ± {ours['bleu_spread']:.2f}"
    return effect.interval if column == "delta" and effect is not None else text


def seed_list(seeds: Sequence[int]) -> str:
    """`1-3, 7`: runs of three or more seeds by their ends."""
    runs: list[list[int]] = []
    for seed in seeds:
        if not runs or seed != runs[-1][-1] + 1:
            runs.append([])
        runs[-1].append(seed)
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)


def _decimals(table: Table, column: str) -> int:
    """Decimals of the longest number in a reported column, because YAML drops trailing zeros."""
    values = [line.reported.get(column) for line in table.rows]
    return max((len(repr(value).partition(".")[2]) for value in values if isinstance(value, float)), default=0)


def _reported_base(table: Table, column: str) -> float | None:
    """The paper's speed of the base row, by which its other speeds are divided. None: they are shown unchanged."""
    value = next((line.reported.get(column) for line in table.rows if line.id == table.base), None)
    return None if value is None or isinstance(value, bool) else number(value)
