"""Every run row of the papers and of two tables of modern/ trains under the smoke profile; every table prints, every analysis draws."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.paths import ROOT
from orchestrator.specs.row import Row
from tests.command import call
from tests.specs import shipped

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
FOLDERS = {address.split("/")[0] for address in shipped.TABLES} - {"quickstart", "sweeps", "modern"}
TARGETS = [*sorted(FOLDERS), "modern/family", "modern/residual"]
"""Folders and tables. The two have the methods of modern/; test_ray and test_grid_smoke train rows of other folders."""
LONG = ("dou2018/text/significance", "mlrf2018/text/train-speed", "wei2020/table6/row1")
"""Analyses of other rows than their own table's, which the kinds' own tests cover."""
Cli = Callable[..., tuple[int, str, str]]


def tables(target: str) -> list[str]:
    return [address for address in shipped.TABLES if f"{address}/".startswith(f"{target}/")]


def file_of(target: str) -> Path:
    path = ROOT / "search_spaces" / target
    return path if path.is_dir() else path.with_suffix(".yaml")


def rows(target: str) -> list[Row]:
    return [row for address in tables(target) for row in shipped.rows(address)]


TABLES = ("grid", "properties", "parameters", "significance", "speed")
"""Kinds of analysis that have a table and no figure."""


def analyses(target: str) -> list[str]:
    """What to call: tables whose analysis rows are of one kind, and else those rows one by one."""
    found: dict[str, dict[str, str]] = {}
    for row in rows(target):
        if row.kind == "analysis" and row.id not in LONG and row.analysis != "probing":  # probing needs SentEval's files
            found.setdefault("/".join(row.id.split("/")[:2]), {})[row.id] = row.analysis or ""
    return [name for table, kinds in found.items() for name in ([table] if len(set(kinds.values())) == 1 else kinds)]


@pytest.fixture(scope="module", params=TARGETS)
def swept(request, tmp_path_factory, cli: Cli) -> tuple[str, list[str], list[dict]]:
    """The target, the options that name its results, and its records. The shortest in Ray's reused workers, the others in one process."""
    base = tmp_path_factory.mktemp(request.param.replace("/", "-"))
    places = ["--profile", "smoke", "--results", str(base / "results"), "--cache-dir", str(base / "cache")]
    engine = "ray" if request.param == "modern/family" else "local"
    command = ["sweep", file_of(request.param), "--engine", engine, "--no-tracking", "--json", *places]
    code, out, err = (call if engine == "ray" else cli)(*command)
    assert code == 0, err[-3000:]
    return request.param, places, [json.loads(line) for line in out.splitlines()]


def test_every_row_is_done_and_equal_work_is_done_once(swept):
    target, places, records = swept
    seeds = {record["seed"] for record in records}
    written = {(r["id"], r["seed"]) for r in records if "@" not in r["id"]}  # the others are matched controls
    assert written == {(row.id, seed) for row in rows(target) if row.kind == "run" for seed in seeds}
    assert {r["status"] for r in records} == {"done"}
    trained = {r["keys"]["train"] for r in records}
    assert len(trained) < len(records) or target not in shipped.papers(), "rows that two tables share are one training"
    journals = list(Path(places[3]).glob("*/journal.jsonl"))
    assert len(journals) == len(trained)
    assert all(len(path.read_text().splitlines()) <= 6 for path in journals), "six updates each, none twice"


def test_every_table_prints_in_every_format(swept, cli: Cli):
    target, places, _ = swept
    addresses = tables(target)
    printed = {form: cli("table", file_of(target), "--format", form, *places) for form in ("md", "json", "latex")}
    for form, (code, text, err) in printed.items():
        assert code == 0, err
        assert [address for address in addresses if address not in text] == [], form
        assert form == "json" or len(text.splitlines()) >= 4 * len(addresses)
    as_json = json.loads(printed["json"][1])
    for table in as_json["tables"] if len(addresses) > 1 else [as_json]:
        for row in table["rows"]:
            assert row["kind"] == "analysis" or (row["ours"] is None) == (row["kind"] != "run"), row["id"]


def test_every_analysis_writes_data_and_figure(swept, tmp_path, cli: Cli):
    target, places, _ = swept
    for name in analyses(target):
        out = tmp_path / name.replace("/", "-")
        code, text, err = cli("analyse", name, "--no-tracking", "--json", "--out", out, *places)
        assert code == 0, err
        found = json.loads(text)
        figure = [] if found["kind"] in TABLES else [".pdf", ".png", ".svg"]
        assert found["records"] and sorted(p.suffix for p in out.iterdir()) == [".csv", ".json", *figure], name
        assert all(path.stat().st_size > 0 for path in out.iterdir())
