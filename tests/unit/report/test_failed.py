"""`failed` as an outcome that a row states: with `failed_below`, a run that diverged or scored under it is `failed`."""

import json
import math
from pathlib import Path

import pytest
import torch

from orchestrator.ledger.results import Ledger
from orchestrator.ledger.run_view import outcome_of
from orchestrator.report.find import Finder
from orchestrator.report.formats import FORMATS, several
from orchestrator.report.table import make
from orchestrator.specs.row import Row
from orchestrator.specs.rows import resolve
from orchestrator.specs.show import to_yaml
from orchestrator.sweeps.plan import Data, keys_for, plan
from orchestrator.sweeps.status import sweep_status
from orchestrator.tracking.source import read_result, read_sweep
from orchestrator.training import trainer
from tests.unit.report.support import shown, write_run

HEAD = """\
source: {paper: demo, table: deep}
data: {corpus: toy-smoke, subword: {kind: word, size: 200}, vocab: {src: 200, tgt: 200}}
model: {d_model: 16, d_ff: 32, num_heads: 2, encoder: {num_layers: 1}, decoder: {num_layers: 1}}
train: {max_steps: 2, validate_every: 2, checkpoint_every: 2}
failed_below: 5
rows:
  base: {pinned: true, expect: {bleu: 27.64}}
  poor: {model: {d_ff: 40}, expect: {bleu: failed}}
  wild: {model: {d_ff: 48}, expect: {bleu: failed}}
  plain: {model: {d_ff: 56}, failed_below: null}
"""
RUNS = {"base": ("done", 30.0), "poor": ("done", 4.99), "wild": ("diverged", None), "plain": ("done", 0.5)}


@pytest.fixture
def path(spec) -> Path:
    return spec(text=HEAD)


@pytest.fixture
def rows(path: Path) -> list[Row]:
    return resolve(path)


@pytest.fixture
def ledger(rows: list[Row], tmp_path) -> Ledger:
    made = Ledger(tmp_path / "results")
    for row in rows:
        status, bleu = RUNS[row.label]
        write_run(made, row, status=status, bleu=bleu)
    return made


@pytest.mark.parametrize(
    ("bound", "status", "bleu", "found"),
    [
        (5.0, "done", 4.99, "BLEU 4.99 is under 5"), (5.0, "done", 5.0, None), (5.0, "diverged", None, "diverged: loss"),
        (0.0, "diverged", None, "diverged: loss"), (5.0, "stopped", 1.0, None), (None, "diverged", None, None),
    ],
)  # fmt: skip
def test_the_rule(bound: float | None, status: str, bleu: float | None, found: str | None) -> None:
    outcome = outcome_of({"status": status, "reason": "loss"}, [None if bleu is None else {"bleu": bleu}], bound)
    assert (outcome.reason if outcome.as_stated else None) == found


def test_a_row_inherits_the_rule_or_takes_it_away_and_a_profile_has_its_own_bound(path: Path, rows: list[Row], spec) -> None:
    assert {row.label: row.failed_below for row in rows} == {"base": 5.0, "poor": 5.0, "wild": 5.0, "plain": None}
    assert {row.label: row.failed_below for row in resolve(path, profile="smoke")} == {"base": 0.0, "poor": 0.0, "wild": 0.0, "plain": None}
    for row, bound in zip(rows, (5.0, 5.0, 5.0, None), strict=True):
        shown = spec(text=to_yaml(row), name="row.yaml")
        (again,) = resolve(shown)
        assert again.failed_below == bound and again.expect == row.expect
        assert resolve(shown, profile="smoke")[0].failed_below == (None if bound is None else 0.0)


def test_it_is_not_part_of_a_key(path: Path, rows: list[Row]) -> None:
    before = [keys_for(row, Data(None)) for row in rows]
    path.write_text(HEAD.replace("failed_below: 5\n", ""), encoding="utf-8")
    assert [keys_for(row, Data(None)) for row in resolve(path)] == before


def test_a_table_shows_failed_rows_and_why(rows: list[Row], ledger: Ledger) -> None:
    table = make("demo/deep", rows, Finder(ledger, Data(None)), seeds=[1])
    lines = shown(table)
    assert [lines[name]["BLEU (ours)"] for name in RUNS] == ["30.00", "failed", "failed", "0.50"]
    assert [lines[name]["BLEU (paper)"] for name in RUNS] == ["27.64", "failed", "failed", ""]
    assert lines["poor"]["status"] == "failed: BLEU 4.99 is under 5" and lines["wild"]["status"] == "failed: diverged: loss"
    assert lines["poor"]["params"] == "1,000" and lines["poor"]["delta"] == "" and lines["poor"]["steps"] == "4"
    said = {row["id"].rsplit("/", 1)[1]: row for row in json.loads(json.dumps(table.as_json()))["rows"]}
    assert said["poor"]["reported"] == {"bleu": "failed"} and said["poor"]["ours"]["status"] == "failed"
    assert "bleu" not in said["poor"]["ours"]
    assert said["wild"]["ours"]["failed_as_stated"] is True and "failed_as_stated" not in said["plain"]["ours"]
    for form in FORMATS:
        assert several([table], form).count("failed") >= 4


def test_a_plan_has_nothing_left_to_do_for_them(rows: list[Row], ledger: Ledger) -> None:
    found = plan(rows, [1], ledger=ledger)
    assert [row.status for row in found.rows] == ["done", "failed", "failed", "done"] and found.trainings == 0
    assert found.as_json()["rows"][1]["reason"] == "BLEU 4.99 is under 5" and found.as_json()["totals"]["failed"] == 2


@pytest.mark.slow
def test_a_sweep_ends_with_0_says_so_and_has_nothing_to_do_again(path: Path, tmp_path, cli, monkeypatch) -> None:
    places = ["--results", tmp_path / "results", "--cache-dir", tmp_path / "cache"]

    def run(*more: str) -> tuple[int, list[dict[str, object]], str]:
        code, out, err = cli("sweep", path, "--engine", "local", "--no-tracking", "--json", *places, *more)
        return code, [json.loads(line) for line in out.splitlines()], err

    rows = HEAD[: HEAD.index("rows:")] + "rows: {poor: {failed_below: 100}, well: {model: {d_ff: 40}, failed_below: null}}\n"
    path.write_text(rows, encoding="utf-8")
    code, records, said = run()
    poor, well = records
    assert code == 0 and (poor["status"], poor["failed_as_stated"], well["status"]) == ("failed", True, "done")
    assert poor["bleu"] is not None and str(poor["reason"]).endswith("is under 100") and "an outcome, no error" in said
    again, repeated, said = run()
    assert again == 0 and "0 steps executed" in said and repeated == records
    (sweep,) = sweep_status(Ledger(tmp_path / "results"))
    assert [row["status"] for row in sweep.as_json()["rows"]] == ["failed", "done"]
    projected = read_sweep(tmp_path / "results" / "sweeps" / f"{sweep.file}.json")
    results = [read_result([tmp_path / "results"], row, projected) for row in projected.rows]
    assert [result and result.state for result in results] == ["failed", "done"]
    assert results[0] is not None and results[0].view.outcome.reason == poor["reason"] and results[0].metrics["bleu"] == poor["bleu"]

    monkeypatch.setattr(trainer.optim, "clip_gradients", lambda model, max_norm: torch.tensor(math.nan))
    path.write_text(rows.replace("100", "0"), encoding="utf-8")
    code, records, said = run("--seeds", "2")
    assert code == 1 and [record["status"] for record in records] == ["failed", "diverged"]
    assert records[0]["failed_as_stated"] and str(records[0]["reason"]).startswith("diverged: loss or gradient is not finite at step 1")
    assert "1 of 2 failed by their rows' own rule" in said
