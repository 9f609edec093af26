"""A training's updates, validations, choices and figures, each against its definition written out by hand."""

import json
import math

import pytest
import torch

from models.initialise import stream_seed
from models.transformer import build
from orchestrator.data.batching import Batches
from orchestrator.ledger.run_files import Store
from orchestrator.ledger.weights import weights_sha256
from orchestrator.specs.schema import BatchSpec, TrainSpec
from orchestrator.training.batches import Update, UpdateLoader, total_steps
from orchestrator.training.metrics import Meter
from orchestrator.training.objective import Objective, Validator
from orchestrator.training.runtime import Runtime
from orchestrator.training.state import Progress
from tests.unit.training.support import KEY, OFF, SPEC, Recorder, changed, fit, small_pairs

BOS, EOS = 2, 3
B1, B2, EPS, CLIP, SMOOTHING, WEIGHT, SEED = 0.8, 0.95, 1e-3, 0.1, 0.2, 0.3, 2
STEPS, FIRST = 6, 3
"""Updates in all, and those before the restart."""

TWO_PHASES = changed(
    model={"dropout": OFF, "regularizers": [{"kind": "diversity", "weight": WEIGHT, "sides": "encoder"}]},
    batch={"unit": "tokens", "size": 120, "accumulate": 3},
    optim={
        "betas": [B1, B2],
        "eps": EPS,
        "clip_norm": CLIP,
        "label_smoothing": SMOOTHING,
        "schedule": {"kind": "noam", "factor": 0.5, "warmup": 2, "lr": None},
        "restart": {
            "after_steps": FIRST,
            "schedule": {"kind": "inverse-sqrt", "lr": 1e-2, "warmup": 2},
            "batch": {"unit": "sentences", "size": 4, "accumulate": 2},
        },
    },
    train={"max_steps": STEPS, "validate_every": 100, "snapshots": 0},
).model_copy(update={"seed": SEED})


def rate_by_hand(step):
    """noam (Vaswani et al. 2017, Eq. 3), then after the restart a clock that starts again, linear to the rate and falling by the root."""
    if step <= FIRST:
        return 0.5 / math.sqrt(16) * min(step**-0.5, step * 2**-1.5)
    t = step - FIRST
    return 1e-2 * t / 2 if t <= 2 else 1e-2 * math.sqrt(2 / t)


def tensors(pairs, indices):
    """(sources with EOS, targets behind BOS, targets with EOS), padded with 0."""
    sides = [[list(map(int, side)) for side in pairs[int(i)]] for i in indices]
    parts = [[*s, EOS] for s, _ in sides], [[BOS, *t] for _, t in sides], [[*t, EOS] for _, t in sides]
    return [torch.tensor([row + [0] * (max(map(len, rows)) - len(row)) for row in rows]) for rows in parts]


def gradients_by_hand(model, pairs, group):
    """Of the update's loss: smoothed cross entropy per target token of the update plus weight x mean of cos^2 - 1 over its source words."""
    batches = [tensors(pairs, indices) for indices in group]
    tokens, words = (sum(int((batch[side] != 0).sum()) for batch in batches) for side in (2, 0))
    loss = torch.zeros(())
    for src, tgt_in, tgt_out in batches:
        output = model(src, tgt_in)
        gold, real = tgt_out[tgt_out != 0], output.real_hidden()
        log_p = model.logits(real).log_softmax(-1)
        q = torch.full_like(log_p, SMOOTHING / (log_p.shape[1] - 1)).scatter(1, gold[:, None], 1 - SMOOTHING)
        loss = loss - (q * log_p).sum() / tokens
        one, two = (h[output.src_mask] for h in output.encoder.outputs[1:3])
        cosine = (one * two).sum(-1) / (one.norm(dim=-1) * two.norm(dim=-1))
        loss = loss + WEIGHT * (cosine**2 - 1).sum() / words
    return torch.autograd.grad(loss, list(model.parameters()))


def test_a_training_is_adam_on_the_loss_of_the_rows_own_updates(prepared, tmp_path):
    recorder = Recorder()
    result = fit(TWO_PHASES, prepared, tmp_path / "run", recorder)

    pairs = prepared.pairs("train")
    model = build(TWO_PHASES.model.model_dump(), prepared.src_size, prepared.tgt_size, SEED).train()
    parameters = list(model.parameters())
    plain = {"unit": "tokens", "size": 120}, {"unit": "sentences", "size": 4}
    orders = [Batches(pairs, BatchSpec(**batch), stream_seed(SEED, "data")).epoch(epoch) for epoch, batch in enumerate(plain)]
    for step in range(1, STEPS + 1):
        if step in (1, FIRST + 1):  # a restart leaves the broken-off epoch and forgets the moments
            first = [torch.zeros_like(p) for p in parameters]
            second = [torch.zeros_like(p) for p in parameters]
            order, size, t = (orders[0], 3, 0) if step == 1 else (orders[1], 2, 0)
        group, t = order[t * size : (t + 1) * size], t + 1
        gradients = gradients_by_hand(model, pairs, group)
        norm = math.sqrt(sum(float((g.double() ** 2).sum()) for g in gradients))
        assert norm > CLIP, "clipping is at work"
        for p, m, v, g in zip(parameters, first, second, gradients, strict=True):
            g = g * (CLIP / norm)
            m.mul_(B1).add_((1 - B1) * g)
            v.mul_(B2).add_((1 - B2) * g * g)
            with torch.no_grad():
                p -= rate_by_hand(step) * (m / (1 - B1**t)) / ((v / (1 - B2**t)).sqrt() + EPS)
    for (name, p), q in zip(result.weights.items(), parameters, strict=True):
        torch.testing.assert_close(p, q.detach(), atol=2e-5, rtol=2e-3, msg=lambda m, n=name: f"{n}: {m}")
    rates = {m["step"]: m["train/lr"] for m in recorder.reports if "train/lr" in m}
    assert rates[STEPS] == pytest.approx(rate_by_hand(STEPS))
    assert result.progress.epoch == 1 and result.progress.index == 2 * (STEPS - FIRST)


def test_dropout_is_drawn_anew_for_every_micro_batch_and_seed(prepared, tmp_path, monkeypatch):
    """Each draws from a stream of its own; evaluation and a second call of the same training change nothing of it."""
    seen: list[int] = []
    forward = Objective.forward

    def noting(self, *arguments):
        seen.append(torch.initial_seed())
        return forward(self, *arguments)

    monkeypatch.setattr(Objective, "forward", noting)
    found = []
    for seed in (1, 2):
        seen.clear()
        spec = changed(batch={"accumulate": 2}, train={"max_steps": 3, "validate_every": 2})
        fit(spec.model_copy(update={"seed": seed}), prepared, tmp_path / str(seed))
        found.append(list(seen))
    assert len(set(found[0])) == len(found[0]) == 6 and not set(found[0]) & set(found[1])


def test_validation_is_the_mean_over_target_tokens_with_their_ends_and_without_dropout(prepared):
    pairs = prepared.pairs("valid")
    model = build(SPEC.model.model_dump() | {"dropout": dict.fromkeys(OFF, 0.5)}, prepared.src_size, prepared.tgt_size, 1).train()
    found = Validator(pairs, Runtime())(model)
    assert model.training, "what comes after is trained with dropout"
    model.eval()
    nll, right, tokens = 0.0, 0, 0
    with torch.no_grad():
        for i in range(len(pairs)):
            src, tgt_in, tgt_out = tensors(pairs, [i])
            log_p = model.logits(model(src, tgt_in).hidden)[0].log_softmax(-1)
            for t, word in enumerate(tgt_out[0].tolist()):
                nll, right, tokens = nll - float(log_p[t, word]), right + int(log_p[t].argmax() == word), tokens + 1
    assert found["valid/nll"] == pytest.approx(nll / tokens, rel=1e-5)
    assert found["valid/ppl"] == pytest.approx(math.exp(nll / tokens), rel=1e-5)
    assert found["valid/accuracy"] == pytest.approx(right / tokens)


def test_the_best_weights_are_those_of_the_lowest_loss_and_patience_counts_in_a_row(prepared, tmp_path, validations):
    """Worse, better, worse, worse, worse: the third of them in a row ends it; validations of rungs are looked at and do not count."""
    validations([5.0, 5.5, 3.0, 1.0, 3.5, 3.0, 4.0, 9.0])
    spec = changed(train={"max_steps": 50, "validate_every": 2, "patience": 3, "snapshots": 0})
    result = fit(spec, prepared, tmp_path / "run", rungs=[7])
    assert (result.progress.step, result.ended_by, result.progress.worse) == (12, "patience", 3)
    assert "rate_cuts" not in result.to_json()
    assert (result.progress.best_step, result.progress.best_nll) == (6, 3.0)
    other = fit(changed(train={"max_steps": 6, "validate_every": 100, "snapshots": 0}), prepared, tmp_path / "other")
    assert weights_sha256(Store(tmp_path / "run", KEY).weights("best")) == weights_sha256(other.weights)


def test_snapshots_are_taken_by_their_own_clock_and_the_last_are_kept(prepared, tmp_path):
    fit(changed(train={"max_steps": 8, "checkpoint_every": 5, "snapshot_every": 3, "snapshots": 2}), prepared, tmp_path / "run")
    assert [path.stem for path in Store(tmp_path / "run", KEY).snapshots()] == ["step-00000006", "step-00000008"]


class Two(Runtime):
    """The main one of two workers. What the other adds to a sum is the same, but for the first of the sums, of which it has none."""

    def sum(self, tensor):
        other = tensor.clone()
        other[0] = 0.0
        return tensor + other


@pytest.mark.parametrize("runtime", [Runtime(), Two(world_size=2)])
def test_a_report_is_per_token_where_it_is_a_loss_and_per_update_where_it_is_a_term(runtime):
    """Of all workers, also where a checkpoint comes between the updates of a report."""
    meter, progress, workers = Meter(runtime), Progress(), runtime.world_size
    for nll, seconds in ((30.0, 0.5), (50.0, 1.5)):
        sums = {"nll": nll, "loss": 2 * nll, "diversity_encoder": 0.25, "right": 3.0, "sampled": 4.0}
        update = Update([], [], src_tokens=15, tgt_tokens=10, padded_tokens=60, epoch=0, index=0)
        meter.add(progress, update, {name: torch.tensor(value) for name, value in sums.items()}, seconds)
    state = json.loads(json.dumps(meter.state()))
    metrics = {
        "train/accuracy": 0.75, "train/nll": 80 / 20 * workers, "train/loss": 160 / 20 * workers, "train/diversity_encoder": 0.25,
        "train/tokens_per_second": 10.0,
    }  # fmt: skip
    meter.runtime = Runtime()  # the other worker's sums are 0 after a checkpoint
    assert meter.read() == metrics
    assert progress.tokens_per_second == 10.0 and progress.padding_share == pytest.approx(1 - 50 / 120)
    assert meter.read() == {}
    meter.load(state)
    assert meter.read() == metrics
    other = Meter(Runtime(rank=1))
    other.load(state)
    assert (other.steps, other.tokens, set(map(float, other.sums.values()))) == (2, 20, {0.0})


def test_an_update_counts_the_tokens_of_both_sides_and_its_padding():
    pairs = small_pairs((1, 4), (2, 6), (3, 1), (8, 2))
    feed = UpdateLoader(pairs, BatchSpec(unit="sentences", size=2, accumulate=2), 1)
    (first,) = [u for u, _ in zip(feed.updates(0, 0), range(1), strict=False)]
    assert (first.src_tokens, first.tgt_tokens, first.epoch, first.index) == (1 + 2 + 3 + 8 + 4, 4 + 6 + 1 + 2 + 4, 1, 0)
    assert first.padded_tokens == sum(batch.src.numel() + batch.tgt_out.numel() for batch in first.micro_batches)


def test_an_update_says_where_the_next_one_begins_so_that_nothing_is_seen_twice():
    """Seven micro-batches by threes: 3, 3 and 1 an epoch; from each position on, the rest of the same updates."""
    feed = UpdateLoader(small_pairs(*[(n, n) for n in range(1, 15)]), BatchSpec(unit="sentences", size=2, accumulate=3), 1)

    def seen(epoch, index, count):
        made = [u for u, _ in zip(feed.updates(epoch, index), range(count), strict=False)]
        return [([b.src.tolist() for b in u.micro_batches], u.epoch, u.index) for u in made]

    whole = seen(0, 0, 6)
    expected = [(3, 0, 3), (3, 0, 6), (1, 1, 0), (3, 1, 3), (3, 1, 6), (1, 2, 0)]
    assert [(len(micro), epoch, index) for micro, epoch, index in whole] == expected
    for done in range(1, 6):
        assert seen(*whole[done - 1][1:], 6 - done) == whole[done:]
    assert sum(len(rows) for micro, _, _ in whole[:3] for rows in micro) == 14


def test_the_length_told_is_what_is_left_of_the_epochs_after_what_is_done():
    feed = UpdateLoader(small_pairs(*[(2, 2)] * 12), BatchSpec(unit="sentences", size=2), 1)
    three = TrainSpec(max_epochs=3)
    assert total_steps(feed, three, Progress()) == 18
    assert total_steps(feed, three, Progress(step=9, epoch=2)) == 15  # a first phase of other batches
    assert total_steps(feed, three, Progress(step=8, epoch=1, index=2)) == 18
    assert total_steps(feed, TrainSpec(max_epochs=3, max_steps=7), Progress()) == 7
