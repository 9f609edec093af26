"""The report's page: what stands on it, that nothing in it is foreign, and that it is one file."""

import json
import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from orchestrator.ledger.results import Ledger
from orchestrator.report import ladder
from orchestrator.report.effects import Effect
from orchestrator.report.figures import Ours
from orchestrator.report.find import Finder
from orchestrator.report.judgement import Judgement, OfRow
from orchestrator.report.ladder import Ladder
from orchestrator.report.page import charts, markdown, render
from orchestrator.report.page.claims_table import forest
from orchestrator.report.page.ladder_chart import of_ladder
from orchestrator.report.page.search_charts import RATES, drawings
from orchestrator.report.page.section import Section
from orchestrator.report.table import Line, make
from orchestrator.scoring.significance.verdicts import Verdict
from orchestrator.specs.claims import RowClaim
from orchestrator.specs.rows import resolve
from orchestrator.sweeps.plan import Data
from tests.unit.report.support import write_run

HOSTILE = "</script><img src=x onerror=alert(1)>\x1b[31m"
TRIALS = [(1, 2.0, 0.004), (2, None, 0.03)]
ROWS = (
    "  base: {label: Baseline, expect: {bleu: 27.64}}\n"
    f"  fused: {{label: {json.dumps(HOSTILE)}, model: {{d_ff: 48}}, expect: {{bleu: 28.09, delta: 0.45}}, assumed: [model.d_ff]}}\n"
    "  cut: {model: {d_ff: 56}}\n"
)


@pytest.fixture
def section(spec, tmp_path) -> Section:
    rows, ledger = resolve(spec(ROWS)), Ledger(tmp_path / "r")
    for row in rows:
        stopped, fused = row.id.endswith("cut"), "fused" in row.id
        for seed in (1,) if stopped else (1, 2):
            reports = [{"step": step, "valid/nll": 5.0 - step / 10 - seed / 100, "train/nll": 6.0} for step in (2, 4)]
            bleu = None if stopped else 30.0 + seed + 2 * fused
            lines = [f"{HOSTILE} a {i}" if fused else f"the {i}" for i in range(9)]
            write_run(ledger, row.at(seed), hypotheses=lines, bleu=bleu, params=1000 * len(row.id), reports=reports)
    finder = Finder(ledger, Data(None))
    made = make("demo/small", rows, finder, ["bleu"])
    return Section(made, rows, {row.id: finder.outcomes(row) for row in rows}, finder, scale="profile x", arguments=" --profile x")


def test_the_page_says_it_all_and_runs_nothing_foreign(section: Section, monkeypatch) -> None:
    monkeypatch.setattr(render, "script", lambda: "the_script('</script>')")
    left = judged("cut", "base", "bleu", "not run", own=True)
    claimed = replace(section, table=replace(section.table, claims=[left]))
    text = render.page("demo", [section, claimed], "1.0")
    assert "<li>demo/small: 1 stopped at step 4: cut</li>" in text
    assert HOSTILE not in text and "&lt;/script&gt;" in text
    assert not re.search(r'(src|href)="(?!#)', text) and "http" not in text.replace("http-equiv", "")
    assert "fused" in text and "highest BLEU, 33.50 ± 0.71 over its seeds" in text and "1 stopped at step 4" in text
    for anchor in ("claims", "headline", "results", "row-fused", "charts", "examples", "specs", "provenance", "notes", "t1-row-fused"):
        assert f'id="{anchor}"' in text, anchor
    assert "c" * 40 in text
    specs = [json.loads(found) for found in re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', text)]
    curves, difference = specs[0], next(spec for spec in specs if "keys" in spec)
    assert difference["values"]["fused"][difference["keys"].index("model.d_ff")] == "48"
    means = [point for point in curves["data"]["values"] if point["v"] == "mean" and point["m"] == "validation nll" and point["r"] == 0]
    assert [(point["x"], point["y"], point["l"], point["h"]) for point in means] == [(2, 4.785, 4.78, 4.79), (4, 4.585, 4.58, 4.59)]


def test_the_script_of_charts_is_bundled_once_for_all_processes(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for bundled in ("first", "second"):
        monkeypatch.setattr(render.vl_convert, "javascript_bundle", lambda _, bundled=bundled: bundled)
        assert render.script.__wrapped__() == "first"


def test_markdown(section: Section) -> None:
    figures = markdown.report("demo", [section], "demo-small", ladders=[Ladder("demo/small", ["x"], [])])
    text = figures.pop("demo-small.md")
    assert "## demo/small at 1 size\n" in text
    assert [*figures] == ["demo-small-curves.svg", "demo-small-params.svg"], "the runs' own speeds are no measurement to publish"
    assert all(f'<img src="{file}"' in text and drawing.startswith("<svg") for file, drawing in figures.items())
    assert "var(--" not in "".join(figures.values()) and ">fused<" in figures["demo-small-curves.svg"]
    assert HOSTILE not in text and "**Found.** fused" in text and "| row" in text and "- 5 runs: commit cccccccccccc, torch 2.0.\n" in text
    assert text.count("<details>") == text.count("</details>") == 2 and "spec.yaml --profile x\n```" in text
    assert "\x1b" not in text and r"\x1b" in markdown._svg({"mark": "bar", "title": "\x1b[31m"}, 99), "control characters abort vl-convert"
    first, *rest = section.table.rows
    first = replace(first, ours=replace(first.ours, data="else"))
    other = replace(section, table=replace(section.table, table="demo/other", rows=[first, *rest]))
    texts = {"": "# Ours\n\nRead this first.\n", "else": "# Elsewhere\n"}
    (two,) = markdown.report("demo", [section, other], "both", texts).values()
    assert "## demo/small" in two and "## demo/other" in two, "the differences alone, and one seed has none"
    assert "has the highest BLEU on else, 31.50" in two and "has the highest BLEU on toy-smoke, 33.50" in two
    assert two.startswith("# Ours\n\nRead this first.\n\n## Claims\n") and "# demo\n" not in two
    apart = markdown.report("demo", [section, replace(section, table=replace(section.table, table="else/small"))], "both", texts)
    assert [*apart] == [*(f"both-{paper}{end}" for paper in ("demo", "else") for end in ("-curves.svg", "-params.svg", ".md")), "both.md"]
    assert apart["both-demo.md"].startswith("# demo\n") and apart["both-else.md"].startswith("# Elsewhere\n")
    assert "Pages: [demo](both-demo.md), [else](both-else.md)" in apart["both.md"] and "## demo/small" not in apart["both.md"]


def judged(row: str, against: str, metric: str, word: str, delta: float | None = None, *, own: bool = False) -> Judgement:
    names = f"demo/small/{row}", f"demo/small/{against}"
    effects = () if delta is None else (Effect(*names, metric, delta, (3, 3)),)
    return Judgement(RowClaim(*names, None, metric), True, True, Verdict(word, ""), effects, own=own)


@pytest.mark.parametrize(("last", "drawn"), [(-25.0, False), (-3.0, True)])
def test_a_row_that_fails_leaves_the_others_room(last: float, drawn: bool) -> None:
    own = [judged(f"r{i}", "base", "bleu", "open", d, own=True) for i, d in enumerate((0.5, 1.0, 1.5, 1.2, last))]
    losses = [judged("r1", "base", "nll", "open"), *(judged("r", "base", "nll", "open", 0.1) for _ in own[1:])]
    of_rows = [OfRow(*pair) for pair in zip(own, losses, strict=True)]
    ours = Ours(status="done", data="toy")
    lines = [Line(f"demo/small/r{i}", 80 * "r", "run", {}, ours, judged=each) for i, each in enumerate(of_rows)]
    claims = [
        judged("r0", "r1", "nll", "open", -0.01),
        judged("r0", "r2", "bleu", "open", 0.7),
    ]  # the first has no difference in BLEU: not drawn
    spec = forest([SimpleNamespace(table=SimpleNamespace(table="t", rows=lines, claims=claims), second={}, searches={})])  # type: ignore[list-item]
    assert spec is not None and len({each["row"] for each in spec["data"]["values"]}) == len(spec["data"]["values"]) == 5 + drawn
    omitted = spec.get("title", {}).get("text", ["", ""])[1]
    assert omitted.startswith("r4: rr") is not drawn and omitted.endswith(" over base: BLEU -25.00, test nll +0.100") is not drawn
    heights = [layer["encoding"]["y"]["scale"]["domain"] for panel in spec["hconcat"] for layer in panel["layer"][1:]]
    assert len(heights) == 4 and all({*each} == {point["row"] for point in spec["data"]["values"]} for each in heights)
    assert heights == [heights[0]] * 4, "a row without an nll has its place in both panels"


def test_two_directions_of_a_corpus_are_two_points() -> None:
    own = replace(judged("r0", "base", "bleu", "open", 0.5, own=True), claim=RowClaim("demo/small/r0", "demo/small/base", 1.0, "bleu"))
    lines = [Line(own.claim.row, "r0", "run", {}, Ours(status="done", data="toy-de-en"), judged=OfRow(own))]
    table = SimpleNamespace(table="t", rows=lines, claims=[])
    spec = forest([SimpleNamespace(table=table, second={"toy-en-de": table}, searches={})])  # type: ignore[list-item]
    points = [("toy-de-en", 1.0), ("toy-en-de", None)]
    assert spec is not None and [(each["corpus"], each.get("paper")) for each in spec["data"]["values"]] == points
    there = replace(own, claim=replace(own.claim, row="demo/other/r0"))
    line = replace(lines[0], id="demo/other/r0", ours=Ours(status="done", data="toy-en-de"), judged=OfRow(there))
    tables = [table, SimpleNamespace(table="o", rows=[line], claims=[])]
    spec = forest([SimpleNamespace(table=each, second={}, searches={}) for each in tables])  # type: ignore[list-item]
    points = [("r0 over base (demo/small/r0)", "toy"), ("r0 over base (demo/other/r0)", "toy")]
    assert spec is not None and [(each["row"], each["corpus"]) for each in spec["data"]["values"]] == points


def test_a_chart_of_quality_has_comparable_rows() -> None:
    def quality(last: float, size: float, cpus: str) -> dict[str, Any]:
        found = {f"demo/small/r{i}": (bleu, int(1e6 * size**i), 9.0 + i) for i, bleu in enumerate((34, 35, 36, 35, last))}
        named = ("bleu", "params", "tokens_per_second")
        lines = [Line(row, "r", "run", {}, Ours(status="done", **dict(zip(named, own, strict=True)))) for row, own in found.items()]  # type: ignore[arg-type]
        runs = {line.id: [SimpleNamespace(capsule={"cpu": cpu})] for line, cpu in zip(lines, cpus, strict=True)}
        table = SimpleNamespace(rows=lines, base=lines[0].id)
        return charts.quality(SimpleNamespace(table=table, outcomes=runs, done=runs.__getitem__))  # type: ignore[arg-type]

    assert [*quality(35.5, 2, "aaaaa")] == ["params", "tokens_per_second"]
    assert [*quality(35.5, 1.001, "aaaab")] == [], "sizes that differ by less than 1 %, and speeds of two processors"
    failed = quality(8.6, 2, "aaaaa")["params"]
    assert failed["title"]["text"] == ["not drawn:", "r4 (8.60)"] and [dot["y"] for dot in failed["data"]["values"]] == [34, 35, 36, 35]


def test_a_line_joins_what_has_a_slope() -> None:
    points = [ladder.Point(f"{n}", n, Effect("p/t/x", f"p/t/base{n}", "bleu", 0.5, (3, 3)), "open") for n in (1, 2)]
    spec = of_ladder(Ladder("p/t", ["1", "2"], [ladder.Line("p/t/x", "bleu", points)]))
    assert spec is not None and [(each["row"], each["joined"]) for each in spec["data"]["values"]] == [("x over base1 or base2", False)] * 2
    assert of_ladder(Ladder("p/t", ["1"], [ladder.Line("p/t/x", "bleu", points[:1])])) is None


def test_the_trials_of_a_search(section: Section) -> None:
    trials = [{"number": i, "value": v, "at_rung": 4.0, "changes": {RATES[0]: rate}, "ended": None if v else 8} for i, v, rate in TRIALS]
    record = {"tune": {"select": "valid/nll"}, "written": {RATES[0]: 0.1}, "trials": trials}
    drawn = drawings(replace(section, searches={section.rows[0].id: record}))["draws"]["encoding"]
    assert drawn["x"]["title"] == "learning rate (log scale); pale: stopped early" and drawn["x"]["axis"]["values"] == [0.005, 0.01, 0.02]
    assert "symbolType" not in drawn["color"]["legend"] and drawn["shape"]["legend"] == drawn["color"]["legend"]


def test_the_mean_of_curves_of_different_lengths(monkeypatch) -> None:
    curves = {str(n): {"valid/nll": [(step, 1.0) for step in range(1, n + 1)]} for n in (90, 100)}
    monkeypatch.setattr(charts, "_curves", lambda section, key: curves[key])
    runs = [SimpleNamespace(seed=n, keys=SimpleNamespace(train=str(n))) for n in (90, 100)]
    found = charts.points(SimpleNamespace(outcomes={"a": runs}), ["a"])  # type: ignore[arg-type]
    assert len([point for point in found if point["v"] == "mean"]) == charts.MOST_POINTS and found[-1]["x"] == 90


def test_of_nine_rows_the_baseline_and_the_best_have_colours() -> None:
    lines = [SimpleNamespace(id=f"t/a/r{score}", kind="run", score=float(score)) for score in range(9)]
    section = SimpleNamespace(table=SimpleNamespace(rows=lines, base="t/a/r0"), outcomes={line.id: [1] for line in lines})
    colours = dict(zip(*(charts.colour_of(section)["scale"][name] for name in ("domain", "range")), strict=True))  # type: ignore[arg-type]
    assert (colours["r0"], colours["r1"], colours["r8"]) == ("var(--c0)", "var(--grey)", "var(--c7)")
