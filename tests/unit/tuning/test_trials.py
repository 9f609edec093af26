"""The trials of an arm: the row as written, then the drawn values in its spec."""

import pytest

from orchestrator.specs.row import Row
from orchestrator.specs.rows import resolve
from orchestrator.tuning.search import arms_of
from orchestrator.tuning.trials import Trial, points, trials_of
from tests.unit.conftest import refused
from tests.unit.tuning.conftest import tuning


def made(row: Row, **section: object) -> list[Trial]:
    found = tuning(**section)
    return trials_of(row, found, points(found.spec))


@pytest.mark.parametrize("sampler", ["sobol", "random"])
def test_every_arm_gets_the_same_draws_and_the_first_trial_is_as_written(rows: list[Row], sampler: str) -> None:
    base, low = (made(row, sampler=sampler) for row in rows)
    assert [trial.draws for trial in base] == [trial.draws for trial in low] and len(base) == 8
    assert base[0].draws == {} and base[0].row.spec == rows[0].spec and base[0].row.id == "demo/small/base@trial=0"
    for row, arm in zip(rows, (base, low), strict=True):
        for trial in arm[1:]:
            drawn = trial.draws["optim.schedule.lr"]
            assert 0.25 <= drawn < 4 and trial.row.spec.optim.schedule.lr == pytest.approx(row.spec.optim.schedule.lr * drawn, rel=1e-3)
    assert len({trial.draws.get("optim.schedule.lr") for trial in base}) == 8
    assert made(rows[0], sampler=sampler, draw_seed=2)[1].draws != base[1].draws


def test_an_own_key_is_drawn_only_for_arms_that_have_it(spec) -> None:
    schedule, connection = "optim: {schedule: {kind: inverse-sqrt, warmup: 2, lr: 0.001}}", "{kind: dwa, rate: 3.0}"
    rows = f"  base: {{{schedule}}}\n  weighted: {{{schedule}, model: {{encoder: {{connection: {connection}}}}}}}\n"
    base, weighted = resolve(spec(rows))
    own = {"rate": {"choice": [1.0, 5.0]}, "model.dropout.ffn": {"choice": [0.0, 0.2]}}
    plain, rated = (made(row, own=own) for row in (base, weighted))
    assert all("rate" not in trial.draws for trial in plain) and all("rate" in trial.draws for trial in rated[1:])
    assert {trial.changes["model.encoder.connection.rate"] for trial in rated[1:]} == {1.0, 5.0}
    assert [trial.draws["optim.schedule.lr"] for trial in plain[1:]] == [trial.draws["optim.schedule.lr"] for trial in rated[1:]]
    for trial in rated[1:]:
        assert trial.row.spec is not None and trial.row.spec.model.encoder.connection["rate"] == trial.draws["rate"]
        assert trial.row.spec.model.dropout.ffn == trial.draws["model.dropout.ffn"]


def test_a_factor_of_a_whole_number_is_a_whole_number(rows: list[Row]) -> None:
    arm = made(rows[0], space={"model.d_ff": {"factor": {"uniform": [0.01, 2.0]}}})
    widths = [trial.changes["model.d_ff"] for trial in arm[1:]]
    assert all(isinstance(width, int) and width >= 1 for width in widths) and len(set(widths)) > 3


@pytest.mark.parametrize(
    ("space", "words"),
    [
        ({"optim.schedule.lrr": {"uniform": [1, 2]}}, "tune.space.optim.schedule.lrr: demo/small/base has no such key"),
        ({"optim.schedule.lrr": {"uniform": [1, 2]}}, "did you mean optim.schedule.lr?"),
        ({"optim.kind": {"factor": {"uniform": [1, 2]}}}, "factor of 'adam' in demo/small/base; expected a key that holds a number"),
        ({"model.d_model": {"choice": [15, 17]}}, "not divisible by num_heads"),
        ({"batch.size": {"choice": ["a", "b"]}}, "batch.size"),
    ],
)
def test_a_value_that_does_not_fit_a_row_is_a_line(rows: list[Row], space: dict[str, object], words: str) -> None:
    lines = refused(made, rows[0], space=space)
    assert any(words in line for line in lines), lines


def test_an_own_key_that_no_arm_has_is_a_warning(rows: list[Row], capsys) -> None:
    arms_of(rows, tuning(own={"ratte": {"choice": [1, 3]}}))
    assert "tune.own.ratte: warning: no arm has this key" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["data.corpus", "decode.beam_size", "train.max_steps"])
def test_trials_share_their_validation_set_and_budget(name: str) -> None:
    with pytest.raises(ValueError, match=f"found the key {name}, which a search cannot compare"):
        tuning(space={name: {"choice": [1, 2]}})
