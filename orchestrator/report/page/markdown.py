"""The report as Markdown for a README, with the charts as SVG files. GitHub shows all of it, folded parts included."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any
from urllib.parse import quote

import vl_convert

from orchestrator.report.formats import markdown as table_of
from orchestrator.report.formats import markdown_grid, markdown_ladder
from orchestrator.report.ladder import Ladder
from orchestrator.report.page import charts, search_charts
from orchestrator.report.page.claims_table import begins_with_claims, claims_table, forest
from orchestrator.report.page.ladder_chart import of_ladder
from orchestrator.report.page.provenance import provenance
from orchestrator.report.page.render import ASSETS, command
from orchestrator.report.page.section import Section, headline
from orchestrator.safe_text import markdown as _md
from orchestrator.safe_text import visible
from orchestrator.tables import counted

KNOWN = {"git_commit": "commit", "torch": "torch", "python": "python", "system": "system", "device": "device", "cpu": "cpu", "gpu": "gpu"}
"""Field of an environment -> its name on the page. Unknown fields are left out."""


def report(
    title: str, sections: Sequence[Section], name: str, texts: Mapping[str, str] | None = None, ladders: Sequence[Ladder] = ()
) -> dict[str, str]:
    """Returns pages and figures: file name -> content. Tables of several papers have a front page, and a page per paper.

    name: name of the front page without its suffix. The names of the other files begin with it.
    texts: paper, or "" for the front page -> Markdown at the start of its page, instead of the title.
    """
    texts, papers = texts or {}, list(dict.fromkeys(_paper(section) for section in sections))
    front = texts.get("", f"# {_md(title)}")
    files = dict[str, str]()
    for number, each in enumerate(ladders):
        front, drawn = f"{front}\n\n## {_md(each.title)}", of_ladder(each)
        if drawn is not None:
            file = f"{name}-ladder{number or ''}.svg"
            files[file] = _svg(drawn, None)
            front += f'\n\n<img src="{_address(file)}" alt="{_TITLES["ladder"]}">'
        front += "\n\n" + markdown_ladder(each)
    if len(papers) < 2:
        return files | _page(front, sections, name)
    for paper in papers:
        files |= _page(texts.get(paper, f"# {_md(paper)}"), [each for each in sections if _paper(each) == paper], f"{name}-{paper}")
    twice = any(section.second for section in sections)
    parts, figures = _claims(sections, name, twice=twice)
    pages = "Pages: " + ", ".join(f"[{paper}]({_address(f'{name}-{paper}.md')})" for paper in papers)
    return files | figures | {f"{name}.md": _joined([front, *parts, pages])}


def _paper(section: Section) -> str:
    return section.table.table.partition("/")[0]


def _page(text: str, sections: Sequence[Section], name: str) -> dict[str, str]:
    """Returns the page for the tables of one paper. A page with several tables has only charts of their differences."""
    figures: dict[str, str] = {}
    several, claims, parts = len(sections) > 1, begins_with_claims(sections), [text]
    if claims:
        found, figures = _claims(sections, name)
        parts += found
    for section in sections:
        drawn = {"effects": None if claims else forest([section])}
        drawn |= {} if several else {"curves": charts.curves(section), **charts.quality(section)}
        drawn |= search_charts.drawings(section)
        drawn.pop("tokens_per_second", None)  # other load on the machine affects the runs' own speeds
        own = {key: spec for key, spec in drawn.items() if spec is not None}
        at = f"{name}-{sections.index(section)}" if section.searches else name
        files = {key: f"{at}-{key if key in _TITLES else 'speed'}.svg" for key in own}
        widths = {"curves": 760}  # pixels; two charts of 360 fit on GitHub
        figures |= {files[key]: _svg(spec, widths.get(key, 360)) for key, spec in own.items()}
        parts += _part(section, files, named=several)
    return figures | {f"{name}.md": _joined(parts)}


def _joined(parts: Sequence[str]) -> str:
    return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"


def _claims(sections: Sequence[Section], name: str, *, twice: bool = False) -> tuple[list[str], dict[str, str]]:
    """Returns the claims of all tables as a plot and a table, and the claims without a verdict. twice: only with a second corpus."""
    found, plot = claims_table(sections, twice=twice), forest(sections, twice=twice)
    grid = markdown_grid([_md(head) for head in found.heads], [[_md(cell) for cell in row] for row in found.rows])
    left = [(table, f"{len(rows)} {why}", rows) for table, reasons in found.left.items() for why, rows in reasons.items()]
    lines = "\n".join(f"- {_md(table)}: {_md(why)}: {_md(', '.join(rows))}" for table, why, rows in left)
    folded = [_folded("Claims that have no verdict here, and why", lines)] if left and not twice else []
    figures = {} if plot is None else {f"{name}-claims.svg": _svg(plot, None)}
    image = [f'<img src="{_address(file)}" alt="{_TITLES["effects"]}; a diamond is the claimed difference">' for file in figures]
    return [*image, "## Claims", grid, *folded], figures


def _part(section: Section, files: dict[str, str], *, named: bool) -> list[str]:
    """Returns headline, verdicts, table, figures and provenance of one table. Rows that were not run are counted, not listed.

    A matched control is left out if it is the run of another row, because the variant adds no parameters.
    """
    said = headline(section)
    runs = {line.id: {o.keys.score for o in section.done(line.id)} for line in section.table.rows}
    named_runs = [runs[line.id] for line in section.table.rows if "@" not in line.id]
    run = [line for line in section.table.rows if line.ours is not None and not ("@" in line.id and runs[line.id] in named_runs)]
    left = sum(line.ours is None for line in section.table.rows)
    table, _, notes = table_of(replace(section.table, rows=run)).partition("\n\n")[2].partition("\n\n")
    table += f"\n\n{counted(left, 'more row')} did not run." if run and left else ""
    verdicts = "\n".join(f"- **{len(rows)} {word}**: {_md(', '.join(rows))}" for word, rows in said.verdicts.items())
    images = [f'<img src="{_address(file)}" alt="{_TITLES.get(key, "BLEU against speed")}">' for key, file in files.items()]
    notes = "\n".join(f"- {line}" for line in notes.split("\n") if line.strip())
    return [
        f"## {_md(section.table.table)}" if named else "",
        f"**Asked.** {_md(said.asked)}",
        f"**Found.** {_md(said.found)}",
        verdicts,
        table if run else "",
        "\n".join(images),
        _folded("Notes", notes) if notes else "",
        _folded("Provenance", _provenance(section)),
    ]


_TITLES = {
    "ladder": "differences against parameters, with their intervals",
    "effects": "differences to the strongest control, with their intervals",
    "curves": "learning curves: validation loss over updates, mean of seeds",
    "params": "BLEU against parameters",
    "trials": "expected best of the search against its trials; a stopped trial counts with its value at the rung",
    "draws": "validation metric of the trials against what they draw",
}


def _provenance(section: Section) -> str:
    runs, environments = provenance(section)
    lines = [f"This table again:\n\n```sh\n{visible(command(section))}\n```"]
    for letter, fields in environments.items():
        count = sum(run.environment == letter for run in runs)
        about = [(said, str(fields[name])) for key, said in KNOWN.items() for name in fields if name.rpartition(".")[2] == key]
        known = ", ".join(f"{said} {value[:12] if said == 'commit' else value}" for said, value in about)
        lines.append(f"- {counted(count, 'run')}: {_md(known)}.")
    return lines[0] + "\n\n" + "\n".join(lines[1:])


def _folded(title: str, text: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{text}\n\n</details>"


_address = partial(quote, safe="@+")
"""A file's name as a relative address."""


def _svg(spec: dict[str, Any], width: int | None) -> str:
    """Returns the chart as SVG on white, because a README may have a light or dark background. width: None for panels side by side."""
    font, grid = "Arial, Helvetica, Liberation Sans, sans-serif", {"gridColor": _colours()["line"]}
    drawn = _resolved(spec) | {"config": {"background": "white", "font": font, "view": {"stroke": None}, "axis": grid}}
    return str(vl_convert.vegalite_to_svg(drawn | ({} if width is None or "hconcat" in spec else {"width": width})))


def _resolved(value: Any) -> Any:
    """Returns the value with light colours instead of CSS variables. It escapes control characters, which would abort vl-convert."""
    if isinstance(value, dict):
        return {key: _resolved(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_resolved(each) for each in value]
    if not isinstance(value, str):
        return value
    named = re.fullmatch(r"var\(--(\w+)\)", value)
    return visible(value) if named is None else _colours()[named[1]]


@cache
def _colours() -> dict[str, str]:
    """Returns the light theme of the page's style: name -> colour."""
    light = (ASSETS / "style.css").read_text(encoding="utf-8").partition("}")[0]
    return dict(re.findall(r"--(\w+): (#\w+);", light))
