"""The API on a few runs of the ledger that is shipped."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import orchestrator.api as nmt
from orchestrator.ledger import packed, packing
from orchestrator.ledger.results import Ledger
from orchestrator.paths import PUBLISHED_LEDGER, ROOT
from tests.unit.conftest import refused

ROWS = ("dou2018/table1/row1", "dou2018/table1/row5")
WHERE: dict[str, Any] = {"profile": "mini-short"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    """Row 1 and row 5 of Dou's table 1 under the profile mini-short, three seeds each."""
    folder = tmp_path_factory.mktemp("shipped")
    for run in packed.runs(PUBLISHED_LEDGER):
        if any(f"\nid: {row}\n".encode() in (packed.read_bytes(run / "spec.yaml") or b"") for row in ROWS):
            packing.write_files(PUBLISHED_LEDGER, packing.names_of(run), folder)
    return folder


@pytest.fixture
def shipped(runs: Path, tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr("orchestrator.paths.PUBLISHED_LEDGER", runs)
    monkeypatch.chdir(tmp_path)
    return runs


def test_results_have_a_line_per_row_and_seed(shipped: Path) -> None:
    frame = nmt.results("dou2018/table1", seeds=[1, 2, 9], spec=True, **WHERE).set_index(["row", "seed"])
    ours = frame.loc[(ROWS[1], 2)]
    ledger = Ledger(shipped)
    score = ledger.record(ours.train_key, "score", ours.score_key)
    assert score is not None and ours.bleu == score["bleu"] and ours.status == "done" and ours.shipped
    assert frame.loc[(ROWS[1], 3)].bleu > 0, "seeds of the ledger are listed without being asked for"
    assert frame.loc[(ROWS[1], 9)].status == "needs-data" and not frame.loc[(ROWS[1], 9)].bleu > 0
    assert frame.loc[(ROWS[1], 1)]["reported.bleu"] == 28.63
    assert ours["spec.seed"] == 2 and ours["spec.model.encoder.connection.kind"] == "hierarchical"


def test_history_is_in_order_of_steps(shipped: Path) -> None:
    frame = nmt.history(ROWS[0], **WHERE)
    assert set(frame.seed) >= {1, 2, 3}
    for _, curve in frame.groupby("seed"):
        assert curve.step.is_monotonic_increasing and curve["valid/nll"].dropna().iloc[0] > curve["valid/nll"].dropna().iloc[-1]


def test_hypotheses_and_what_is_absent(shipped: Path) -> None:
    frame = nmt.hypotheses(ROWS[0], 1, **WHERE)
    assert list(frame) == ["hypothesis"] and len(frame) == 1000
    with pytest.raises(nmt.UserError, match="seed 3 were left out of the ledger; nmt-ablate repro dou2018/table1/row1 --into"):
        nmt.hypotheses(ROWS[0], 3, **WHERE)
    assert "no translations with seed 9" in refused(nmt.hypotheses, ROWS[0], 9, **WHERE)[0]
    with pytest.raises(nmt.UserError, match=r"found \d+ rows of kind run; expected one"):
        nmt.load("dou2018/table1", **WHERE)


def test_two_rows_are_compared_over_their_seeds(shipped: Path) -> None:
    found, back = nmt.compare(*ROWS[::-1], **WHERE), nmt.compare(*ROWS, seeds=np.array([1, 2]), **WHERE)
    runs = nmt.results("dou2018/table1", **WHERE).groupby("row").bleu
    means, seeds = runs.mean(), runs.count()
    assert found.delta == pytest.approx(means[ROWS[1]] - means[ROWS[0]], abs=1e-3) and back.delta == -found.delta
    assert found.seeds == (seeds[ROWS[1]], seeds[ROWS[0]]) and found.claim == 0.99 and found.low < found.delta < found.high
    nll = nmt.compare(*ROWS[::-1], metric="nll", **WHERE)
    assert abs(nll.delta) < 0.2 < abs(found.delta) and nll.verdict != "not run" and nll.claim is None
    assert "no chrf of both rows; expected one of bleu, nll" in refused(nmt.compare, *ROWS, metric="chrf", **WHERE)[0]
    assert nmt.compare("dou2018/table1/row9", ROWS[0], **WHERE).verdict == "not run"
    assert "compared with itself" in refused(nmt.compare, ROWS[0], ROWS[0])[0]
    head = {"source": {"paper": "mine", "table": "other"}, "data": {"corpus": "wmt14-en-de"}, "train": {"max_steps": 9}}
    assert nmt.compare(head | {"rows": {"a": {"expect": {"bleu": 30.0}}}}, ROWS[0]).claim is None, "no table compares the two"


def test_a_mapping_is_a_table(shipped: Path) -> None:
    shutil.copy(ROOT / "search_spaces" / "quickstart.yaml", "base.yaml")
    table = {"extends": "base.yaml", "source": {"paper": "mine", "table": "gates"}, "rows": {"wide": {"model": {"d_model": 128}}}}
    frame = nmt.results(table, seeds=[1])
    assert list(frame.row) == ["mine/gates/wide"] and list(frame.status) == ["new"]
    line, *_ = refused(nmt.results, table | {"rows": {"wide": {"modle": {}}}})
    assert line.startswith("mapping: rows.wide.modle: unknown key")


@pytest.mark.slow
def test_the_notebook_runs(tmp_path) -> None:
    """The cells in order, in a process of their own; the last translation equals the recorded one."""
    cells = [cell for cell in json.loads((ROOT / "docs" / "api.ipynb").read_text())["cells"] if cell["cell_type"] == "code"]
    code = "\n".join("".join(cell["source"]) for cell in cells).replace("again == list(", "assert again == list(")
    assert code.count("assert again") == 1 and all(cell["outputs"] for cell in cells[1:-1]), "written without its outputs"
    (tmp_path / "cells.py").write_text(code)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "cells.py"], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


def test_an_unknown_keyword_and_what_is_no_seed_are_refused(tmp_path) -> None:
    for seeds in ([-1], [1.5], ["x"], [2**32], [1, 1], [], ["3-1"], ["1-"], ["1-2", 2], ["0-1000"]):
        assert "--seeds" in refused(nmt.run, "quickstart/fusion", seeds=seeds, tracking=False, profile="smoke", results=tmp_path)[0]
    with pytest.raises(TypeError, match="unexpected keyword argument 'level'; expected one of profile, sets, "):
        nmt.compare(*ROWS, level=0.1, **WHERE)  # type: ignore[call-arg]
