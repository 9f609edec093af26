"""The section `tune`: what is read, and one line for each mistake."""

import math

import pytest

from orchestrator.specs.index import find
from orchestrator.specs.rows import resolve
from orchestrator.specs.tune import Draw, TuneSpec
from tests.unit.conftest import MINIMAL, refused

ROW = "  base: {}\ntune:\n"
RATE = "  space: {optim.schedule.lr: {factor: {loguniform: [0.5, 2.0]}}}\n"
LINES = MINIMAL.count("\n") + 1
"""Lines before the section `tune`, with the row."""


def test_a_section_is_read_and_has_defaults(spec) -> None:
    path = spec(f"{ROW}{RATE}  own: {{rate: {{choice: [1, 3]}}}}\n")
    resolve(path)
    found = find(str(path)).table.head.tune
    assert found is not None and (found.trials, found.select, found.sampler, found.stop) == (8, "valid/nll", "sobol", None)
    assert list(found.draws) == ["optim.schedule.lr", "rate"] and found.seeds.search == [101] and found.seeds.judge == [1, 2, 3]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (RATE + "  trails: 4\n", 3, "tune.trails: unknown key; expected one of"),
        (RATE + "  trials: 1\n", 3, "tune.trials: found 1"),
        (RATE + "  sampler: sobal\n", 3, "did you mean sobol?"),
        (RATE + "  select: valid/bleu\n", 3, "tune.select: found 'valid/bleu'"),
        (RATE + "  seeds: {search: [1], judge: [1, 2]}\n", 3, "judge [1] are seeds of the search"),
        (RATE + "  seeds: {judge: [2, 2]}\n", 3, "[2, 2], which are not distinct"),
        (RATE + "  stop: {rungs: [4, 2]}\n", 3, "[4, 2], which do not increase"),
        (RATE + "  stop: {rungs: [2], reduction_factor: 1}\n", 3, "reduction_factor"),
        ("  trials: 4\n", 1, "space is missing"),
        (RATE + "  own: {optim.schedule.lr: {choice: [1, 2]}}\n", 2, "own has optim.schedule.lr, which space has too"),
        ("  space: {batch.size: {}}\n", 2, "found nothing; expected one of choice, uniform, loguniform, factor"),
        ("  space: {batch.size: {choice: [1, 2], uniform: [1, 2]}}\n", 2, "found choice, uniform"),
        ("  space: {batch.size: {loguniform: [0, 2]}}\n", 2, "expected positive bounds"),
        ("  space: {batch.size: {uniform: [2, 1]}}\n", 2, "[2.0, 1.0], which do not increase"),
        ("  space: {batch.size: {choise: [2, 1]}}\n", 2, "did you mean choice?"),
        ("  space: {batch.size: {factor: {factor: {choice: [1, 2]}}}}\n", 2, "factor holds another factor"),
    ],
)
def test_a_mistake_is_one_line_with_its_place(spec, text: str, line: int, words: str) -> None:
    (found,) = refused(resolve, spec(ROW + text))
    assert words in found and f"spec.yaml:{LINES + line}:" in found, found


def test_values_of_a_draw_lie_within_it_and_are_rounded_and_edges_are_known() -> None:
    draw = Draw(factor=Draw(loguniform=[0.5, 2.0]))
    assert [draw.value(point) for point in (0.0, 0.5, 1.0)] == [0.5, 1.0, 2.0] and draw.value(0.3) == 0.7579
    assert [Draw(choice=["a", "b"]).value(point) for point in (0.0, 0.49, 0.5, 1.0)] == ["a", "a", "b", "b"]
    edges = lambda values, **draw: [Draw(**draw).edge(value) for value in values]  # noqa: E731
    assert edges([0.55, 1.0], loguniform=[0.5, 2.0]) == ["lowest", None] and edges([0.95], uniform=[0.0, 1.0]) == ["highest"]
    assert edges([5, 3], choice=[1, 3, 5]) == ["highest", None] and edges([0.5], factor=Draw(uniform=[0.5, 1.5])) == ["lowest"]
    assert edges([0.1], choice=[0.0, 0.1]) == edges(["a"], choice=["a", "b", "c"]) == [None]
    assert edges([0.0], choice=[0.0, 0.1, 0.2]) == [None], "nothing is below"


def test_the_budget_of_a_search() -> None:
    """8 trials of 100 updates: 8 x 25 + 5 x 25 + 4 x 50 updates, with the written trial beside the kept ones; for each search seed."""
    space = {"optim.schedule.lr": Draw(factor=Draw(uniform=[0.5, 2.0]))}
    stop = {"rungs": [25, 50, 100], "reduction_factor": 2}
    spec = TuneSpec.model_validate({"space": space, "seeds": {"search": [101, 102]}, "stop": stop})
    assert math.isclose(spec.trainings(100), 2 * (8 * 25 + 5 * 25 + 4 * 50) / 100) and spec.trainings(None) == 16
