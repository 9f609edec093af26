"""One family, one verdict: the shipped results have the same interval, p and word from every command and option."""

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from orchestrator.api import compare
from orchestrator.cli.commands import run
from orchestrator.ledger.keys import Keys
from orchestrator.ledger.results import Ledger
from orchestrator.ledger.run_view import Outcome, RunView
from orchestrator.paths import ROOT
from orchestrator.report.page import render
from orchestrator.sweeps.row import Result
from orchestrator.tracking.store import MlflowStore

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
LOOKS = ROOT / "docs" / "results" / "ledger" / "looks.json"
SHIPPED = re.findall(r"^TABLES := (.*) \$", (ROOT / "Makefile").read_text(), re.MULTILINE)[0].split()
PAGES = ("modern/first", "wei2020/table2")
"""Whose pages are made."""


def said(record: dict[str, Any], verdict: dict[str, Any]) -> tuple[Any, ...]:
    answer = (record["effect"] or {}).get("other_seeds_and_sentences") or {}
    return verdict["word"], verdict["p"], verdict["look"], verdict["level"], answer.get("low"), answer.get("high")


def interval(effect: dict[str, Any], digits: int) -> str:
    """`+0.42 (-0.10 to +0.94)`."""
    low, high = (effect["other_seeds_and_sentences"][end] for end in ("low", "high"))
    return f"{effect['delta']:+.{digits}f} ({low:+.{digits}f} to {high:+.{digits}f})"


@pytest.mark.parametrize("table", SHIPPED)
def test_every_command_says_the_same(table: str, cli: Any, tmp_path: Path) -> None:
    places = ("--profile", "mini-short", "--results", ROOT / "docs" / "results" / "ledger", "--cache-dir", tmp_path)
    before = LOOKS.read_bytes()
    out = cli("verdict", table, *places, "--controls", "params,flops", "--json")[1]
    records = [json.loads(line) for line in out.splitlines()]
    by_claim = {(each["row"], each["metric"]): said(each, {**each, "word": each["verdict"]}) for each in records if each["effect"]}
    rows = json.loads(cli("table", table, *places, "--format", "json")[1])["rows"]
    ours = {row["id"]: row["ours"] or {} for row in rows}
    usual = [each for each in records if each["source"] == "paper" and each["effect"]]
    for each in usual:
        of = ours[each["row"]]
        found = of if each["stated"] else of["nll"]
        assert said(found, found["verdict"]) == by_claim[each["row"], each["metric"]], each["row"]
    if usual:
        name = usual[0]["row"]
        alone = cli("verdict", f"{table}/{name.split('/', 2)[2]}", *places, "--json")[1]
        (one,) = [each for each in map(json.loads, alone.splitlines()) if each["source"] == "paper" and each["stated"]]
        assert said(one, {**one, "word": one["verdict"]}) == by_claim[name, one["metric"]], "one row of the table"
        asked = compare(name, usual[0]["against"], profile="mini-short", results=places[3], cache_dir=tmp_path)
        assert (asked.verdict, asked.p, asked.low, asked.high) == (one["verdict"], one["p"], *by_claim[name, one["metric"]][4:])
    assert LOOKS.read_bytes() == before, "the shipped looks are only read"


def cells(page: str) -> dict[str, list[str]]:
    """Row -> its cells in the results of an HTML page."""
    rows = re.findall(r'<tr id="row-([^"]+)"[^>]*>(.*?)</tr>', page, re.DOTALL)
    return {row: [unescape(re.sub("<[^>]+>", "", cell)) for cell in re.findall(r"<td[^>]*>(.*?)</td>", line)] for row, line in rows}


@pytest.mark.parametrize("table", PAGES)
def test_sweeps_pages_and_mlflow_say_the_same(table: str, cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweep whose runs are all in the shipped ledger: what it prints, its page, the page in MLflow, and the one of `report`."""

    def nothing_to_do(rows: Any, seeds: Any, options: Any) -> list[Result]:
        """In place of the engine, which would need the corpus to find that every run is done."""
        MlflowStore(options.results, options.tracking_uri).create(table, {"nmt.sweep": options.slug, "nmt.kind": "sweep"}, 0)
        view = RunView.read(Ledger(options.results), {"": Keys(None, None, None)})
        return [Result(id=row.id, seed=seed, view=view, outcome=Outcome("done"), folder="") for row in rows for seed in seeds]

    monkeypatch.setattr(run, "execute", nothing_to_do)
    monkeypatch.setattr(render, "script", lambda: "")
    monkeypatch.setattr(run, "console", lambda stderr=False: Console(stderr=stderr, width=1000))
    results = tmp_path / "results"
    places = ("--profile", "mini-short", "--cache-dir", tmp_path / "cache", "--results", results)
    code, out, err = cli("sweep", table, *places, "--engine", "local", "--seeds", "1")
    assert code == 0 and "warning" not in err, err
    (page,) = (results / "reports").glob("*.html")
    printed = {parts[1].strip(): line for line in out.splitlines() if len(parts := line.split("│")) > 2}
    shown = cells(page.read_text(encoding="utf-8"))
    rows = json.loads(cli("table", table, *places, "--format", "json")[1])["rows"]
    judged = {row["id"].split("/", 2)[2]: row["ours"] for row in rows if (row["ours"] or {}).get("effect")}
    assert len(judged) > 1
    for row, ours in judged.items():
        word = ours["verdict"]["word"]
        reason = f": {ours['verdict']['reason']}" if word == "open" and ours["verdict"]["claim"] is not None else ""
        nll = f"{interval(ours['nll']['effect'], 3)}, {ours['nll']['verdict']['word']}"
        assert not reason or f"note: {row}: {word}{reason}" in out
        for answer in (interval(ours["effect"], 2), word, nll):
            assert answer in printed[row], (row, "sweep")
            assert (answer + reason if answer == word else answer) in shown[row.replace("/", "-")], (row, "page")
    (parent,) = MlflowStore(results).find({"nmt.kind": "sweep"})
    assert (Path(str(parent.info.artifact_uri).removeprefix("file://")) / "report.html").read_bytes() == page.read_bytes()
    code, out, err = cli("report", table, *places, "--to", tmp_path / "again.html")
    assert code == 0 and cells((tmp_path / "again.html").read_text(encoding="utf-8")) == shown, err
