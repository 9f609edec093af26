"""Costs worked out by hand: device-hours, what each part of an estimate scales with, probes, sums over a plan."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from orchestrator.cost import estimate as estimates
from orchestrator.cost import probes
from orchestrator.cost.estimate import Costs
from orchestrator.cost.flops import work
from orchestrator.cost.lengths import Lengths
from orchestrator.cost.plan_costs import _done, _never, add_costs, lines, short, totals
from orchestrator.data.prepare import prepare
from orchestrator.ledger.keys import Keys
from orchestrator.ledger.results import Ledger
from orchestrator.specs.row import Row
from orchestrator.specs.rows import resolve
from orchestrator.sweeps.cost import Cost, Sum
from orchestrator.sweeps.plan import Data, Planned, plan

NOTHING = {
    "train_flops": 1.0, "train_seconds": 0.0, "valid_flops": 1.0, "valid_seconds": 0.0, "row_steps": 1, "decode_seconds": 0.0,
    "decode_weights": 1.0, "start_seconds": 0.0, "checkpoint_seconds": 0.0, "memory": 123,
}  # fmt: skip
"""A probe on a machine that takes no time for anything."""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Data:
    found = Data(None, tmp_path_factory.mktemp("cache"))
    prepare(spec_of(rows()[0]).data, None, found.cache_dir or Path())
    return found


def rows() -> list[Row]:
    return [row for row in resolve("quickstart/fusion", profile="smoke") if row.workers == 1]


def spec_of(row: Row) -> Any:
    assert row.spec is not None
    return row.spec


def with_train(row: Row, **changes: Any) -> Row:
    return replace(row, spec=spec_of(row).model_copy(update={"train": spec_of(row).train.model_copy(update=changes)}))


def probed(data: Data, place: Path, row: Row, **measures: float) -> Costs:
    costs = Costs(data, place)
    about = costs.conditions(row)
    assert about is not None
    probes.write(place, about, NOTHING | measures)
    costs.probes = probes.read_all(place)
    return costs


def test_device_hours() -> None:
    cost = Cost("probed", 3, train=3000.0, around=600.0, decode=1800.0)
    assert (cost.training_seconds, cost.seconds, cost.hours) == (3600.0, 5400.0, 4.5)
    told = cost.as_json()
    assert (told["device_hours"], told["seconds"]["all"]) == (4.5, 5400.0)
    for lacking in ("train", "around", "decode"):
        assert replace(cost, **{lacking: None}).hours is None


def test_each_part_of_an_estimate_scales_with_what_it_is_of(data: Data, tmp_path: Path) -> None:
    """7 updates, a validation and a checkpoint after 2, 4, 6 and at the end; one part at a time takes a second."""
    row = with_train(rows()[0], max_steps=7, max_epochs=None, validate_every=2, checkpoint_every=2)
    ready = data.prepared(row.spec.data)
    assert ready is not None
    model, lengths = work(spec_of(row).model, ready.src_size, ready.tgt_size), Lengths()
    update = model.training(lengths.training(spec_of(row), ready).tokens)
    valid, train = (model.forward(lengths.split(ready, split)) for split in ("valid", "train"))
    assert valid != train

    def cost(name: str, **measures: float) -> Cost:
        return probed(data, tmp_path / name, row, **measures).of(row)

    assert cost("nothing").seconds == 0.0 and cost("nothing").updates == 7
    training = cost("train", train_seconds=1.0, train_flops=update)
    assert (training.train, training.around, training.flop) == (pytest.approx(7.0), 0.0, pytest.approx(7 * update))
    assert cost("start", start_seconds=1.0).around == 1.0
    assert cost("checkpoint", checkpoint_seconds=1.0).around == 4.0
    assert cost("valid", valid_seconds=1.0, valid_flops=valid).around == pytest.approx(4.0)
    decoding = cost("decode", decode_seconds=1.0, row_steps=lengths.row_steps(ready, spec_of(row)))
    assert decoding.decode == pytest.approx(1.0) and decoding.training_seconds == 0.0 and decoding.memory == 123


def test_several_workers_share_updates_and_validations(data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = rows()[0]
    costs = probed(data, tmp_path, row, train_seconds=1.0, valid_seconds=1.0, start_seconds=5.0, decode_seconds=1.0)
    one, four = costs.of(row), costs.of(row, workers=4)
    assert one.train and four.train == pytest.approx(one.train / 4)
    assert one.around and four.around == pytest.approx(5.0 + (one.around - 5.0) / 4) and one.around > 5.0
    assert (one.devices, four.devices, four.decode, four.basis) == (1, 4, one.decode, "estimated")
    assert costs.of(with_train(row, threads=3), workers=2).devices == 6, "cores"
    monkeypatch.setattr("orchestrator.cost.estimate.best_device", lambda: SimpleNamespace(type="cuda"))
    assert costs.of(with_train(row, threads=3), workers=2).devices == 2, "GPUs"


def test_the_nearest_probe_of_this_machine_stands_in(data: Data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of three probes at distances 5, 1 and 0.1 the last is of another machine. Its decoding is scaled by the decoder's weights."""
    base, near, away, row = rows()[:4]
    for each, seconds in ((base, 3.0), (near, 7.0), (away, 11.0)):
        costs = probed(data, tmp_path, each, train_seconds=seconds, decode_seconds=1.0, decode_weights=50.0, row_steps=10.0)
    keys = {probes.key_of(costs.conditions(each) or {}): name for each, name in ((base, "base"), (near, "near"), (away, "away"))}
    distances = {"base": 5.0, "near": 1.0, "away": 0.1}
    named = {id(probe["about"]): keys[key] for key, probe in costs.probes.items()}
    monkeypatch.setattr(estimates.probes, "distance", lambda mine, other: distances[named[id(other)]])
    monkeypatch.setattr(estimates.probes, "comparable", lambda mine, other: named[id(other)] != "away")
    found = costs.of(row)
    assert found.basis == "estimated" and found.probe is not None and keys[found.probe] == "near" and found.memory is None
    assert found.train == pytest.approx((found.flop or 0) * 7.0)
    ready = data.prepared(row.spec.data)
    assert ready is not None
    weights = work(spec_of(row).model, ready.src_size, ready.tgt_size).tgt
    assert found.decode == pytest.approx(Lengths().row_steps(ready, spec_of(row)) / 10 * weights / 50)


# ---------------------------------------------------------------- probes


def test_without_a_probe_no_time_is_told(data: Data, tmp_path: Path) -> None:
    cost = Costs(data, tmp_path).of(rows()[0])
    assert cost.basis == "not probed" and cost.updates == 6 and cost.flop == pytest.approx(6 * (cost.flop_update or 0)) and cost.flop
    assert (cost.seconds, cost.hours, cost.memory) == (None, None, None) and (cost.room or 0) > 10**8
    away = Costs(Data(None, tmp_path / "nothing"), tmp_path).of(rows()[0])
    assert (away.basis, away.flop, away.seconds) == ("not prepared", None, None)


def test_other_threads_and_precision_are_another_machine(data: Data, tmp_path: Path) -> None:
    row = rows()[0]
    costs = probed(data, tmp_path, row)
    for change in ({"threads": 2}, {"precision": "bf16"}):
        assert costs.of(with_train(row, **change)).basis == "not probed"
    assert costs.of(row.at(5)).basis == "probed", "a seed changes no cost"


def test_a_damaged_probe_is_none(data: Data, tmp_path: Path) -> None:
    probed(data, tmp_path, rows()[0])
    (path,) = (tmp_path / probes.FOLDER).glob("*.json")
    whole = json.loads(path.read_text())
    for text in ("", "[]", json.dumps(whole | {"measures": {}}), json.dumps(whole | {"key": "0" * 64})):
        path.write_text(text)
        assert probes.read_all(tmp_path) == {}


def test_architectures_are_probed_once_and_spread_over_the_rows(data: Data, tmp_path: Path) -> None:
    all_rows = rows()
    costs = probed(data, tmp_path, all_rows[0])
    chosen = [row for _, row in costs.choose([*all_rows, *(row.at(2) for row in all_rows)], 2)]
    assert 0 < len(chosen) <= 2 and chosen[0].id == all_rows[1].id
    assert [row.id for _, row in costs.choose(all_rows, 99)] == [row.id for row in all_rows[1:]]


# ---------------------------------------------------------------- sums

ONE = Cost("probed", 2, flop=10.0, train=3000.0, around=600.0, decode=1800.0)  # 2 hours of training, 1 of decoding


def planned(name: str, number: str | None, also: dict[str, str] | None = None, cost: Cost | None = None) -> Planned:
    """Training T<number>, decoding D.., score S..; `also`: name -> number of another decoding and score of it."""
    keys = Keys(number and f"T{number}", number and f"D{number}", number and f"S{number}")
    others = {each: Keys(keys.train, f"D{other}", f"S{number}{other}") for each, other in (also or {}).items()}
    return Planned(name, 1, keys, 1, "new", None, others, cost=cost)


def test_a_sum_has_hours_of_all_devices_and_no_seconds_of_scoring() -> None:
    found = Sum()
    for kind in ("train", "decode", "score", "score"):
        found.add(kind, ONE)
    found.add("train", None)
    found.add("decode", replace(ONE, decode=None))
    assert vars(found) == {"trainings": 2, "decodings": 2, "scorings": 2, "flop": 10.0, "hours": 3.0, "unknown": 2}


def test_totals_of_rows_with_several_scorings() -> None:
    """a and b share training 1 and its decodings; c starts from p; two rows lack their data."""
    made = [planned("p", "9", cost=ONE), planned("a", "1", {"x": "1", "y": "8"}, ONE), planned("b", "1", {"y": "8"}, ONE)]
    made += [planned("c", "2", cost=ONE), planned("n", None), planned("m", None)]
    found = totals(made, {"T1", "D1", "S1"})
    counts = {name: (each.trainings, each.decodings, each.scorings) for name, each in found.items()}
    # T1, T2, T9 and two unknown; D1, D8, D2, D9 and two; S1, S11, S18, S2, S9 and two
    assert counts == {"shared": (5, 6, 7), "done": (1, 1, 1), "left": (4, 5, 6)}
    assert found["done"].hours == 3.0 and found["left"].hours == 2 * 2.0 + 3 * 1.0
    assert found["shared"].flop == 30.0 and found["left"].unknown == 4


def test_what_a_diverged_training_never_does_is_neither_done_nor_left(tmp_path: Path) -> None:
    Ledger(tmp_path).write_train("ab" * 32, {"status": "diverged"})
    row = Planned("a/b/c", 1, Keys("ab" * 32, "cd" * 32, "ef" * 32), 1, "done")
    found = totals([row], _done([row], Ledger(tmp_path)), _never([row], Ledger(tmp_path)))
    assert {name: (each.trainings, each.decodings, each.scorings) for name, each in found.items()} == {
        "shared": (1, 0, 0), "done": (1, 0, 0), "left": (0, 0, 0),
    }  # fmt: skip


@pytest.mark.parametrize(("status", "done"), [("done", True), ("diverged", True), ("stopped", False), ("failed", False), (None, False)])
def test_what_of_a_row_is_done(tmp_path: Path, status: str | None, done: bool) -> None:
    """The first has a translation and no score, the second a score alone, which stays; the third has neither."""
    train, decode, score, other, last, absent, unscored = (text * 32 for text in ("ab", "cd", "ef", "01", "23", "45", "67"))
    ledger = Ledger(tmp_path)
    if status is not None:
        ledger.write_train(train, {"status": status})
    ledger.write_decode(train, decode, {}, ["a"])
    ledger.write_score(train, last, {"bleu": 1.0})
    row = Planned(
        "a/b/c", 1, Keys(train, decode, score), 1, "new", None, {"x": Keys(train, other, last), "y": Keys(train, absent, unscored)}
    )
    assert _done([row], ledger) == ({train, decode, other, last} if done else set())


def test_a_plan_has_costs_beside_its_rows_and_those_that_they_start_from(data: Data, tmp_path: Path) -> None:
    base, middle, last = rows()[:3]
    middle = replace(middle, parent=base, spec=spec_of(middle).model_copy(update={"init_from": base.id}))
    last = replace(last, parent=middle, spec=spec_of(last).model_copy(update={"init_from": middle.id}))
    made = plan([last], [1, 2], ledger=Ledger(tmp_path), data=data)
    add_costs(made, [last], Costs(data, tmp_path), Ledger(tmp_path))
    assert [each.id for each in made.parents] == 2 * [base.id, middle.id]
    assert all(each.cost is not None for each in (*made.parents, *made.rows)) and made.totals["shared"].trainings == 6
    assert made.as_json()["rows"][0]["cost"]["basis"] == "not probed"
    assert any("not probed; nmt-ablate plan --probe" in line for line in lines(made))


def test_a_cell_says_what_is_a_bound() -> None:
    assert short(Cost("not probed", 1, room=3 * 2**30))[3] == "<3G" and short(Cost("probed", 1, memory=2**30))[3] == "1G"
    assert short(replace(ONE, basis="estimated"))[2] == "~1 h 30 min"
