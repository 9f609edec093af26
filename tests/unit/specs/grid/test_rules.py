"""A grid's language against its meaning written out: conditions value by value, draws by their formula, keys that are set together."""

import hashlib
import math
from collections import Counter
from collections.abc import Callable

import pytest

from orchestrator import errors
from orchestrator.specs import table_file
from orchestrator.specs.grid.axes import holds
from orchestrator.specs.row import Row
from orchestrator.specs.rows import resolve
from tests.unit.conftest import MINIMAL

HEAD = MINIMAL.replace("table: small", "table: grid").replace("rows:", "rows: {base: {pinned: true}}\ngrid:")


@pytest.fixture
def rows(spec) -> Callable[[str], dict[str, Row]]:
    def made(text: str) -> dict[str, Row]:
        return {row.id.removeprefix("demo/grid/"): row for row in resolve(spec("", head=HEAD + text))[1:]}

    return made


@pytest.mark.parametrize(
    ("condition", "values"),
    [
        ({"n": {"at_least": 4}}, {4, 5, 6, 8}), ({"n": {"at_most": 4}}, {2, 3, 4}), ({"n": {"above": 4}}, {5, 6, 8}),
        ({"n": {"below": 4}}, {2, 3}), ({"n": {"at_least": 3, "below": 6}}, {3, 4, 5}), ({"n": {"not": 4}}, {2, 3, 5, 6, 8}),
        ({"n": {"not": [2, 8]}}, {3, 4, 5, 6}), ({"n": [2, 8]}, {2, 8}), ({"n": {"above": 3}, "b": True}, set()),
        ({"n": {"above": 3}, "b": False}, {4, 5, 6, 8}), ({"b": {"not": True}}, {2, 3, 4, 5, 6, 8}), ({"absent": "x"}, set()),
        ({"absent": {"not": "x"}}, set()),
    ],
)  # fmt: skip
def test_a_condition_holds_for_these_values(condition, values: set[int]) -> None:
    """Of n, where the axis b is false and the axis `absent` does not apply."""
    assert {n for n in (2, 3, 4, 5, 6, 8) if holds(condition, {"n": n, "b": False})} == values


def test_true_is_not_1_and_texts_and_booleans_are_no_numbers() -> None:
    assert [holds({"a": True}, {"a": value}) for value in (True, 1)] == [True, False]
    assert [holds({"a": 1}, {"a": value}) for value in (True, 1, 1.0)] == [False, True, True]
    assert [holds({"a": {"at_least": 1}}, {"a": value}) for value in (True, 1, "1")] == [False, True, False]


def test_the_first_exclusion_that_holds_counts_a_combination(spec) -> None:
    """Of 2, 4 and 6: the second condition is decided before the first, and 4 and 6 meet both."""
    text = "  axes:\n    a: {key: model.d_ff, grid: [2, 4, 6]}\n    b: {key: model.encoder.num_layers, grid: [2, 3]}\n  exclude:\n"
    text += "    - {when: {a: {above: 2}, b: 2}, reason: one}\n    - {when: {a: {above: 3}}, reason: two}\n"
    table = table_file.read(spec("", head=HEAD + text))
    assert table.grid is not None and set(table.grid.combinations) == {"a2-b2", "a2-b3"}
    counts = Counter(each.excluded for each in table.grid.found if each.excluded is not None)
    assert counts == {0: 2, 1: 2}, "with b 2 the first condition, with b 3 the second"


def drawn(axis: str, seed: int, sample: int, *others: str) -> float:
    """Between 0 and 1: the first 7 bytes of the sha256 of AXIS|SEED|SAMPLE|OTHER=VALUE.."""
    return int(hashlib.sha256("|".join((axis, str(seed), str(sample), *others)).encode()).hexdigest()[:14], 16) / 16**14


def test_draws_are_those_of_the_formula(rows: Callable[[str], dict[str, Row]]) -> None:
    """It names the rows, so that another formula would lose every row that was drawn."""
    text = """\
  samples: 4
  seed: 3
  axes:
    depth: {key: model.encoder.num_layers, grid: [2, 3]}
    drop: {key: model.dropout.embedding, loguniform: {low: 0.1, high: 0.9, digits: 3}}
    rate: {key: optim.label_smoothing, loguniform: {low: 0.001, high: 0.5, digits: 2}}
"""
    specs = [row.spec for row in rows(text).values()]
    found = [(s.model.encoder.num_layers, s.model.dropout.embedding, s.optim.label_smoothing) for s in specs]
    expected = []
    for depth in (2, 3):
        for sample in range(4):
            share = drawn("drop", 3, sample, f"depth={depth}")
            drop = float(f"{math.exp(math.log(0.1) + share * math.log(9)):.3g}")
            share = drawn("rate", 3, sample, f"depth={depth}", f"drop={drop:g}")
            rate = float(f"{math.exp(math.log(0.001) + share * math.log(500)):.2g}")
            expected.append((depth, drop, rate))
    assert found == expected and len({drop for _, drop, _ in found}) == 8


def test_a_rounded_draw_stays_in_its_range(rows: Callable[[str], dict[str, Row]]) -> None:
    """To one digit 0.25 to 0.29 would all be 0.3."""
    text = "  samples: 3\n  axes:\n    drop: {key: model.dropout.embedding, loguniform: {low: 0.26, high: 0.29, digits: 1}}\n"
    assert [row.spec.model.dropout.embedding for row in rows(text).values() if row.spec] == [0.29]


@pytest.mark.parametrize("first", ["whole", "one"])
def test_a_list_of_regularizers_and_one_of_their_options_are_two_settings_of_one_key(first: str, spec) -> None:
    axes = {
        "whole": "    whole: {key: model.regularizers, grid: {some: [{kind: diversity, weight: 0.5}]}}\n",
        "one": "    one: {key: model.regularizers.encoder_l2.weight, grid: [0.1]}\n",
    }
    text = "  axes:\n" + axes.pop(first) + "".join(axes.values())
    with pytest.raises(errors.UserError, match=r"sets model\.regularizers"):
        resolve(spec("", head=HEAD + text))


def test_regularizers_of_a_grid_stand_beside_the_rows_own_and_keep_their_options(spec) -> None:
    head = HEAD.replace("decoder: {num_layers: 2}", "decoder: {num_layers: 2}, regularizers: [{kind: diversity, weight: 0.5}]")
    text = "  axes:\n    l2: {key: model.regularizers.encoder_l2.weight, grid: [0.1]}\n"
    text += "    pair: {key: model.regularizers.diversity.weight, grid: [unset, 0.25]}\n"
    rows = resolve(spec("", head=head + text))[1:]
    found = [[(each["kind"], each["weight"]) for each in row.spec.model.regularizers] for row in rows if row.spec is not None]
    assert found == [[("diversity", 0.5), ("encoder_l2", 0.1)], [("diversity", 0.25), ("encoder_l2", 0.1)]]
