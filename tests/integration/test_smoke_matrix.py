"""Every run row of `search_spaces` trains end to end under the smoke profile; every table prints and every analysis draws from it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.specs.row import Row
from tests.specs import shipped

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
ROOT = Path(__file__).parents[2]
ELSEWHERE = {"quickstart": "tests/integration/test_ray.py", "sweeps": "tests/integration/test_grid_smoke.py"}
"""Folders of tables whose rows other tests train."""
FOLDERS = sorted({address.split("/")[0] for address in shipped.TABLES} - set(ELSEWHERE))
LONG = ("dou2018/text/significance", "mlrf2018/text/train-speed", "wei2020/table6/row1")
"""Analyses of other rows than their own table's, which the kinds' own tests cover."""
Cli = Callable[..., tuple[int, str, str]]


def rows(folder: str) -> list[Row]:
    return [row for address in shipped.TABLES if address.startswith(f"{folder}/") for row in shipped.rows(address)]


def analyses(folder: str) -> list[str]:
    """What to call: tables whose analysis rows are of one kind, and else those rows one by one."""
    found: dict[str, dict[str, str]] = {}
    for row in rows(folder):
        if row.kind == "analysis" and row.id not in LONG:
            found.setdefault("/".join(row.id.split("/")[:2]), {})[row.id] = row.analysis or ""
    return [name for table, kinds in found.items() for name in ([table] if len(set(kinds.values())) == 1 else kinds)]


@pytest.fixture(scope="module", params=FOLDERS)
def swept(request, tmp_path_factory) -> tuple[str, list[str], list[dict]]:
    """The folder, the options that name its results, and its records. One in Ray's reused workers, the others in one process."""
    base = tmp_path_factory.mktemp(request.param)
    places = ["--profile", "smoke", "--results", str(base / "results"), "--cache-dir", str(base / "cache")]
    engine = "ray" if request.param == "mlrf2018" else "local"
    command = ["sweep", f"search_spaces/{request.param}", "--engine", engine, "--no-tracking", "--json", *places]
    done = subprocess.run([sys.executable, "-m", "orchestrator", *command], cwd=ROOT, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr[-3000:]
    return request.param, places, [json.loads(line) for line in done.stdout.splitlines()]


def test_every_row_is_done_and_equal_work_is_done_once(swept):
    paper, places, records = swept
    seeds = {record["seed"] for record in records}
    written = {(r["id"], r["seed"]) for r in records if "@" not in r["id"]}  # the others are matched controls
    assert written == {(row.id, seed) for row in rows(paper) if row.kind == "run" for seed in seeds}
    assert {r["status"] for r in records} == {"done"}
    trained = {r["keys"]["train"] for r in records}
    assert len(trained) < len(records) or paper not in shipped.papers(), "rows that two tables share are one training"
    journals = list(Path(places[3]).glob("*/journal.jsonl"))
    assert len(journals) == len(trained)
    assert all(len(path.read_text().splitlines()) <= 6 for path in journals), "six updates each, none twice"


def test_every_table_prints_in_every_format(swept, cli: Cli):
    paper, places, _ = swept
    addresses = [address for address in shipped.TABLES if address.startswith(f"{paper}/")]
    printed = {form: cli("table", ROOT / "search_spaces" / paper, "--format", form, *places) for form in ("md", "json", "latex", "html")}
    for form, (code, text, err) in printed.items():
        assert code == 0, err
        assert [address for address in addresses if address not in text] == [], form
        assert form == "json" or len(text.splitlines()) >= 4 * len(addresses)
    as_json = json.loads(printed["json"][1])
    for table in as_json["tables"] if len(addresses) > 1 else [as_json]:
        for row in table["rows"]:
            assert row["kind"] == "analysis" or (row["ours"] is None) == (row["kind"] != "run"), row["id"]


def test_every_analysis_writes_data_and_figure(swept, tmp_path, cli: Cli):
    paper, places, _ = swept
    for name in analyses(paper):
        out = tmp_path / name.replace("/", "-")
        code, text, err = cli("analyse", name, "--no-tracking", "--json", "--out", out, *places)
        assert code == 0, err
        assert json.loads(text)["records"] and sorted(p.suffix for p in out.iterdir()) == [".csv", ".json", ".png", ".svg"], name
        assert all(path.stat().st_size > 0 for path in out.iterdir())
