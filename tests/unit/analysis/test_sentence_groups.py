"""BLEU of groups of sentences: by length of the source, and by difficulty (Wei et al. 2020, Eq. 14-15)."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from orchestrator.analysis.kinds import sentence_groups
from orchestrator.analysis.kinds.sentence_groups import QUARTILES, difficulty, grouped, length, quartiles
from orchestrator.errors import UserError
from orchestrator.ledger.run_files import Store
from tests.unit.analysis.conftest import drawn


def test_groups_hold_each_sentence_once() -> None:
    lengths = [0, 15, 16, 30, 31, 45, 46, 200, 15]
    found = dict(grouped(lengths, [15, 30, 45]))
    assert found == {"<=15": [0, 1, 8], "16-30": [2, 3], "31-45": [4, 5], ">45": [6, 7]}


def test_a_group_is_scored_by_itself(lab) -> None:
    made = length(lab.context("length", "base", "hier", options=["edges=6,9"]))
    bleu = {(r["row"].rpartition("/")[2], r["group"]): r["bleu"] for r in made.records}
    assert bleu["base", "<=6"] == bleu["hier", "<=6"] == bleu["hier", "7-9"] == 100.0
    assert bleu["base", "7-9"] < 100.0 and bleu["hier", ">9"] < 100.0
    delta = {(r["row"].rpartition("/")[2], r["group"]): r["delta"] for r in made.records}
    assert delta["hier", "7-9"] == pytest.approx(100.0 - bleu["base", "7-9"], abs=1e-3) and delta["base", "7-9"] == 0.0


@pytest.mark.parametrize("edges", ["15,15", "30,15", "0,4", "a", "3,,4", ""])
def test_edges_that_cannot_be(lab, edges: str) -> None:
    with pytest.raises(UserError, match=r"edges|no value"):
        length(lab.context("length", "base", options=[f"edges={edges}"]))


def with_snapshots(lab, name: str, count: int, noise: float = 0.3) -> None:
    """Snapshots of a row: its weights, each with other noise."""
    subject = lab.subject(name)
    store = Store(lab.ledger.run_dir(subject.train_key), subject.train_key)
    weights = store.weights("last")
    for step in range(1, count + 1):
        generator = torch.Generator().manual_seed(step)
        store.save_snapshot(step, {n: w + noise * torch.randn(w.shape, generator=generator) for n, w in sorted(weights.items())}, count)


def test_quartiles_are_sorted_by_score_and_hold_each_sentence_once() -> None:
    scores = np.array([5.0, 1.0, 4.0, 2.0, 3.0, 0.0, 6.0, 9.0, 8.0, 7.0])
    found = quartiles(scores)
    assert found == [[1, 3, 5], [0, 2, 4], [6, 9], [7, 8]]
    assert quartiles(np.zeros(6)) == [[0, 1], [2, 3], [4], [5]], "equal scores stay in their order"
    assert quartiles(np.zeros(2)) == [[0], [1], [], []]


def test_quartiles_of_the_test_set(own) -> None:
    with_snapshots(own, "base", 3)
    context = own.context("difficulty", "base", "hier", "iter")
    made = difficulty(context)
    assert [r["group"] for r in made.records[:5]] == [*QUARTILES, "all"] and len(made.records) == 15
    for name in QUARTILES:
        cells = {r["label"]: r for r in made.records if r["group"] == name}
        assert {r["sentences"] for r in cells.values()} == {10} and cells["iterative"]["bleu"] == 100.0
        assert cells["iterative"]["delta"] == pytest.approx(100.0 - cells["baseline"]["bleu"]) and cells["baseline"]["delta"] == 0.0
    base = made.records[:4]
    assert all(a["score_high"] <= b["score_low"] for a, b in pairwise(base))
    known = own.score("base")
    assert made.records[4]["bleu"] == pytest.approx(known["bleu"], abs=1e-4) and made.records[4]["sentences"] == known["sentences"]
    assert any("K = 3, not 20" in note for note in made.notes)
    scored = context.subjects[0], list(context.snapshots(context.subjects[0]).values())
    each = np.stack([sentence_groups._difficulty(context, scored[0], [path]) for path in scored[1]])
    assert sentence_groups._difficulty(context, *scored) == pytest.approx(each.mean(0) + each.std(0)), "one snapshot has no deviation"
    assert [len(line.get_xdata()) for line in drawn(made).axes[0].lines] == [4] * 3


def test_without_snapshots_it_says_what_is_needed(own) -> None:
    with pytest.raises(UserError, match=r"demo/small/base: found no snapshots .*--set train.snapshots=20") as caught:
        difficulty(own.context("difficulty", "base", "hier"))
    assert len(caught.value.lines) == 1


def test_a_reference_without_positions_or_a_damaged_snapshot_is_told(own, monkeypatch) -> None:
    with_snapshots(own, "base", 1)
    with monkeypatch.context() as patch, pytest.raises(UserError, match=r"base: test has a sentence beyond the learned positions"):
        patch.setattr(sentence_groups, "reference_nll", lambda *given: None)
        difficulty(own.context("difficulty", "base"))
    (path,) = (own.ledger.run_dir(own.subject("base").train_key) / "snapshots").glob("*.safetensors")
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(UserError, match=r"step-00000001.safetensors: "):
        difficulty(own.context("difficulty", "base"))
