"""What a search decides: halving within each arm, the choice, its record and its warnings."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from orchestrator.cli.commands import tune
from orchestrator.cli.commands.request import Request
from orchestrator.errors import UserError
from orchestrator.ledger.results import Ledger
from orchestrator.report.find import Finder
from orchestrator.specs.row import Row, starts
from orchestrator.specs.schema import RunSpec
from orchestrator.sweeps.options import ExecutionOptions, RowOptions
from orchestrator.sweeps.plan import Data
from orchestrator.tuning import choice
from orchestrator.tuning.choice import record_of, tuned_row, used, with_chosen, write
from orchestrator.tuning.search import Search, arms_of
from orchestrator.tuning.trials import changed
from tests.unit.report.test_effects import finish
from tests.unit.tuning.conftest import RATES, Fake, tuning

BEST = 0.001


def bowl(spec: RunSpec, seed: int, step: int) -> float:
    """Lowest at a rate of BEST, and lower with each update."""
    return 10 + math.log(spec.optim.schedule.lr / BEST) ** 2 - step


def by(arm) -> dict[int, float]:
    """Trial -> distance of its rate to the best one."""
    return {trial.number: abs(math.log(trial.row.spec.optim.schedule.lr / BEST)) for trial in arm.trials}


def test_each_arm_is_halved_alone_and_its_written_trial_goes_on(searched: Callable[..., Any]) -> None:
    """`low` is worse than `base` in every trial that both draw; as many of its trials go on."""
    search, (base, low), fake = searched(lambda *at: bowl(*at) + 100 * (at[0].model.d_ff == 40), stop={"rungs": [1, 2]})
    for arm in (base, low):
        distance, going = by(arm), {trial.number for trial in arm.going}
        first = sorted(distance, key=lambda number: distance[number])[:4]
        kept = sorted({0, *first}, key=lambda number: distance[number])[: math.ceil(len({0, *first}) / 2)]
        assert going == {0, *kept} and 0 not in arm.ended
        assert set(arm.ended.values()) == {1, 2} and all(arm.ended[number] == 1 for number in set(distance) - {0, *first})
        for trial in arm.trials:
            steps = [search.ledger.read_train(key)["steps"] for key in search.keys(trial).values()]
            assert steps == [arm.ended.get(trial.number, 4)]
    assert len(fake.calls) == 3 and set(fake.calls[0].values()) == {1} and len(fake.calls[0]) == 16


def test_a_bad_written_trial_is_trained_to_its_end(searched: Callable[..., Any]) -> None:
    loss = lambda spec, seed, step: 9.0 if spec.optim.schedule.lr == 0.001 else 1.0  # noqa: E731
    search, (arm,), _ = searched(loss, names=["base"], stop={"rungs": [1]})
    assert search.statuses(arm.trials[0]) == ["done"] and len(arm.ended) == 3 and record_of(arm, search)["chosen"] != 0


def test_a_failed_run_ends_the_search_at_its_rung(rows: list[Row], tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("orchestrator.sweeps.preflight.check_metrics", lambda tasks: None)
    fake, options = Fake(Ledger(tmp_path), bowl), ExecutionOptions(results=tmp_path, name="demo")
    fail = lambda _, *given: [replace(one, outcome=replace(one.outcome, status="failed")) for one in fake(*given)]  # noqa: E731
    with pytest.raises(tune.typer.Exit) as end:
        tune.execute_tuned(rows, tuning(stop={"rungs": [1, 2]}), [1], options, fail)
    assert end.value.exit_code == 1 and len(fake.calls) == 1 and not list(tmp_path.glob("*/search/*"))


def test_a_trial_that_passed_a_rung_without_a_validation_is_refused(rows: list[Row], tmp_path) -> None:
    """Else halving would leave it out, and its arm would have a larger search than others."""
    fake = Fake(Ledger(tmp_path), bowl)

    def earlier(*given):  # trained before update 1 was a rung
        results = fake(*given)
        for path in tmp_path.glob("*/history.jsonl"):
            path.write_text("".join(path.read_text().splitlines(keepends=True)[1:]))
            (path.parent / "rungs" / "1.json").unlink()
        return results

    search = Search(tuning(stop={"rungs": [1]}), earlier, ExecutionOptions(results=tmp_path, name="demo"), fake.ledger)
    with pytest.raises(UserError, match="past update 1 without a validation"):
        search.run(arms_of(rows[:1], search.tuning))


def test_the_choice_is_by_the_mean_over_search_seeds(searched: Callable[..., Any]) -> None:
    """The first seed prefers the highest rate, the mean the lowest."""
    loss = lambda spec, seed, step: -spec.optim.schedule.lr if seed == 101 else 3 * spec.optim.schedule.lr  # noqa: E731
    search, (arm,), _ = searched(loss, names=["base"], seeds={"search": [101, 102], "judge": [1, 2]})
    rates = {trial.number: trial.row.spec.optim.schedule.lr for trial in arm.trials}
    record = record_of(arm, search)
    assert record["chosen"] == min(rates, key=lambda number: rates[number])
    assert record["trials"][0]["value"] == pytest.approx(rates[0]) and set(record["trials"][0]["runs"]) == {"101", "102"}
    other, (arm,), _ = searched(loss, names=["base"], seeds={"search": [101], "judge": [1, 2]})
    assert record_of(arm, other)["chosen"] == max(rates, key=lambda number: rates[number])


def test_a_trial_that_diverges_is_never_chosen(searched: Callable[..., Any]) -> None:
    """It is the best until it diverges, with one of two seeds."""
    fast = lambda spec, seed, step: None if spec.optim.schedule.lr > 0.002 and seed == 102 and step > 2 else 1 - spec.optim.schedule.lr  # noqa: E731
    seeds = {"search": [101, 102], "judge": [1]}
    for stop in (None, {"rungs": [1]}):
        search, (arm,), _ = searched(fast, names=["base"], seeds=seeds, stop=stop)
        record = record_of(arm, search)
        diverged = [each["number"] for each in record["trials"] if "diverged" in each["statuses"]]
        assert diverged and record["chosen"] not in diverged
        assert all(record["trials"][number]["value"] is None for number in diverged)
        assert f"{8 - len(diverged)} of 8 trials ended well" in choice.warnings(record)


def test_a_trial_that_diverged_takes_no_place_at_a_rung(searched: Callable[..., Any]) -> None:
    """Rates over .002 are the best until they diverge before the rung."""

    def loss(spec: RunSpec, seed: int, step: int) -> float | None:
        rate = spec.optim.schedule.lr
        return 5 - 1000 * rate if rate < 0.002 else None if step > 1 else 0.0

    search, (arm,), _ = searched(loss, names=["base"], stop={"rungs": [3], "reduction_factor": 4.0})
    rates = {trial.number: trial.row.spec.optim.schedule.lr for trial in arm.trials}
    assert rates[record_of(arm, search)["chosen"]] == max(rate for rate in rates.values() if rate < 0.002)


def test_tuned_rows_are_compared_as_written_and_what_has_no_search_is_named(rows: list[Row], searched: Callable[..., Any], capsys) -> None:
    search, (low,), _ = searched(bowl, names=["low"], stop={"rungs": [1]})
    record = record_of(low, search)
    write(search.ledger, record)
    earlier = record | {"trials": [{name: each[name] for name in each if name != "scores"} for each in record["trials"]]}
    said = [any("finished trials have no scores" in line for line in choice.notes({"demo/small/low": each})) for each in (record, earlier)]
    assert said == [False, True] and choice.scores_of(earlier) == choice.scores_of(record)
    _, tuned = Request.of(rows[0].source_file, RowOptions(results=search.ledger.root)).families()
    assert [row.compare_with for row in tuned.rows] == ["demo/small/base"] and not starts(tuned.rows)
    assert "demo/small: tuned verdicts leave out base, which the search did not tune" in capsys.readouterr().err


def test_a_trial_has_the_value_at_the_rung_and_of_the_weights_that_translate(searched: Callable[..., Any]) -> None:
    """The rung may have no record, and the best weights (lowest nll at a validation, not at a rung) not the best accuracy."""
    search, (base,), _ = searched(bowl, names=["base"], select="valid/accuracy")
    (key,), trial = search.keys(base.trials[0]).values(), base.trials[0]
    reports = [{"step": step, "valid/nll": nll, "valid/accuracy": right} for step, nll, right in ((1, 3, 0.5), (2, 2, 0.4), (4, 1, 0.6))]
    (search.ledger.run_dir(key) / "history.jsonl").write_text("".join(json.dumps(each) + "\n" for each in reports))
    search.ledger.write_train(key, {"status": "done", "steps": 4, "best_step": 2, "seconds": 2.0, "reason": ""})
    best = replace(trial, row=changed(trial.row, {"decode.checkpoint": "best"}, trial.row.id))
    assert [search.final(best), search.final(trial)] == [0.4, 0.6] and [search.at_rung(trial, n) for n in (1, 3, 9)] == [0.5, None, 0.6]


def test_the_tables_of_a_command_have_its_own_search(rows: list[Row], searched: Callable[..., Any], tmp_path, cli) -> None:
    for trials in (2, 3):
        search, (base,), _ = searched(bowl, names=["base"], trials=trials)
        write(search.ledger, record_of(base, search))
    (tmp_path / "with.yaml").write_text(json.dumps({"tune": {"space": RATES, "trials": 2}}))
    options = RowOptions(results=search.ledger.root, tune_with=tmp_path / "with.yaml")
    _, tuned = Request.of(rows[0].source_file, options).families()
    assert len(tuned.searches[rows[0].id]["trials"]) == 2
    for words, trials in (((), 3), (("--tune-with", tmp_path / "with.yaml"), 2)):
        code, out, _ = cli("table", rows[0].source_file, "--results", search.ledger.root, *words)
        assert code == 0 and f"tuned: {trials} trials of each row" in out


def test_an_arm_without_a_good_trial_stays_as_written(searched: Callable[..., Any], rows: list[Row]) -> None:
    search, (arm,), _ = searched(lambda *at: None, names=["base"])
    record = record_of(arm, search)
    assert record["chosen"] is None and choice.warnings(record) == ["no trial ended well: the row stays as it is written"]
    assert choice.apply(rows[0], record).spec == rows[0].spec


def test_warnings_name_the_edge_and_an_improvement_at_the_end(searched: Callable[..., Any]) -> None:
    values = {0: 3.0, 1: 2.0, 2: 2.5, 3: 2.2}

    def found(chosen: int, drawn: float) -> list[str]:
        trials = [{"value": value, "ended": None, "draws": {"optim.schedule.lr": drawn}} for value in values.values()]
        return choice.warnings({"trials": trials, "chosen": chosen, "tune": choice.plain(tuning(trials=4).spec)})

    assert found(1, 1.0) == []
    assert found(1, 3.9) == ["optim.schedule.lr: the best factor, 3.9, lies on the edge of its space (highest)"]
    assert found(1, 0.26) == ["optim.schedule.lr: the best factor, 0.26, lies on the edge of its space (lowest)"]
    assert found(3, 1.0) == ["the last trial was the best: more trials may find a better one"]
    search, (base, _), _ = searched(lambda spec, seed, step: -spec.optim.schedule.lr)
    assert any("edge of its space (highest)" in line for line in choice.warnings(record_of(base, search)))


def test_the_record_gives_the_tuned_row_and_a_damaged_one_is_absent(searched: Callable[..., Any], rows: list[Row]) -> None:
    search, arms, _ = searched(bowl)
    for arm in arms:
        write(search.ledger, record_of(arm, search))
    finder = Finder(search.ledger, Data(None))
    found = used(rows, finder, search.spec)
    assert list(found) == [row.id for row in rows] and all(each["tune"] == choice.plain(search.spec) for each in found.values())
    for arm, row in zip(arms, rows, strict=True):
        best = min(arm.trials, key=lambda trial: by(arm)[trial.number])
        assert with_chosen(row, found[row.id]).spec == best.row.spec
    assert tuned_row(rows[1], finder, None).id == "demo/small/low@tuned"
    key = search.keys(arms[1].trials[0])[101]
    (path,) = (search.ledger.run_dir(key) / "search").glob("*.json")
    path.write_text(path.read_text().replace('"chosen"', '"choice"'))
    with pytest.raises(UserError, match="low@tuned: no search has tuned this row"):
        tuned_row(rows[1], Finder(Ledger(search.ledger.root), Data(None)), None)


def test_what_trials_with_equal_values_share_counts_once(searched: Callable[..., Any]) -> None:
    search, (arm,), _ = searched(bowl, names=["base"], space={"optim.schedule.lr": {"choice": [0.002, 0.003]}})
    assert len((record := record_of(arm, search))["trials"]) == 8 and (record["updates"], record["seconds"]) == (3 * 4, 3 * 2.0)


def test_writing_the_same_search_again_keeps_its_record(searched: Callable[..., Any], rows: list[Row]) -> None:
    search, (arm, _), _ = searched(bowl)
    record = record_of(arm, search)
    older = record["tune"] | {"seeds": {"search": [101], "judge": [1, 2, 3]}}
    write(search.ledger, record | {"tune": older, "key": record["key"][::-1]})
    write(search.ledger, record | {"time": record["time"] + 100})
    (kept,) = search.ledger.records(search.keys(arm.trials[0])[101], "search")
    assert kept["time"] == record["time"] and list(used(rows, Finder(search.ledger, Data(None)), search.spec)) == [arm.row.id]
    write(search.ledger, record | {"tune": older | {"trials": 9}, "key": "e" * 64, "time": record["time"] + 200})
    write(search.ledger, record | {"time": record["time"] + 300})  # the same search again, after another one: it is the latest
    assert used(rows, Finder(search.ledger, Data(None)), None)[arm.row.id]["time"] == record["time"] + 300


def test_search_seeds_are_no_results(rows: list[Row], searched: Callable[..., Any]) -> None:
    search, _, _ = searched(bowl)
    for seed in (1, 2, 9):
        finish(search.ledger, rows[0], seed, 0.6)
    finder = Finder(search.ledger, Data(None))
    assert [found.seed for found in finder.outcomes(rows[0])] == [1, 2, 9], "nor is the search seed of the row as written"
    assert [found.seed for found in finder.without([1, 101]).outcomes(rows[0], [1, 2])] == [2, 9]
    assert [found.seed for found in finder.outcomes(rows[0])] == [1, 2, 9]
