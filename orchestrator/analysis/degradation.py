"""Does a deeper net fit even its training data worse (Wei et al. 2020, Fig. 2)? BLEU on sampled training pairs and on the validation set,
with the loss curves that the history holds.

The sample is drawn from the pairs that were trained on (after the filters), the same for all rows of a corpus, fixed by its seed. The
references of training pairs are made from their subwords. With `points` above 1, snapshots of the weights give BLEU by update.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from models.initialise import stream_seed
from orchestrator.analysis import degradation_figure, snapshots
from orchestrator.analysis.base import Analysis, Context, Subject
from orchestrator.analysis.decoding import Lines, bleu_of, device_option
from orchestrator.analysis.options import whole
from orchestrator.analysis.progress import Bars
from orchestrator.ledger.weights import copy_into
from orchestrator.scoring.scores import References
from orchestrator.tracking.history import number

if TYPE_CHECKING:
    pass

NEEDS_WEIGHTS = True
OPTIONS = {"pairs": "3000", "seed": "1", "points": "1", "device": "auto"}
"""pairs: of the training data; points: weights to translate with, the row's own and points - 1 of its snapshots."""
COLUMNS = ["row", "label", "seed", "layers", "measure", "data", "step", "value", "sentences"]
LOSSES = {"training": "train/nll", "validation": "valid/nll"}


def analyse(context: Context) -> Analysis:
    """A record for each row, data and point of a curve: `bleu` in percent, `nll` in nats per target token."""
    pairs, seed, points = (whole(context, name, least) for name, least in (("pairs", 1), ("seed", 0), ("points", 1)))
    device = device_option(context)
    records: list[dict[str, Any]] = []
    notes = [
        f"training BLEU is of pairs sampled by seed {seed}, their references made from subwords; validation BLEU is of the whole set",
        "training nll is of the updates themselves, with dropout; validation nll is without",
    ]
    with Bars() as bars:
        for subject in context.subjects:
            found, said = of_row(context, subject, pairs, seed, points, device, bars)
            records += found
            notes += said
    corpora = {context.prepared(subject).key for subject in context.subjects}
    if len(corpora) > 1:
        notes.append("rows are of different corpora or preparations: their samples differ")
    draw = partial(degradation_figure.draw, records)
    return Analysis("degradation", COLUMNS, records, draw, list(dict.fromkeys(notes)), summary(records))


def sample(count: int, pairs: int, seed: int) -> list[int]:
    """`pairs` numbers below `count`, or all, increasing; the same for the same arguments."""
    generator = torch.Generator().manual_seed(stream_seed(seed, "degradation"))
    return sorted(torch.randperm(count, generator=generator)[:pairs].tolist())


def of_row(
    context: Context, subject: Subject, pairs: int, seed: int, points: int, device: torch.device, bars: Bars
) -> tuple[list[dict[str, Any]], list[str]]:
    """(records, notes)."""
    prepared, spec = context.prepared(subject), subject.spec
    about = {"row": subject.row.id, "label": subject.label, "seed": spec.seed, "layers": spec.model.encoder.num_layers}
    train = prepared.pairs("train")
    chosen = [train[i] for i in sample(len(train), pairs, seed)]
    targets = [target for _, target in chosen]
    sampled = Lines(prepared.decode(targets), prepared.decode_tokens(targets), prepared.target_language)
    texts: dict[str, tuple[list[list[int]], References, str]] = {
        "training": ([source for source, _ in chosen], sampled, "train"),
        "validation": (prepared.encode(prepared.sources("valid")), prepared, "valid"),
    }
    notes = [f"{subject.row.id}: its corpus has {len(train):,} training pairs, all of which are taken"] if len(train) < pairs else []
    model = context.model(subject).to(device)
    others = _others(context, subject, points)
    if points == 1 and (kept := len(snapshots.of_row(context, subject))) > 1:
        notes.append(f"one point a row; with --option points={kept} BLEU by update, from the snapshots that are kept")
    if len(others) < points - 1:
        notes.append(f"{subject.row.id}: found {len(others)} other snapshots for {points} points")
    records: list[dict[str, Any]] = []
    for step, weights in [(_step(context, subject), None), *((snapshots.step_of(path), path) for path in others)]:
        if weights is not None:
            copy_into(model, next(snapshots.loaded(subject, [weights])))
        for data, (ids, references, split) in texts.items():
            name = f"{subject.row.id} seed {spec.seed} update {step} {data}"
            value = bleu_of(model, ids, references, split, spec, prepared, bars, name)
            records.append(about | {"measure": "bleu", "data": data, "step": step, "value": value, "sentences": len(ids)})
    records.sort(key=lambda r: (list(texts).index(r["data"]), r["step"]))
    losses = _losses(context, subject)
    if not losses:
        notes.append(f"{subject.row.id} seed {spec.seed}: its history has no losses; those curves are missing")
    return records + [about | loss for loss in losses], notes


def _step(context: Context, subject: Subject) -> int:
    """The update after which the row's own weights stand; of an average, the last one."""
    record = context.ledger.read_train(subject.train_key) or {}
    return int(record.get("best_step" if subject.spec.decode.checkpoint == "best" else "steps", 0))


def _others(context: Context, subject: Subject, points: int) -> list[Path]:
    """`points` - 1 snapshots beside the row's own weights, evenly spread, fewer where there are fewer."""
    paths = [path for path in snapshots.of_row(context, subject) if snapshots.step_of(path) != _step(context, subject)]
    count = min(points - 1, len(paths))
    return [paths[i * (len(paths) - 1) // max(1, count - 1)] for i in range(count)]


def _losses(context: Context, subject: Subject) -> list[dict[str, Any]]:
    history = context.ledger.history(subject.train_key)
    found = [(data, report["step"], number(report.get(name))) for data, name in LOSSES.items() for report in history]
    return [{"measure": "nll", "data": data, "step": step, "value": round(value, 6)} for data, step, value in found if value is not None]


def summary(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Of each row, the last point of each curve."""
    rows: dict[tuple[Any, ...], dict[tuple[str, str], float]] = {}
    for r in sorted(records, key=lambda r: r["step"]):
        rows.setdefault((r["row"], r["seed"], r["layers"], r["label"]), {})[r["measure"], r["data"]] = r["value"]
    lines = []
    for row, seed, layers, label in dict.fromkeys((r["row"], r["seed"], r["layers"], r["label"]) for r in records):
        values = rows[row, seed, layers, label]
        said = [f"{measure} {data} {value:.2f}" for (measure, data), value in sorted(values.items())]
        lines.append(f"{row} seed {seed} ({layers} encoder layers): {', '.join(said)}")
    return lines
