"""`nmt-ablate noise` on a tiny row, and what plans and tables make of the floor."""

import json
from dataclasses import replace

import pytest

from orchestrator.cli.commands import plan
from orchestrator.ledger.results import Ledger
from orchestrator.report import noise_floor
from orchestrator.scoring.significance.mixed import Spread
from orchestrator.specs.claims import RowClaim
from orchestrator.specs.rows import resolve

ROWS = """\
  base: {pinned: true, expect: {bleu: 27.0}}
  fused: {model: {d_ff: 40}, expect: {bleu: 27.5}}
  other: {train: {max_steps: 5}}
"""


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_floor_is_measured_and_used_by_plans(spec, tmp_path, cli) -> None:
    table = spec(ROWS)
    places = ("--results", tmp_path / "results", "--cache-dir", tmp_path / "cache")
    code, out, err = cli("noise", f"{table}#base", "--seeds", "3", *places, "--engine", "local", "--no-tracking")
    assert code == 0 and "sd over seeds" in out and "test nll" in out, err
    (file,) = (tmp_path / "results" / "noise").glob("*[!k].json")
    record = json.loads(file.read_text())
    assert record["row"] == "demo/small/base" and record["seeds"] == 3 and record["metrics"]["nll"]["sd"] > 0
    code, out, err = cli("plan", table, *places, "--seeds", "1,2,3,4,5", "--json")
    power = json.loads(out)["power"]["demo/small"]
    assert (power["floor"], power["same_family"], power["seeds"], power["df"]) == ("demo/small/base", True, 5, 2)
    assert power["mde"] is not None and list(power["seeds_needed"]) == ["demo/small/fused"]
    _, _, err = cli("plan", table, *places, "--seeds", "1")
    assert "BLEU varies by" in err and "one seed decides nothing" in err
    assert cli("noise", table, *places, "--no-tracking", "--engine", "local")[0] == 2, "several rows"


def test_floors_of_the_same_recipe_come_first(spec, tmp_path) -> None:
    base, fused, other = resolve(spec(ROWS))
    ledger = Ledger(tmp_path / "results")
    for spec, sd, df in ((base.spec, 0.3, 4), (other.spec, 0.5, 19)):
        noise_floor.save(ledger, {"row": f"sd{sd}", "family": noise_floor.family(spec), "metrics": {"bleu": {"sd": sd, "df": df}}})
    found = noise_floor.load(ledger, fused.spec, "bleu")
    assert found == noise_floor.Floor("sd0.3", Spread(0.09, 4), True) and noise_floor.load(ledger, fused.spec, "nll") is None
    third = fused.spec.model_copy(update={"train": fused.spec.train.model_copy(update={"max_steps": 6})})
    near = noise_floor.load(ledger, third, "bleu")
    assert near is not None and (near.row, near.same_family) == ("sd0.5", False), "of other recipes the one with the most seeds"
    own = [noise_floor.of_family(ledger, ["demo/small/base"], spec, "bleu") for spec in (fused.spec, third)]
    assert own == [Spread(0.09, 4), None]
    score = {"score": base.spec.score.model_copy(update={"metric": "rouge"})}
    rows = [replace(row, spec=row.spec.model_copy(update=score), expect={}) for row in (base, fused)]
    noise_floor.save(ledger, {"row": "sum", "family": noise_floor.family(rows[0].spec), "metrics": {"rougeL": {"sd": 0.4, "df": 9}}})
    power = plan._power(rows, [1, 2], ledger, [RowClaim(fused.id, None, 0.9), RowClaim(base.id, None, 0.1, "nll")])["demo/small"]
    assert (power["metric"], power["floor"], [*power["seeds_needed"]]) == ("rougeL", "sum", [fused.id])
    assert noise_floor.of_family(ledger, ["sd0.3"], fused.spec, "bleu") is None, "its seeds are pooled as the table's own"
