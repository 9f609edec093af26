"""Degradation of deep networks, which may fit even their training data worse (Wei et al. 2020, Fig. 2).

Computes BLEU on sampled training pairs and on the validation set, and shows the loss curves of the history. The sample is drawn from the
filtered training pairs with a fixed seed and is the same for all rows of a corpus. References of training pairs are restored from their
subwords. With `points` above 1, weight snapshots give BLEU by update.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import torch
from matplotlib.figure import Figure
from rich.progress import Progress

from models.initialise import stream_seed
from orchestrator.analysis import figures
from orchestrator.analysis.base import Analysis, AnalysisContext, Records, Subject, by_row
from orchestrator.analysis.progress import progress_bars
from orchestrator.analysis.registry import register
from orchestrator.analysis.translations import Streams, bleu, load, snapshots_of, step_of, translate
from orchestrator.ledger.weights import copy_into
from orchestrator.scoring.scores import References

LOSSES = {"training": "train/nll", "validation": "valid/nll"}
TITLES = {
    ("bleu", "training"): "(a) BLEU on sampled training pairs",
    ("bleu", "validation"): "(b) BLEU on the validation set",
    ("nll", "training"): "(c) training loss",
    ("nll", "validation"): "(d) validation loss",
}


@register("degradation", options={"pairs": "3000", "seed": "1", "points": "1", "device": "auto"}, needs_weights=True)
def analyse(context: AnalysisContext) -> Analysis:
    """Returns one record per row, data and point of a curve: `bleu` in percent, `nll` in nats per target token.

    Options: `pairs` to sample from the training data; `points`, the number of weights (the row's own and points - 1 snapshots).
    """
    seed = context.integer("seed")
    context.integer("pairs", 1), context.integer("points", 1)  # checked before any translation
    with progress_bars() as bars:
        records, notes = context.each_row(partial(analyse_row, context, bars))
    notes += [
        f"training BLEU is of pairs sampled by seed {seed}, their references made from subwords; validation BLEU is of the whole set",
        "training nll is of the updates themselves, with dropout; validation nll is without",
    ]
    return Analysis("degradation", records, partial(draw, records), notes, summary(records))


def sample(count: int, pairs: int, seed: int) -> list[int]:
    """Returns `pairs` increasing indices below `count`, or all of them; deterministic for a seed."""
    generator = torch.Generator().manual_seed(stream_seed(seed, "degradation"))
    return sorted(torch.randperm(count, generator=generator)[:pairs].tolist())


def analyse_row(context: AnalysisContext, bars: Progress, subject: Subject, notes: list[str]) -> Records:
    pairs, points = context.integer("pairs", 1), context.integer("points", 1)
    prepared, spec, device = context.prepared(subject), subject.spec, context.device()
    train = prepared.pairs("train")
    if len(train) < pairs:
        notes.append(f"{subject.row.id}: its corpus has {len(train):,} training pairs, all of which are taken")
    sampled = [train[i] for i in sample(len(train), pairs, context.integer("seed"))]
    targets = [target for _, target in sampled]
    made = [prepared.decode(targets)]
    references = Streams(made, made, prepared, prepared.decode_tokens(targets))
    texts: dict[str, tuple[list[list[int]], References, str]] = {
        "training": ([source for source, _ in sampled], references, "train"),
        "validation": (prepared.encode(prepared.sources("valid")), prepared, "valid"),
    }
    model = context.model(subject).to(device)
    snapshots = snapshots_of(context, subject)
    if points == 1 and len(snapshots) > 1:
        notes.append(f"one point a row; with --option points={len(snapshots)} BLEU by update, from the snapshots that are kept")
    own_step = _step(context, subject)
    others = _spread([path for path in snapshots if step_of(path) != own_step], points - 1)
    if len(others) < points - 1:
        notes.append(f"{subject.row.id}: found {len(others)} other snapshots for {points} points")
    columns = subject.columns | {"layers": spec.model.encoder.num_layers}
    records: Records = []
    for step, path in [(own_step, None), *((step_of(path), path) for path in others)]:
        if path is not None:
            copy_into(model, next(load(subject, [path])))
        for data, (ids, data_references, split) in texts.items():
            outputs = translate(model, ids, spec, prepared, bars, f"{subject.name} update {step} {data}")
            value = bleu(outputs, data_references, split, spec)
            records.append(columns | {"measure": "bleu", "data": data, "step": step, "value": value, "sentences": len(ids)})
    records.sort(key=lambda r: (list(texts).index(r["data"]), r["step"]))
    losses = [
        columns | {"measure": "nll", "data": data, "step": step, "value": round(value, 6)}
        for data, metric in LOSSES.items()
        for step, value in context.curve(subject, metric)
    ]
    return records + losses


def _step(context: AnalysisContext, subject: Subject) -> int:
    """Returns the update of the row's own weights; for an average, the last update."""
    return int(context.train_record(subject).get("best_step" if subject.spec.decode.checkpoint == "best" else "steps", 0))


def _spread(paths: list[Path], count: int) -> list[Path]:
    """Returns `count` evenly spaced paths, or all."""
    count = min(count, len(paths))
    return [paths[i * (len(paths) - 1) // max(1, count - 1)] for i in range(count)]


def summary(records: Records) -> list[str]:
    """Returns a line per row with the last point of each curve."""
    lines = []
    for (row, seed), own in by_row(records).items():
        last = {(r["measure"], r["data"]): r["value"] for r in sorted(own, key=lambda r: r["step"])}
        values = ", ".join(f"{measure} {data} {value:.2f}" for (measure, data), value in sorted(last.items()))
        lines.append(f"{row} seed {seed} ({own[0]['layers']} encoder layers): {values}")
    return lines


def draw(records: Records, figure: Figure) -> None:
    """Draws BLEU above losses by update, training left and validation right; a row without other snapshots has one point of BLEU."""
    styles = figures.styles(records)
    for axes, (measure, data) in zip(figures.panels(figure, len(TITLES), height=2.2, most=2), TITLES, strict=True):
        for key, own in by_row(r for r in records if (r["measure"], r["data"]) == (measure, data)).items():
            figures.plot_curve(axes, [r["step"] for r in own], [r["value"] for r in own], styles[key])
        axes.set(title=TITLES[measure, data], xlabel="updates", ylabel="BLEU [%]" if measure == "bleu" else "nll per target token [nats]")
        figures.integer_ticks(axes)
        axes.grid()
    figures.legend(figure, figures.handles(styles))
