"""Renders the page with Jinja: everything escaped, the script and the style embedded."""

import contextlib
import re
import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import vl_convert
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from orchestrator.files import atomic
from orchestrator.paths import user_cache
from orchestrator.report.cells import layout
from orchestrator.report.ladder import Ladder
from orchestrator.report.page import charts, search_charts
from orchestrator.report.page.claims_table import answers, begins_with_claims, claims_table, forest
from orchestrator.report.page.examples import examples
from orchestrator.report.page.ladder_chart import of_ladder
from orchestrator.report.page.provenance import provenance, varying
from orchestrator.report.page.section import Section, headline
from orchestrator.safe_text import json_text, visible
from orchestrator.specs.row import short_id
from orchestrator.specs.table import number
from orchestrator.sweeps.names import as_targets

ASSETS = Path(__file__).parent / "assets"


def page(title: str, sections: Sequence[Section], version: str, ladders: Sequence[Ladder] = ()) -> str:
    """Returns the page as HTML. version: of the product. ladders: tables at several sizes, which come first."""
    parts = [_part(section, index) for index, section in enumerate(sections)]
    climbed = [{"ladder": each, "at": f"ladder{index}", "chart": of_ladder(each)} for index, each in enumerate(ladders)]
    charted = any(part["charts"] for part in parts) or any(each["chart"] for each in climbed)
    claims = claims_table(sections) if begins_with_claims(sections) else None
    return rendered("page.html", title=title, version=version, charted=charted, parts=parts, ladders=climbed, claims=claims)


def rendered(template: str, **values: Any) -> str:
    """Returns a rendered template. values: `title`, `version`, whether the page has charts (`charted`), and the template's own values."""
    made = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return _environment().get_template(template).render(made=made, asset=_asset, script=_embedded, **values)


def _part(section: Section, index: int) -> dict[str, Any]:
    """Returns the template's values for one table. `at`: prefix of its anchors."""
    table, at = section.table, f"t{index}-" if index else ""
    made = layout(table)
    anchors = {line.id: f"{at}row-{re.sub('[^A-Za-z0-9_.-]', '-', short_id(line.id))}" for line in table.rows}
    ranked = sorted((line for line in table.rows if line.score is not None), key=lambda line: line.score or 0.0, reverse=True)
    order = list(dict.fromkeys([*([table.base] if table.base else []), *(line.id for line in ranked)]))
    best = next((line for line in ranked if line.id != table.base), None)
    quality = charts.quality(section)
    drawn = {"effects": forest([section]), "curves": charts.curves(section), **quality, **search_charts.drawings(section)}
    return {
        "at": at,
        "title": table.table,
        "headline": headline(section),
        "columns": made.columns,
        "anchors": anchors,
        "base": table.base,
        "diamonds": any(one.judgement.claim.effect is not None for one in answers(table)),
        "charts": {name: spec for name, spec in drawn.items() if spec is not None},
        "quality": list(quality),
        "grey": len(section.outcomes) > charts.COLOURS,
        "examples": examples(section, [row for row in order if section.done(row)]),
        "pair": [short_id(table.base) if table.base else "", short_id(best.id) if best else ""],
        **dict(zip(("keys", "values"), varying(section), strict=True)),
        **dict(zip(("runs", "environments"), provenance(section), strict=True)),
        "notes": [*made.notes, *table.notes],
        "assumed": _assumed({short_id(row.id): row.assumed for row in section.rows if row.kind == "run"}),
        "command": command(section),
    }


def command(section: Section) -> str:
    """Returns the command that prints the section's table again."""
    target = as_targets(section.rows[0])[0] if section.rows else section.table.table
    return f"nmt-ablate table {shlex.quote(target)}{section.arguments}{section.asked}"


def _assumed(rows: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Returns the assumptions of the rows: those of all rows once, then the other ones per row."""
    common = [each for each in next(iter(rows.values()), []) if len(rows) > 1 and all(each in own for own in rows.values())]
    own = {name: [each for each in assumed if each not in common] for name, assumed in rows.items()}
    return ({"all rows": common} if common else {}) | {name: left for name, left in own.items() if left}


def _numeric(rows: Sequence[Sequence[str]]) -> list[bool]:
    """Returns for each column whether all its cells with a text have a number."""
    return [all(isinstance(_sort_key(cell), float) for cell in column if cell) for column in zip(*rows, strict=True)]


def _sort_key(text: str) -> float | str:
    """Returns the first number of a cell, `4.31M` as 4310000, or the text if there is none."""
    first = re.match(r"[+-]?[\d.,]+[kMG]?", text)
    try:
        return text if first is None else float(number(first[0].replace(",", "").replace("+", "")) or 0.0)
    except ValueError:
        return text


def _asset(name: str) -> Markup:
    return Markup((ASSETS / name).read_text(encoding="utf-8"))


@cache
def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(ASSETS), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, finalize=_shown
    )
    made.filters |= {"numeric": _numeric, "sort_key": _sort_key}
    made.policies["json.dumps_function"] = json_text
    made.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    return made


def _shown(value: Any) -> Any:
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@cache
def script() -> str:
    """Returns the script that draws the charts. To bundle it takes seconds: the user's cache keeps it."""
    kept = user_cache() / f"charts-{metadata.version('vl-convert-python')}.js"
    with contextlib.suppress(OSError):
        return kept.read_text(encoding="utf-8")
    bundled = str(vl_convert.javascript_bundle(None))  # type: ignore[arg-type]  # the default; its stub says otherwise
    with contextlib.suppress(OSError):
        atomic.write_text(kept, bundled)
    return bundled


def _embedded() -> Markup:
    return Markup(script().replace("</script", r"<\/script").replace("<!--", r"<\!--"))
