"""Degradation of deep networks, which may fit even their training data worse (Wei et al. 2020, Fig. 2).

Computes BLEU on sampled training pairs and on the validation set, and shows the loss curves of the history. The sample is drawn from the
filtered training pairs with a fixed seed and is the same for all rows of a corpus. References of training pairs are restored from their
subwords. With `points` above 1, weight snapshots give BLEU by update.
"""

import pandas as pd
import torch
from matplotlib.figure import Figure

from models.initialise import stream_seed
from orchestrator.analysis import figures
from orchestrator.analysis.base import Analysis, AnalysisContext, Records, Subject, register, table_of
from orchestrator.analysis.translations import bleu, load_into, references_of, snapshots_of, translate
from orchestrator.safe_text import log
from orchestrator.scoring.scores import References
from orchestrator.training.runtime import best_device

PAIRS = 3000
"""Training pairs whose translations are scored."""
TITLES = {
    ("bleu", "training"): "(a) BLEU on sampled training pairs",
    ("bleu", "validation"): "(b) BLEU on the validation set",
    ("nll", "training"): "(c) training loss",
    ("nll", "validation"): "(d) validation loss",
}


@register("degradation", options={"points": 1}, needs_weights=True)
def analyse(context: AnalysisContext) -> Analysis:
    """Returns one record per row, data and point of a curve: `bleu` in percent, `nll` in nats per target token.

    Option `points`: the number of weights, the row's own and points - 1 snapshots.
    """
    records, notes = context.each_row(analyse_row)
    notes += [
        "training BLEU is of pairs sampled by seed 1, their references made from subwords; validation BLEU is of the whole set",
        "training nll is of the updates themselves, with dropout; validation nll is without",
    ]
    last = pd.DataFrame(records).sort_values("step", kind="stable").groupby(["row", "measure", "data"], sort=False).value.last()
    return Analysis(records, draw, notes, table_of("last values:", last.unstack(["measure", "data"]).sort_index(axis=1), "{:.2f}"))


def sample(count: int) -> list[int]:
    generator = torch.Generator().manual_seed(stream_seed(1, "degradation"))
    return sorted(torch.randperm(count, generator=generator)[:PAIRS].tolist())


def analyse_row(context: AnalysisContext, subject: Subject, notes: list[str]) -> Records:
    points, prepared, spec = context.options["points"], context.prepared(subject), subject.spec
    train = prepared.pairs("train")
    if len(train) < PAIRS:
        notes.append(f"{subject.row.id}: its corpus has {len(train):,} training pairs, all of which are taken")
    sampled = [train[i] for i in sample(len(train))]
    targets = [target for _, target in sampled]
    made = [prepared.decode(targets)]
    texts: dict[str, tuple[list[list[int]], References, str]] = {
        "training": ([source for source, _ in sampled], references_of(prepared, made, made, prepared.decode_tokens(targets)), "train"),
        "validation": (prepared.encode(prepared.sources("valid")), prepared, "valid"),
    }
    model, snapshots = context.model(subject).to(best_device()), snapshots_of(context, subject)
    # the update of the row's own weights; for an average, the last update
    own_step = int(context.train_record(subject).get("best_step" if spec.decode.checkpoint == "best" else "steps", 0))
    others = [step for step in snapshots if step != own_step]
    count = min(points - 1, len(others))
    if count < points - 1:
        notes.append(f"{subject.row.id}: found {count} other snapshots for {points} points")
    spread = [others[i * (len(others) - 1) // max(1, count - 1)] for i in range(count)]
    columns = subject.columns | {"layers": spec.model.encoder.num_layers}
    records: Records = []
    for step in [own_step, *spread]:
        if step != own_step:
            load_into(model, context, subject, snapshots[step])
        for data, (ids, references, split) in texts.items():
            value = bleu(translate(model, ids, spec, prepared), references, split, spec)
            log(f"{subject.name} update {step}: BLEU {value:.2f} on {data} data")
            records.append(columns | {"measure": "bleu", "data": data, "step": step, "value": value, "sentences": len(ids)})
    records.sort(key=lambda r: (r["data"], r["step"]))
    return records + [
        columns | {"measure": "nll", "data": data, "step": step, "value": round(value, 6)}
        for data, metric in (("training", "train/nll"), ("validation", "valid/nll"))
        for step, value in context.curve(subject, metric)
    ]


def draw(figure: Figure, records: Records) -> None:
    """Draws BLEU above losses by update, training left and validation right; a row without other snapshots has one point of BLEU."""
    by_title = {title: [r for r in records if (r["measure"], r["data"]) == panel] for panel, title in TITLES.items()}
    panels, _ = figures.curves(figure, by_title, "step", "value", height=2.2, most=2)
    for axes, (measure, _) in zip(panels, TITLES, strict=True):
        axes.set(xlabel="updates", ylabel="BLEU [%]" if measure == "bleu" else "nll per target token [nats]")
