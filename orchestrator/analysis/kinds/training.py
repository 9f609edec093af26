"""Curves of the training, from the history of each run, and BLEU of its weights.

accuracy: of the next token on training and validation data by update (Wang et al. 2018, Fig. 4). Validation accuracy is teacher forced,
without dropout, on the whole set. Training accuracy is measured on sampled positions of the updates since the last report, with dropout and
before the update. The paper does not say how it measures training accuracy.

gradient-norms: of each encoder layer over the first updates (Wei et al. 2020, Fig. 5), from runs with `train.log_gradient_norms`. The norm
is the L2 norm over all parameters of the layer, for the whole update, before clipping.

degradation: of deep networks, which may fit even their training data worse (Wei et al. 2020, Fig. 2). BLEU on sampled training pairs and on
the validation set, and the history's losses. The sample is drawn from the filtered training pairs with a fixed seed, the same for all rows
of a corpus. References of training pairs are restored from their subwords. With `points` above 1, weight snapshots give BLEU by update.
"""

from types import SimpleNamespace
from typing import Any

import pandas as pd
import torch
from matplotlib import colormaps
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from models.initialise import stream_seed
from orchestrator.analysis import figures
from orchestrator.analysis.base import Analysis, AnalysisContext, Records, Subject, group_by, register, table_of
from orchestrator.decoding.validation_bleu import scored
from orchestrator.safe_text import log
from orchestrator.specs.base import Positive
from orchestrator.tracking.history import number
from orchestrator.training.metrics import METRIC
from orchestrator.training.runtime import best_device

ACCURACIES = {"training": "train/accuracy", "validation": "valid/accuracy"}


@register("accuracy")
def accuracy(context: AnalysisContext) -> Analysis:
    """Returns one record per row, data and report: `step` in updates, `accuracy` in percent of target tokens including EOS."""
    records, notes = context.each_row(_accuracies)
    notes.insert(0, "training accuracy is of sampled positions with dropout on, validation accuracy of all positions without")
    last = pd.DataFrame(records).groupby(["row", "data"], sort=False).accuracy.last()
    return Analysis(records, _draw_accuracy, notes, table_of("accuracy at the last update [%]:", last, "{:.2f}"), width="column")


def _accuracies(context: AnalysisContext, subject: Subject, notes: list[str]) -> Records:
    curves = {data: context.curve(subject, metric) for data, metric in ACCURACIES.items()}
    notes += [f"{subject.name}: its history has no {ACCURACIES[data]}; that curve is missing" for data in curves if not curves[data]]
    return [
        subject.columns | {"data": data, "step": step, "accuracy": round(100.0 * value, 4)}
        for data, curve in curves.items()
        for step, value in curve
    ]


def _draw_accuracy(figure: Figure, records: Records) -> None:
    (axes,), _ = figures.curves(figure, {"": records}, "step", "accuracy")
    axes.set(xlabel="updates", ylabel="token accuracy [%]")


@register("gradient-norms", options={"steps": (Positive, 10000)})
def gradient_norms(context: AnalysisContext) -> Analysis:
    """Returns one record per row, layer (from 1, the bottom) and logged update up to `steps`. Raises UserError if no run logged any."""
    records, notes = context.each_row(_norms)
    medians = pd.DataFrame(records).pivot_table(index="layer", columns="row", values="norm", aggfunc="median", sort=False)
    return Analysis(records, _draw_norms, notes, table_of("median norm:", medians, "{:.3g}"))


def _norms(context: AnalysisContext, subject: Subject, notes: list[str]) -> Records:
    last = context.options["steps"]
    history = [r for r in context.ledger.history(subject.train_key) if METRIC in r and r["step"] <= last]
    points = [(int(layer), report["step"], number(norm)) for report in history for layer, norm in report[METRIC].items()]
    records = [subject.columns | {"layer": layer, "step": step, "norm": norm} for layer, step, norm in sorted(points) if norm is not None]
    if not records:
        notes.append(f"{subject.name}: no gradient norms; train it with --set train.log_gradient_norms=10 into --results of its own")
    elif len(records) < len(points):
        notes.append(f"{subject.name}: {len(points) - len(records)} norms are not finite; left out")
    return records


def _draw_norms(figure: Figure, records: Records) -> None:
    """Draws one panel per row on a shared scale, one curve per layer, dark at the bottom and light at the top."""
    rows = group_by(records, "row", "label")
    colours = ScalarMappable(Normalize(1, max(2, *(r["layer"] for r in records))), colormaps["viridis"])
    panels = figures.panels(figure, len(rows), sharey=True)
    for axes, ((_, label), own) in zip(panels, rows.items(), strict=True):
        for layer, curve in group_by(own, "layer").items():
            points, marker = [(r["step"], r["norm"]) for r in curve], "." if len(curve) <= 30 else None
            axes.plot(*zip(*points, strict=True), color=colours.to_rgba(layer), linewidth=0.9, marker=marker)
        axes.set(title=figures.short(label), xlabel="updates", yscale="log" if all(r["norm"] > 0 for r in records) else "linear")
        axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
        axes.grid()
    panels[0].set_ylabel("L2 norm of the gradient")
    figure.colorbar(colours, ax=panels, label="encoder layer", ticks=MaxNLocator(integer=True, nbins=8))


PAIRS = 3000
"""Training pairs whose translations are scored."""
TITLES = {
    ("bleu", "training"): "(a) BLEU on sampled training pairs",
    ("bleu", "validation"): "(b) BLEU on the validation set",
    ("nll", "training"): "(c) training loss",
    ("nll", "validation"): "(d) validation loss",
}


@register("degradation", options={"points": (Positive, 1)}, needs_weights=True)
def degradation(context: AnalysisContext) -> Analysis:
    """Returns one record per row, data and point of a curve: `bleu` in percent, `nll` in nats per target token.

    Option `points`: the number of weights, the row's own and points - 1 snapshots.
    """
    records, notes = context.each_row(_bleu_and_losses)
    notes += [
        "training BLEU is of pairs sampled by seed 1, their references made from subwords; validation BLEU is of the whole set",
        "training nll is of the updates themselves, with dropout; validation nll is without",
    ]
    last = pd.DataFrame(records).sort_values("step", kind="stable").groupby(["row", "measure", "data"], sort=False).value.last()
    return Analysis(
        records, _draw_degradation, notes, table_of("last values:", last.unstack(["measure", "data"]).sort_index(axis=1), "{:.2f}")
    )


def sample(count: int) -> list[int]:
    generator = torch.Generator().manual_seed(stream_seed(1, "degradation"))
    return sorted(torch.randperm(count, generator=generator)[:PAIRS].tolist())


def _bleu_and_losses(context: AnalysisContext, subject: Subject, notes: list[str]) -> Records:
    points, prepared, spec = context.options["points"], context.prepared(subject), subject.spec
    train = prepared.pairs("train")
    if len(train) < PAIRS:
        notes.append(f"{subject.row.id}: its corpus has {len(train):,} training pairs, all of which are taken")
    sampled = [train[i] for i in sample(len(train))]
    targets = [target for _, target in sampled]
    lines, tokens = [prepared.decode(targets)], prepared.decode_tokens(targets)
    references = SimpleNamespace(
        target_language=prepared.target_language,
        references=lambda split: lines,
        reference_text=lambda split: lines,
        tokenise=lambda stream, side: tokens,
    )
    texts: dict[str, tuple[list[list[int]], Any]] = {
        "training": ([source for source, _ in sampled], references),
        "validation": (prepared.encode(prepared.sources("valid")), prepared),
    }
    model, snapshots = context.model(subject).to(best_device()), context.snapshots(subject)
    # the update of the row's own weights; for an average, the last update
    record = context.ledger.read_train(subject.train_key) or {}
    own_step = int(record.get("best_step" if spec.decode.checkpoint == "best" else "steps", 0))
    others = [step for step in snapshots if step != own_step]
    count = min(points - 1, len(others))
    if count < points - 1:
        notes.append(f"{subject.row.id}: found {count} other snapshots for {points} points")
    spread = [others[i * (len(others) - 1) // max(1, count - 1)] for i in range(count)]
    columns = subject.columns | {"layers": spec.model.encoder.num_layers}
    records: Records = []
    for step in [own_step, *spread]:
        if step != own_step:
            context.load_snapshot(subject, snapshots[step], model)
        for data, (ids, its) in texts.items():
            value = round(float(scored(model, prepared, ids, spec.search, spec.score, its)["bleu"]), 4)
            log(f"{subject.name} update {step}: BLEU {value:.2f} on {data} data")
            records.append(columns | {"measure": "bleu", "data": data, "step": step, "value": value, "sentences": len(ids)})
    records.sort(key=lambda r: (r["data"], r["step"]))
    return records + [
        columns | {"measure": "nll", "data": data, "step": step, "value": round(value, 6)}
        for data, metric in (("training", "train/nll"), ("validation", "valid/nll"))
        for step, value in context.curve(subject, metric)
    ]


def _draw_degradation(figure: Figure, records: Records) -> None:
    """Draws BLEU above losses by update, training left and validation right; a row without other snapshots has one point of BLEU."""
    by_title = {title: [r for r in records if (r["measure"], r["data"]) == panel] for panel, title in TITLES.items()}
    panels, _ = figures.curves(figure, by_title, "step", "value", height=2.2, most=2)
    for axes, (measure, _) in zip(panels, TITLES, strict=True):
        axes.set(xlabel="updates", ylabel="BLEU" if measure == "bleu" else "nll per target token [nats]")
