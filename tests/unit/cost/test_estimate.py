"""Probes kept, the nearest of them, what rows cost by them, sums over a plan, errors against finished runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from models.flops import Tokens
from orchestrator.cost import probes
from orchestrator.cost.check import check
from orchestrator.cost.estimate import Costs
from orchestrator.cost.flops import work
from orchestrator.cost.plan_costs import add_costs, duration, lines, totals
from orchestrator.cost.probing import choose
from orchestrator.data.prepare import prepare
from orchestrator.ledger.keys import Keys
from orchestrator.ledger.results import Ledger
from orchestrator.specs.row import Row
from orchestrator.specs.rows import resolve
from orchestrator.sweeps.cost import Cost
from orchestrator.sweeps.plan import Data, Planned, plan
from orchestrator.training.batches import UpdateLoader

MEASURES = {
    "train_flops": 1e9,
    "train_seconds": 2.0,
    "valid_flops": 1e9,
    "valid_seconds": 1.0,
    "row_steps": 1000,
    "decode_seconds": 0.5,
    "decode_weights": 1.0,
    "start_seconds": 3.0,
    "checkpoint_seconds": 0.25,
    "memory": 123,
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Data:
    found = Data(None, tmp_path_factory.mktemp("cache"))
    prepare(rows()[0].spec.data, None, found.cache_dir or Path())  # type: ignore[union-attr]
    return found


def rows() -> list[Row]:
    return [row for row in resolve("quickstart/fusion", profile="smoke") if row.workers == 1]


def keep(costs: Costs, row: Row, **changes: Any) -> str:
    about = costs.conditions(row)
    assert about is not None
    probes.write(costs.results, about, MEASURES | changes)
    costs.probes = probes.read_all(costs.results)
    return probes.key_of(about)


def test_without_a_probe_no_time_is_told(data: Data, tmp_path: Path) -> None:
    cost = Costs(data, tmp_path).of(rows()[0])
    assert cost.basis == "not probed" and cost.updates == 6 and cost.flop == pytest.approx(6 * (cost.flop_update or 0)) and cost.flop
    assert (cost.seconds, cost.hours, cost.memory) == (None, None, None) and (cost.room or 0) > 10**8
    away = Costs(Data(None, tmp_path / "nothing"), tmp_path).of(rows()[0])
    assert (away.basis, away.flop, away.seconds) == ("not prepared", None, None)


def test_a_probed_row_costs_its_operations_at_the_measured_rate(data: Data, tmp_path: Path) -> None:
    costs, row = Costs(data, tmp_path), rows()[0]
    keep(costs, row)
    cost = costs.of(row)
    assert cost.basis == "probed" and cost.memory == 123
    assert cost.train == pytest.approx((cost.flop or 0) * 2e-9)
    assert (cost.around or 0) > 3.0 + 2 * 0.25 and cost.seconds == pytest.approx(
        (cost.train or 0) + (cost.around or 0) + (cost.decode or 0)
    )
    assert cost.hours == pytest.approx((cost.seconds or 0) / 3600)
    two = costs.of(row, workers=2)
    assert (two.basis, two.devices) == ("estimated", 2) and two.train == pytest.approx((cost.train or 0) / 2)


def test_a_validation_is_a_forward_pass_at_its_measured_rate(data: Data, tmp_path: Path) -> None:
    """Of the operations of its pairs, not of three times as many as an update has; an update is one forward and one backward pass."""
    costs, row = Costs(data, tmp_path), rows()[0]
    keep(costs, row, start_seconds=0.0, checkpoint_seconds=0.0)
    cost, spec, prepared = costs.of(row), row.spec, costs.prepared(row)
    assert spec is not None and prepared is not None
    pairs, of_model = prepared.pairs("valid"), work(spec.model, prepared.src_size, prepared.tgt_size)
    tokens = Tokens.of(zip((pairs.src_lengths + 1).tolist(), (pairs.tgt_lengths + 1).tolist(), strict=True))
    validations = (spec.train.max_steps or 0) // int(spec.train.validate_every)
    assert validations and cost.around == pytest.approx(validations * of_model.forward(tokens) * 1e-9)
    everything = prepared.pairs("train")
    whole = Tokens.of(zip((everything.src_lengths + 1).tolist(), (everything.tgt_lengths + 1).tolist(), strict=True))
    share = (cost.flop_update or 0) / (3 * of_model.forward(whole))  # of the corpus in an update
    updates = UpdateLoader(everything, spec.batch, 1).updates_of(0, 1)
    assert share == pytest.approx(1 / updates, rel=0.1)


def test_the_nearest_probe_stands_in_and_its_own_comes_first(data: Data, tmp_path: Path) -> None:
    costs = Costs(data, tmp_path)
    base, linear, hierarchical = rows()[:3]
    keep(costs, base, train_seconds=1.0)
    near = keep(costs, hierarchical, train_seconds=5.0)
    guess = costs.of(linear)
    assert guess.basis == "estimated" and guess.memory is None and guess.train
    keep(costs, linear, train_seconds=7.0)
    costs.forget()
    assert costs.of(linear).train == pytest.approx((costs.of(linear).flop or 0) * 7e-9)
    without = costs.of(hierarchical, without=near)
    assert without.basis == "estimated" and without.probe != near


def test_other_threads_and_precision_are_another_machine(data: Data, tmp_path: Path) -> None:
    costs, row = Costs(data, tmp_path), rows()[0]
    keep(costs, row)
    assert row.spec is not None
    for change in ({"threads": 2}, {"precision": "bf16"}):
        spec = row.spec.model_copy(update={"train": row.spec.train.model_copy(update=change)})
        assert costs.of(Row(**{**vars(row), "spec": spec})).basis == "not probed"
    seeded = costs.of(row.at(5))
    assert seeded.basis == "probed", "a seed changes no cost"


def test_a_damaged_probe_is_none(data: Data, tmp_path: Path) -> None:
    costs, row = Costs(data, tmp_path), rows()[0]
    keep(costs, row)
    (path,) = (tmp_path / probes.FOLDER).glob("*.json")
    whole = json.loads(path.read_text())
    for text in ("", "[]", json.dumps(whole | {"measures": {}}), json.dumps(whole | {"key": "0" * 64})):
        path.write_text(text)
        assert probes.read_all(tmp_path) == {}


def test_probes_go_where_least_is_known(data: Data, tmp_path: Path) -> None:
    costs, all_rows = Costs(data, tmp_path), rows()
    keep(costs, all_rows[0])
    chosen = choose(costs, [*all_rows, *(row.at(2) for row in all_rows)], 2)
    assert len(chosen) == 2 and len({row.id for row in chosen}) == 2 and all_rows[0].id not in {row.id for row in chosen}
    assert len(choose(costs, all_rows, 99)) == len(all_rows) - 1


def planned(name: str, train: str | None, decode: str | None = None) -> Planned:
    return Planned(name, 1, Keys(train, decode or (train and f"d{train}"), decode or (train and f"s{train}")), 1, "new")


def test_totals_count_equal_work_once() -> None:
    cost = Cost("probed", 2, flop=10.0, train=3000.0, around=600.0, decode=1800.0)
    plans = [planned("a", "1"), planned("b", "1"), planned("c", "2"), planned("child", "3"), planned("away", None), planned("off", None)]
    parents = [planned("parent", "9")]
    costs = dict.fromkeys(("a", "b", "c", "child", "parent"), cost)
    found = totals(plans, parents, costs, {"1", "d1"}, {"child": ["parent"]})
    assert (found["alone"].trainings, found["alone"].decodings, found["alone"].scorings) == (7, 6, 6)
    assert (found["shared"].trainings, found["shared"].decodings, found["shared"].scorings) == (6, 6, 6)
    assert (found["done"].trainings, found["done"].decodings, found["done"].scorings) == (1, 1, 0)
    assert found["left"].trainings == 5 and found["left"].flop == 30.0 and found["left"].unknown == 4
    assert found["alone"].flop == 50.0 and found["alone"].hours == pytest.approx(5 * 2.0 + 4 * 1.0)
    assert found["shared"].hours == pytest.approx(found["done"].hours + found["left"].hours)


def test_a_plan_has_costs_beside_its_rows(data: Data, tmp_path: Path) -> None:
    costs, found_rows, ledger = Costs(data, tmp_path), rows(), Ledger(tmp_path)
    made = plan(found_rows, [1, 2], ledger=ledger, data=data)
    add_costs(made, found_rows, costs, ledger)
    told = made.as_json()
    assert told["cost"]["shared"]["trainings"] == 2 * len(found_rows) and told["rows"][0]["cost"]["basis"] == "not probed"
    assert any("not probed; nmt-ablate plan --probe" in line for line in lines(made))


def test_errors_are_relative_to_what_the_ledger_recorded(data: Data, tmp_path: Path) -> None:
    costs, (row, *_), ledger = Costs(data, tmp_path), rows(), Ledger(tmp_path)
    keep(costs, row)
    cost = costs.of(row)
    assert cost.train is not None and cost.decode is not None
    made = plan([row], [1, 2, 3], ledger=ledger, data=data)
    here = probes.machine()
    for each, factor, world in zip(made.rows, (0.5, 1.0, 1.0), (1, 1, 2), strict=True):
        assert each.keys.train is not None and each.keys.decode is not None
        record = {"status": "done", "steps": 6, "seconds": cost.train * factor, "world_size": world}
        ledger.write_train(each.keys.train, record)
        ledger.write_capsule(each.keys.train, {"device": here["device"], "cpu": here["name"]})
        ledger.write_decode(each.keys.train, each.keys.decode, {"seconds": cost.decode}, ["a"])
    found = check(made, [row], costs, ledger)
    assert [run["probed"]["error"]["train"] for run in found["runs"]] == pytest.approx([1.0, 0.0])
    assert found["median"]["probed"]["train"] == pytest.approx(0.5) and found["median"]["estimated"] is None
    assert found["left_out"] == {"several workers": 1}


def test_durations_are_short() -> None:
    assert [duration(s) for s in (None, 45, 600, 9000, 400_000)] == ["?", "45s", "10m", "2.5h", "4.63d"]
