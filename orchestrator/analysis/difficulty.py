"""BLEU by how difficult a sentence is for a baseline (Wei et al. 2020, section 4.4, Eq. 14-15, Fig. 3).

    score(x, y) = mean_k l_k + std_k l_k,    l_k = -log P_k(y | x) / (|y| + 1)

over the last K snapshots of the scoring model. l is per token (EOS counted): the released quartiles differ little in length, a summed
log-probability would sort by it. std is that of the K values themselves (divisor K; the paper does not say). The test set, sorted by score,
is cut into four.

`split=DIR` adds the four parts that the authors released, as they are: sorted by their model, not by ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from orchestrator.analysis import difficulty_figure, snapshots
from orchestrator.analysis.base import Analysis, Context, Subject
from orchestrator.analysis.decoding import bleu, device_option
from orchestrator.analysis.difficulty_released import of_released
from orchestrator.analysis.length import Part
from orchestrator.analysis.options import whole
from orchestrator.analysis.progress import Bars
from orchestrator.data.batching import Batches, collate
from orchestrator.data.store import Pairs
from orchestrator.errors import UserError
from orchestrator.ledger.weights import copy_into
from orchestrator.specs.positions import nearest, shown
from orchestrator.training.validation import BATCH

if TYPE_CHECKING:
    from models.transformer import Transformer

Floats = npt.NDArray[np.float64]

OPTIONS = {"snapshots": "20", "scorer": "first", "split": "", "limit": "all", "device": "auto"}
"""snapshots: K; scorer: row that scores, by its address or the last part of it; split: folder of the released parts; limit: sentences of
each released part at most."""
QUARTILES = ("simple", "ordinary", "difficult", "challenging")
COLUMNS = ["row", "label", "seed", "split", "quartile", "sentences", "words", "score_low", "score_high", "bleu", "gain", "metric"]


def analyse(context: Context) -> Analysis:
    """A record for each row and quartile, then for all of them; `gain` is over the first row, the baseline.

    words: mean words of a source. UserError where there is neither a snapshot of the scoring model nor a released split.
    """
    count, scorer, device = whole(context, "snapshots", 1), _scorer(context), device_option(context)
    limit = None if context.options["limit"] == "all" else whole(context, "limit", 1)
    paths = snapshots.of_row(context, scorer)[-count:]
    notes: list[str] = []
    records: list[dict[str, Any]] = []
    with Bars() as bars:
        if paths:
            records += of_test(context, scorer, paths, device, notes, bars)
        elif not context.options["split"]:
            raise UserError(snapshots.needed(scorer, count))
        else:
            notes.append(snapshots.needed(scorer, count) + "; the row's own test set is left out")
        if context.options["split"]:
            records += of_released(context, Path(context.options["split"]), QUARTILES, limit, device, notes, bars)
    if not records:
        raise UserError(*notes)
    if paths and len(paths) < count:
        notes.append(f"{scorer.row.id} has {len(paths)} snapshots: difficulty is over K = {len(paths)}, not {count}")
    few = {f"{r['sentences']} of {r['quartile']} ({r['split']})": None for r in records if r["sentences"] < 100 and r["quartile"] != "all"}
    if few:
        notes.append(f"few sentences: {', '.join(few)}; their BLEU says little")
    _gains(records)
    found = [f"baseline and first row: {context.subjects[0].row.id}; sentences are scored by {scorer.row.id}", *dict.fromkeys(notes)]
    return Analysis("difficulty", COLUMNS, records, partial(difficulty_figure.draw, records), found, summary(records))


def of_test(
    context: Context, scorer: Subject, paths: Sequence[Path], device: torch.device, notes: list[str], bars: Bars
) -> list[dict[str, Any]]:
    """Quartiles of the scoring row's own test set. A row with another test set is left out, which goes to the notes."""
    prepared, test = context.prepared(scorer), scorer.spec.score.test
    model, pairs, sources = context.model(scorer).to(device), prepared.pairs(test), prepared.sources(test)
    bar = bars.bar(f"{scorer.row.id} difficulty", len(paths), "snapshots")
    losses = []
    for weights in snapshots.loaded(scorer, paths):
        copy_into(model, weights)
        losses.append(nll(model, pairs, device))
        bar()
    bar.close()
    scores = difficulty(np.stack(losses))
    parts = [*zip(QUARTILES, quartiles(scores), strict=True), ("all", list(range(len(scores))))]
    words = [len(line.split()) for line in prepared.tokenise(sources, "src")]
    records = []
    for subject in context.subjects:
        own, spec = context.prepared(subject), subject.spec
        if own.sources(spec.score.test) != sources:
            notes.append(f"{subject.row.id}: its test set is not that of {scorer.row.id}; left out")
            continue
        made = context.decoded(subject)
        about = {"row": subject.row.id, "label": subject.label, "seed": spec.seed, "split": "own"}
        for name, chosen in parts:
            lines = [made["hypotheses"][i] for i in chosen], [made["tokens"][i] for i in chosen]
            record = about | {"quartile": name, "sentences": len(chosen), "metric": spec.score.metric}
            if chosen:
                record |= {
                    "words": round(float(np.mean([words[i] for i in chosen])), 2),
                    "score_low": round(float(scores[chosen].min()), 4),
                    "score_high": round(float(scores[chosen].max()), 4),
                }
            record["bleu"] = bleu(lines, Part(own, chosen), spec.score.test, spec) if chosen else None
            records.append(record)
    return records


@torch.no_grad()
def nll(model: Transformer, pairs: Pairs, device: torch.device) -> Floats:
    """[N]: -log P(y | x) of each pair over its target tokens, EOS counted, teacher forced."""
    model.eval()
    found = np.zeros(len(pairs))
    for indices in Batches(pairs, BATCH, 0).epoch(0):
        batch = collate(pairs, indices)
        src, tgt_in, tgt_out = (t.to(device) for t in (batch.src, batch.tgt_in, batch.tgt_out))
        logits = model.logits(model.decode(tgt_in, model.encode(src))).float()
        each = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tgt_out.flatten(), reduction="none", ignore_index=0)
        tokens = (tgt_out != 0).sum(1)
        found[indices] = (each.view_as(tgt_out).double().sum(1) / tokens).cpu().numpy()
    return found


def difficulty(nll_KN: Floats) -> Floats:
    """[K, N] losses of K snapshots -> [N]: mean over the snapshots plus their standard deviation."""
    found: Floats = nll_KN.mean(axis=0) + nll_KN.std(axis=0)
    return found


def quartiles(scores: Floats) -> list[list[int]]:
    """Four lists of indices, the lowest scores first; equal scores in their order; sizes differ by one at most."""
    return [sorted(part.tolist()) for part in np.array_split(np.argsort(scores, kind="stable"), len(QUARTILES))]


def _scorer(context: Context) -> Subject:
    wanted = context.options["scorer"]
    names = {subject.row.id: subject for subject in context.subjects}
    found = [subject for name, subject in names.items() if wanted in (name, name.rpartition("/")[2])]
    if wanted == "first" and not found:
        return context.subjects[0]
    if len(found) != 1:
        raise UserError(f"--option scorer={shown(wanted)}: found {len(found)} such rows; {nearest(wanted, names)}")
    return found[0]


def _gains(records: list[dict[str, Any]]) -> None:
    """Over the row that comes first, in each split and quartile."""
    base: dict[tuple[str, str], tuple[str, float | None]] = {}
    for r in records:
        _, known = base.setdefault((r["split"], r["quartile"]), (r["row"], r["bleu"]))
        r["gain"] = None if known is None or r["bleu"] is None else round(r["bleu"] - known, 4)


def summary(records: Sequence[dict[str, Any]]) -> list[str]:
    """A line a row and split: BLEU and gain of each quartile."""
    lines = []
    for split, row, seed, label in dict.fromkeys((r["split"], r["row"], r["seed"], r["label"]) for r in records):
        own = [r for r in records if (r["split"], r["row"], r["seed"]) == (split, row, seed)]
        cells = [f"{r['quartile']} " + ("-" if r["bleu"] is None else f"{r['bleu']:.2f} ({r['gain']:+.2f})") for r in own]
        lines.append(f"{split}: {label}: {', '.join(cells)}")
    return lines
