"""The noise at rungs: what `nmt-ablate noise` keeps of it, and the tolerance of a search that comes of it."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from orchestrator.errors import UserError
from orchestrator.ledger.results import Ledger
from orchestrator.report import noise_floor
from orchestrator.report.find import Finder
from orchestrator.scoring.significance.reader import StatisticsReader
from orchestrator.specs.rows import resolve
from orchestrator.sweeps.plan import Data
from tests.unit.history import append_history
from tests.unit.report.test_effects import TABLE, finish

Run = Callable[..., tuple[int, str, str]]
NLL = {1: 2.0, 2: 2.1, 3: 2.4}


def test_a_floor_has_the_spread_of_rungs_and_of_validations(tmp_path: Path) -> None:
    file = tmp_path / "demo.yaml"
    file.write_text(TABLE, encoding="utf-8")
    rows, ledger = resolve(file), Ledger(tmp_path / "results")
    for seed, nll in NLL.items():
        key = finish(ledger, rows[0], seed, 0.6)
        ledger.write_rung(key, 10, {"valid/nll": nll, "train/nll": 5.0 * seed})
        append_history(ledger, key, {"step": 20, "valid/nll": nll / 2, "valid/accuracy": 0.1 * seed})
    ledger.write_rung(key, 30, {"valid/nll": 1.0})
    finder = Finder(ledger, Data(None))
    with pytest.raises(UserError, match=r"no noise floor of demo/small/base has valid/nll; expected one: nmt-ablate noise HERE"):
        noise_floor.tolerance(ledger, rows[0], "valid/nll", [10], "HERE")
    record = noise_floor.measure(rows[0], rows, {rows[0].id: finder.outcomes(rows[0])}, StatisticsReader(ledger, finder.prepared))
    sd = float(np.std([*NLL.values()], ddof=1))
    assert record["rungs"]["valid/nll"] == {"10": round(sd, 6), "20": round(sd / 2, 6)}, "one seed alone at step 30 has no spread"
    assert record["rungs"]["valid/accuracy"] == {"20": 0.1} and "train/nll" not in record["rungs"]
    noise_floor.save(ledger, record)
    found = noise_floor.tolerance(ledger, rows[1], "valid/nll", [10, 20], "HERE")
    assert found == {"10": pytest.approx(2**0.5 * sd, abs=1e-5), "20": pytest.approx(2**0.5 * sd / 2, abs=1e-5)}, "of another row's family"
    with pytest.raises(UserError, match="has no valid/nll at step 15; expected rungs among its validations, 10, 20"):
        noise_floor.tolerance(ledger, rows[0], "valid/nll", [10, 15], "HERE")
    assert rows[0].spec is not None
    other = rows[0].spec.model_copy(update={"train": rows[0].spec.train.model_copy(update={"max_steps": 5})})
    with pytest.raises(UserError, match="no noise floor"):
        noise_floor.tolerance(ledger, rows[0].__class__(**{**vars(rows[0]), "spec": other}), "valid/nll", [10], "HERE")


FILE = """\
source: {paper: demo, table: search}
data: {corpus: toy-smoke, subword: {kind: word, size: 200}, vocab: {src: 200, tgt: 200}}
model: {d_model: 16, d_ff: 32, num_heads: 2, encoder: {num_layers: 1}, decoder: {num_layers: 1}}
train: {max_steps: 4, validate_every: 4, checkpoint_every: 4}
sweep: {seeds: 1, scheduler: {kind: asha, rungs: [2], reduction_factor: 4.0, tolerance: noise}}
rows:
  base: {pinned: true}
  wide: {model: {d_ff: 36}}
"""


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_search_takes_its_tolerance_from_the_floor_once(tmp_path: Path, cli: Run) -> None:
    """Rung 2 is no validation of the training: `noise` reports it because the table's sweep has it."""
    file, results = tmp_path / "mine.yaml", tmp_path / "results"
    file.write_text(FILE, encoding="utf-8")
    places = ["--engine", "local", "--no-tracking", "--results", results, "--cache-dir", tmp_path / "cache"]
    code, _, err = cli("sweep", file, *places)
    assert code == 2 and err.startswith(f"error: {file}:5: sweep.scheduler.tolerance: found noise: no noise floor of demo/search/base has")
    assert f"nmt-ablate noise '{file}#base' --results {results}" in err and not (results / "sweeps").exists()
    assert cli("noise", f"{file}#base", "--seeds", 2, *places)[0] == 0
    (floor,) = (results / "noise").glob("*.json")
    record = json.loads(floor.read_text())
    sd = record["rungs"]["valid/nll"]["2"]
    assert sd > 0 and {*record["rungs"]["valid/nll"]} == {"2", "4"}
    assert cli("sweep", file, *places)[0] == 0
    expected = {"2": pytest.approx(2**0.5 * sd, abs=2e-6)}
    decisions = json.loads((results / "sweeps" / "demo-search.asha.json").read_text())
    assert decisions["tolerance"] == expected and "demo/search/wide:1" in {one["run"] for one in decisions["rungs"]["2"]}
    floor.unlink()
    assert cli("sweep", file, *places)[0] == 0, "a resumed sweep has the tolerance that it recorded"
    assert json.loads((results / "sweeps" / "demo-search.json").read_text())["scheduler"]["tolerance"] == expected
    file.write_text(FILE.replace("rungs: [2]", "rungs: [3]"))
    assert cli("sweep", file, *places)[0] == 2, "other rungs need another tolerance"
