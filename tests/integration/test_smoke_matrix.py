"""Every distinct run row of a paper trains end to end under the smoke profile; every table prints and every analysis draws from it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
ROOT = Path(__file__).parents[2]
PAPERS = {"dou2018": 33, "mlrf2018": 48, "hao2019": 39, "wei2020": 48, "shen2018": 81}
"""Paper -> its rows of kind run, those of our own included."""
ANALYSES = {
    "dou2018": ("fig4", "fig5"),
    "mlrf2018": ("fig3", "fig4", "fig5", "table1"),
    "hao2019": ("fig5", "table5", "text"),
    "wei2020": ("table1", "fig2", "fig3", "fig4", "fig5", "fig6"),
    "shen2018": ("table1", "fig4", "fig5", "text/speed", "text/params"),
}


def call(*arguments: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([sys.executable, "-m", "orchestrator", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, f"{arguments}: {done.stderr[-3000:]}"
    return done


@pytest.fixture(scope="module", params=PAPERS)
def swept(request, tmp_path_factory) -> tuple[str, list[str], list[dict]]:
    """The paper, the options that name its results, and its records. One paper in Ray's reused workers, the others in one process."""
    base = tmp_path_factory.mktemp(request.param)
    places = ["--profile", "smoke", "--results", str(base / "results"), "--cache-dir", str(base / "cache")]
    engine = "ray" if request.param == "mlrf2018" else "local"
    done = call("sweep", f"search_spaces/{request.param}", "--engine", engine, "--no-tracking", "--json", *places)
    return request.param, places, [json.loads(line) for line in done.stdout.splitlines()]


def test_every_row_is_done_and_equal_work_is_done_once(swept):
    paper, places, records = swept
    assert len(records) == PAPERS[paper] and {r["status"] for r in records} == {"done"}
    trained = {r["keys"]["train"] for r in records}
    assert len(trained) < len(records), "rows that two tables share are one training"
    journals = list(Path(places[3]).glob("*/journal.jsonl"))
    assert len(journals) == len(trained)
    assert all(len(path.read_text().splitlines()) <= 6 for path in journals), "six updates each, none twice"


def test_every_table_prints_in_every_format(swept):
    paper, places, _ = swept
    addresses = [f"{paper}/{path.stem}" for path in (ROOT / "search_spaces" / paper).glob("*.yaml")]
    printed = {form: call("table", f"search_spaces/{paper}", "--format", form, *places).stdout for form in ("md", "json", "latex", "html")}
    for form, text in printed.items():
        assert [address for address in addresses if address not in text] == [], form
        assert form == "json" or len(text.splitlines()) >= 4 * len(addresses)
    table = next(table for table in json.loads(printed["json"])["tables"] if table["table"] == f"{paper}/table2")
    for row in table["rows"]:
        assert (row["ours"] is None) == (row["kind"] != "run"), row["id"]


def test_every_analysis_writes_data_and_figure(swept, tmp_path):
    paper, places, _ = swept
    for name in ANALYSES[paper]:
        out = tmp_path / name.replace("/", "-")
        made = json.loads(call("analyse", f"{paper}/{name}", "--no-tracking", "--json", "--out", str(out), *places).stdout)
        assert made["records"] and sorted(p.suffix for p in out.iterdir()) == [".csv", ".json", ".png", ".svg"], name
        assert all(path.stat().st_size > 0 for path in out.iterdir())
