"""BLEU gained by difficulty of a sentence (Wei et al. 2020, section 4.4, Eq. 14-15, Fig. 3). The first row is the baseline,
whose snapshots score the sentences.

    score(x, y) = mean_k l_k + std_k l_k,    l_k = -log P_k(y | x) / (|y| + 1)

over its last K snapshots. l is per token (EOS included), because the quartiles that the authors released differ little
in length while a summed log-probability would sort by length. std divides by K (the paper does not say). The test set is sorted by score
and split into four quartiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from matplotlib.figure import Figure

from models.transformer import Transformer
from orchestrator.analysis import figures
from orchestrator.analysis.base import Analysis, AnalysisContext, Records, Subject, group_by, register, table_of
from orchestrator.analysis.translations import load_into, part_bleu, snapshots_of
from orchestrator.data.batching import Batches, collate
from orchestrator.data.store import Pairs
from orchestrator.errors import UserError
from orchestrator.safe_text import log
from orchestrator.training.validation import BATCH

Floats = npt.NDArray[np.float64]

QUARTILES = ("simple", "ordinary", "difficult", "challenging")


@register("difficulty", options={"snapshots": "20", "device": "auto"})
def analyse(context: AnalysisContext) -> Analysis:
    """Returns one record per row and quartile, and one for all quartiles. `gain` is relative to the first row; `words` is the mean length
    of the sources. Rows with another test set are left out with a note.

    Options: `snapshots`, K. Raises UserError without snapshots of the first row.
    """
    count, scorer = context.integer("snapshots", 1), context.subjects[0]
    paths = list(snapshots_of(context, scorer).values())[-count:]
    if not paths:
        again = f"train it with --set train.snapshots={count} (another key, so a run of its own)"
        raise UserError(f"{scorer.row.id}: found no snapshots of its weights; {again}")
    prepared, test = context.prepared(scorer), scorer.spec.score.test
    sources, scores = prepared.sources(test), difficulty(_losses(context, scorer, paths))
    words = np.array([len(line.split()) for line in prepared.tokenise(sources, "src")])
    parts = [*zip(QUARTILES, quartiles(scores), strict=True), ("all", list(range(len(scores))))]
    records: Records = []
    notes = [f"baseline: {scorer.row.id}, which scores the sentences too"]
    for subject in context.subjects:
        own, score = context.prepared(subject), subject.spec.score
        if own.sources(score.test) != sources:
            notes.append(f"{subject.row.id}: its test set is not that of {scorer.row.id}; left out")
            continue
        decoded = context.decoded(subject)
        for name, indices in parts:
            record = subject.columns | {"quartile": name, "sentences": len(indices), "metric": score.metric}
            if indices:
                low, high = scores[indices].min(), scores[indices].max()
                record |= {"words": round(words[indices].mean(), 2), "score_low": round(low, 4), "score_high": round(high, 4)}
            records.append(record | {"bleu": part_bleu(decoded, own, indices, subject.spec)})
    for own_quartile in group_by(records, "quartile").values():
        base = own_quartile[0]["bleu"]
        for record in own_quartile:
            record["gain"] = None if base is None or record["bleu"] is None else round(record["bleu"] - base, 4)
    if len(paths) < count:
        notes.append(f"{scorer.row.id} has {len(paths)} snapshots: difficulty is over K = {len(paths)}, not {count}")
    if (fewest := min(r["sentences"] for r in records)) < 100:
        notes.append(f"few sentences: {fewest} in a quartile; their BLEU says little")
    gains = pd.DataFrame(records).set_index(["row", "quartile"]).gain
    return Analysis(records, draw, notes, table_of("gain [BLEU]:", gains, "{:+.2f}"))


def _losses(context: AnalysisContext, scorer: Subject, paths: Sequence[Path]) -> Floats:
    """Returns the losses of the test set [K, N] under K snapshots."""
    device = context.device()
    model, pairs = context.model(scorer).to(device), context.prepared(scorer).pairs(scorer.spec.score.test)
    losses = []
    for path in paths:
        load_into(model, scorer, path)
        losses.append(nll(model, pairs, device))
        log(f"{scorer.name}: {len(losses)} of {len(paths)} snapshots")
    return np.stack(losses)


@torch.no_grad()
def nll(model: Transformer, pairs: Pairs, device: torch.device) -> Floats:
    """Returns -log P(y | x) of each pair per target token [N], teacher forced, EOS included."""
    model.eval()
    losses = np.zeros(len(pairs))
    for indices in Batches(pairs, BATCH, 0).epoch(0):
        batch = collate(pairs, indices)
        src, tgt_in, tgt_out = (t.to(device) for t in (batch.src, batch.tgt_in, batch.tgt_out))
        logits = model.logits(model.decode(tgt_in, model.encode(src))).float()
        tokens = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tgt_out.flatten(), reduction="none", ignore_index=0)
        losses[indices] = (tokens.view_as(tgt_out).double().sum(1) / (tgt_out != 0).sum(1)).cpu().numpy()
    return losses


def difficulty(nll_KN: Floats) -> Floats:
    """Returns scores [N]: mean plus standard deviation over the K snapshots of losses [K, N]."""
    scores: Floats = nll_KN.mean(axis=0) + nll_KN.std(axis=0)
    return scores


def quartiles(scores: Floats) -> list[list[int]]:
    """Splits indices into four lists by increasing score (stable); sizes differ by at most one."""
    return [sorted(part.tolist()) for part in np.array_split(np.argsort(scores, kind="stable"), len(QUARTILES))]


def draw(figure: Figure, records: Records) -> None:
    """Draws the gains over the baseline, one colour per row."""
    (axes,) = figures.panels(figure, 1)
    rows, styles = list(group_by(records, "row").items())[1:], figures.styles(records)
    width = 0.8 / max(1, len(rows))
    for index, (row, own) in enumerate(rows):
        gains = [np.nan if r["gain"] is None else r["gain"] for r in own if r["quartile"] in QUARTILES]
        places = np.arange(len(QUARTILES)) - 0.4 + width * (index + 0.5)
        axes.bar(places, gains, width * 0.92, color=styles[row].colour, edgecolor="white", label=styles[row].name)
    sizes = {r["quartile"]: r["sentences"] for r in records}
    axes.set_xticks(range(len(QUARTILES)), [f"{name}\n{sizes[name]} sent." for name in QUARTILES])
    axes.axhline(0.0, color="black", linewidth=0.8)
    axes.set_ylabel("gain [BLEU]")
    axes.grid(axis="y")
    figures.legend(figure, axes.get_legend_handles_labels()[0])
