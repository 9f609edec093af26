"""Costs worked out by hand: device-hours, what each part of an estimate scales with, probes, sums over a plan."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from orchestrator.cost.estimate import FOLDER, Cost, Costs
from orchestrator.cost.flops import work
from orchestrator.cost.plan_costs import lines, short, totals
from orchestrator.cost.work import Lengths
from orchestrator.data.prepare import prepare
from orchestrator.ledger.keys import Keys
from orchestrator.ledger.results import Ledger
from orchestrator.specs.row import Row
from orchestrator.specs.rows import resolve
from orchestrator.sweeps.plan import Data, Planned, plan

NOTHING = {"rate": 0.0, "update": 1.0, "memory": 123}
"""A probe on a machine that takes no time for anything."""


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Data:
    found = Data(None, tmp_path_factory.mktemp("cache"))
    prepare(rows()[0].spec.data, None, found.cache_dir or Path())
    return found


def rows() -> list[Row]:
    return resolve("modern/depth", profile="smoke")[:4]


def with_train(row: Row, **changes) -> Row:
    return replace(row, spec=row.spec.model_copy(update={"train": row.spec.train.model_copy(update=changes)}))


def probed(data: Data, place: Path, row: Row, **measures: float) -> Costs:
    costs = Costs(data, place)
    about = costs.conditions(row)
    costs.write(about, NOTHING | measures)
    return Costs(data, place)


def test_each_part_of_an_estimate_scales_with_what_it_is_of(data: Data, tmp_path) -> None:
    """7 updates, a validation after 2, 4, 6 and at the end."""
    row = with_train(rows()[0], max_steps=7, max_epochs=None, validate_every=2)
    ready = data.prepared(row.spec.data)
    model, lengths = work(row.spec.model, ready.src_size, ready.tgt_size), Lengths()
    update = model.training(lengths.training(row.spec, ready).tokens)
    valid = model.forward(lengths.split(ready, "valid"))
    costs = probed(data, tmp_path, row, rate=1 / update)
    found = costs.of(row)
    assert (found.train, found.around, found.flop) == tuple(map(pytest.approx, (7.0, 4 * valid / update, 7 * update)))
    assert (found.memory, found.updates) == (123, 7)
    told = found.as_json()
    assert found.seconds is not None and told["device_hours"] == round(found.seconds / 3600, 6)
    assert told["seconds"]["all"] == round(found.seconds, 3)
    assert costs.of(row.at(5)) == found, "a seed changes no cost"


def test_several_workers_share_updates_and_validations(data: Data, tmp_path, monkeypatch) -> None:
    row = rows()[0]
    costs = probed(data, tmp_path, row, rate=1e-6)
    one, four = costs.of(row), costs.of(replace(row, workers=4))
    assert one.train and four.train == pytest.approx(one.train / 4) and one.around and four.around == pytest.approx(one.around / 4)
    assert (one.devices, four.devices, four.basis) == (1, 4, "estimated")
    assert costs.of(replace(with_train(row, threads=3), workers=2)).devices == 6, "cores"
    monkeypatch.setattr("orchestrator.cost.estimate.best_device", lambda: SimpleNamespace(type="cuda"))
    assert costs.of(replace(with_train(row, threads=3), workers=2)).devices == 2, "GPUs"


def test_the_nearest_probe_of_this_machine_stands_in(data: Data, tmp_path) -> None:
    """By the operations of an update."""
    far, near, elsewhere, row = rows()[:4]
    update = Costs(data, tmp_path).of(row).flop_update or 0
    probed(data, tmp_path, far, rate=3.0, update=update / 3)
    probed(data, tmp_path, with_train(elsewhere, threads=2), rate=11.0, update=update)
    costs = probed(data, tmp_path, near, rate=7.0, update=update * 2)
    found = costs.of(row)
    assert found.basis == "estimated" and found.memory is None and found.train == pytest.approx((found.flop or 0) * 7.0)
    assert costs.of(with_train(row, precision="bf16")).basis == "not probed"


def test_without_a_probe_no_time_is_told(data: Data, tmp_path) -> None:
    cost = Costs(data, tmp_path).of(rows()[0])
    assert cost.basis == "not probed" and cost.updates == 6 and cost.flop == pytest.approx(6 * (cost.flop_update or 0)) and cost.flop
    assert (cost.seconds, cost.as_json()["device_hours"], cost.memory) == (None, None, None) and (cost.room or 0) > 10**8
    away = Costs(Data(None, tmp_path / "nothing"), tmp_path).of(rows()[0])
    assert (away.basis, away.flop, away.seconds) == ("not prepared", None, None)


def test_a_damaged_probe_is_none(data: Data, tmp_path) -> None:
    probed(data, tmp_path, rows()[0])
    (path,) = (tmp_path / FOLDER).glob("*.json")
    whole = json.loads(path.read_text())
    for text in ("", "[]", json.dumps(whole | {"measures": {}}), json.dumps(whole | {"key": "0" * 64})):
        path.write_text(text)
        assert Costs(data, tmp_path).of(rows()[0]).basis == "not probed"


def test_architectures_are_probed_once_and_spread_over_the_rows(data: Data, tmp_path) -> None:
    all_rows = rows()
    row, costs = all_rows[0], Costs(data, tmp_path)
    optims = [row.spec.optim.model_copy(update=change) for change in ({"clip_norm": 1.0}, {"clip_norm": 0.0}, {"ema": 0.9})]
    assert len(costs.choose([replace(row, spec=row.spec.model_copy(update={"optim": optim})) for optim in optims], 9)) == 3
    costs = probed(data, tmp_path, all_rows[0])
    chosen = [row for _, row in costs.choose([*all_rows, *(row.at(2) for row in all_rows)], 2)]
    assert 0 < len(chosen) <= 2 and chosen[0].id == all_rows[1].id
    assert [row.id for _, row in costs.choose(all_rows, 99)] == [row.id for row in all_rows[1:]]


# ---------------------------------------------------------------- sums

ONE = Cost("probed", 2, flop=10.0, train=3000.0, around=600.0)  # 2 hours
UNKNOWN = Cost("not probed", 1)


def planned(name: str, number: str | None, also: dict[str, str] | None = None, **ledger) -> Planned:
    """Training T<number>, decoding D.., score S..; `also`: name -> number of another decoding and score of it."""
    keys = Keys(number and f"T{number}", number and f"D{number}", number and f"S{number}")
    others = {each: Keys(keys.train, f"D{other}", f"S{number}{other}") for each, other in (also or {}).items()}
    return Planned(name, 1, keys, 1, "new", None, others, **ledger)


def counts(runs: list[Planned]) -> dict[str, tuple[int, int, int]]:
    return {name: (s.trainings, s.decodings, s.scorings) for name, s in totals(runs, dict.fromkeys((r.id for r in runs), ONE)).items()}


def test_totals_of_rows_with_several_scorings() -> None:
    """a and b share training 1 and its decodings, of which a has its own; c starts from p; two rows lack their data."""
    made = [planned("p", "9"), planned("a", "1", {"x": "1", "y": "8"}, trained="done", scored=("",))]
    made += [planned("b", "1", {"y": "8"}, trained="done"), planned("c", "2"), planned("n", None), planned("m", None)]
    # T1, T2, T9 and two unknown; D1, D8, D2, D9 and two; S1, S11, S18, S2, S9 and two
    assert counts(made) == {"shared": (5, 6, 7), "done": (1, 1, 1), "left": (4, 5, 6)}
    found = totals(made, dict.fromkeys("pabc", ONE) | dict.fromkeys("nm", UNKNOWN))
    assert found["done"].hours == 2.0 and found["left"].hours == 2 * 2.0
    assert found["shared"].flop == 30.0 and found["left"].unknown == 2


@pytest.mark.parametrize(("status", "trained"), [("done", 1), ("stopped", 0), ("failed", 0), (None, 0)])
def test_what_of_a_run_is_done(status: str | None, trained) -> None:
    """A score of a training that is not done does not count."""
    (done, left) = (counts([planned("a", "1", {"x": "2"}, trained=status, scored=("x",))])[name] for name in ("done", "left"))
    assert done == (trained, trained, trained) and left == (1 - trained, 2 - trained, 2 - trained)


def test_a_diverged_training_is_never_decoded() -> None:
    assert counts([planned("a", "1", trained="diverged")]) == {"shared": (1, 0, 0), "done": (1, 0, 0), "left": (0, 0, 0)}


def test_a_plan_has_costs_of_its_rows_and_those_that_they_start_from(data: Data, tmp_path) -> None:
    base, middle, last = rows()[:3]
    middle = replace(middle, parent=base, spec=middle.spec.model_copy(update={"init_from": base.id}))
    last = replace(last, parent=middle, spec=last.spec.model_copy(update={"init_from": middle.id}))
    made = plan([last], [1, 2], ledger=Ledger(tmp_path), data=data)
    found = Costs(data, tmp_path).of_all([last])
    assert [each.id for each in made.parents] == 2 * [base.id, middle.id] and set(found) == {base.id, middle.id, last.id}
    sums = totals(made.every, found)
    assert sums["shared"].trainings == 6
    assert any("not probed; nmt-ablate plan --probe" in line for line in lines(sums, found.values()))
    assert short(replace(found[last.id], memory=12 * 10**9))[3] == "12.0 GB", "12G of --resources"
