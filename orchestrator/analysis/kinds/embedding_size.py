"""BLEU by size of the word embeddings (Shen et al. 2018, Table 1), ours and the paper's, to check the conclusion of the paper: a dense
model with small embeddings equals a baseline with large ones at a fraction of its parameters.

The baseline of a model is the row on the same corpus with as many layers and the largest embeddings that has neither dense connections nor
dense attention.
"""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from orchestrator.analysis import figures
from orchestrator.analysis.base import Analysis, AnalysisContext, Records, Subject, group_by
from orchestrator.analysis.intervals import Intervals
from orchestrator.analysis.registry import register
from orchestrator.errors import UserError
from orchestrator.report.figures import figures as figures_of
from orchestrator.report.figures import short_id
from orchestrator.specs.schema import ModelSpec
from orchestrator.specs.table import number

COMPARED = ["baseline", "delta", "params_pct", "paper_delta", "paper_params_pct"]
SHOWN = ["model", "corpus", "embedding", "bleu", "spread", "params", "paper_bleu", "delta", "params_pct"]
DENSE = ("concatenated", "dense", "dense_attention_1", "dense_attention_2")
"""Connections and bridges of dense models; models without any of them are baselines."""
SIZE = re.compile(r"[-_]?e(\d+)$")
"""Matches the published size at the end of an address."""


@register("embedding-size")
def analyse(context: AnalysisContext) -> Analysis:
    """Returns one record per row, over its seeds. Raises UserError if fewer than two sizes have scores."""
    intervals = Intervals(context, context.subjects)
    records = [record for s in context.subjects if (record := analyse_row(s, intervals)) is not None]
    corpora, models = (list(group_by(records, name)) for name in ("corpus", "model"))
    sizes = sorted({r["embedding"] for r in records})
    if len(sizes) < 2:
        found = f"only e = {sizes[0]}" if sizes else "no score"
        raise UserError(f"embedding-size: found {found} in {context.subjects[0].row.id}; expected rows with different model.word_dim")
    for record in records:
        record |= _compared(record, records)
    records.sort(key=lambda r: (corpora.index(r["corpus"]), models.index(r["model"]), r["embedding"]))
    notes = []
    if not any(r["baseline"] for r in records):
        notes.append("no baseline among the rows for any dense one (as many layers, the same corpus): nothing is compared")
    if any(r["seeds"] == 1 for r in records):
        notes.append("rows of one seed have no spread")
    notes += intervals.notes([r["over"] for r in records])
    notes.append("delta, params_pct: BLEU less, and parameters in percent of, those of the baseline at its largest embeddings")
    return Analysis("embedding-size", records, partial(draw, records), notes, summary(records), SHOWN)


def analyse_row(subject: Subject, intervals: Intervals) -> dict[str, Any] | None:
    row, model = subject.row, subject.spec.model
    ours = figures_of(row, intervals.outcomes[row.id])
    if ours is None or "bleu" not in ours:
        return None
    half, over = intervals.half(row.id)
    embedding = model.word_dim or model.d_model
    published = SIZE.search(row.id)
    return {
        "row": row.id,
        "label": subject.label,
        "corpus": _corpus(subject),
        "model": subject.label.partition(",")[0],  # the rest of the label names corpus and size
        "layers": model.encoder.num_layers,
        "embedding": embedding,
        "bleu": ours["bleu"],
        "spread": ours["bleu_spread"],
        "seeds": len(ours["seeds"]),
        "half_width": half,
        "over": over,
        "params": ours["params"],
        "paper_embedding": int(published[1]) if published else embedding,
        "paper_bleu": number(row.expect.get("bleu")),
        "paper_params": number(row.expect.get("params")),
        "dense": is_dense(model),
    }


def is_dense(model: ModelSpec) -> bool:
    return any(part["kind"] in DENSE for part in (model.encoder.connection, model.decoder.connection, model.bridge))


def _corpus(subject: Subject) -> str:
    """Returns the corpus from an address such as `de-en-e64`, because a profile may map several corpora to one; else from the spec."""
    last = subject.row.id.rpartition("/")[2]
    return (SIZE.sub("", last) if SIZE.search(last) else "") or str(subject.spec.data.corpus)


def _compared(record: dict[str, Any], records: Records) -> dict[str, Any]:
    """Returns the columns of the comparison with the baseline; they are empty for a baseline."""
    same = [r for r in records if not r["dense"] and (r["corpus"], r["layers"]) == (record["corpus"], record["layers"])]
    columns: dict[str, Any] = dict.fromkeys(COMPARED)
    if not record["dense"] or not same:
        return columns
    base = max(same, key=lambda r: r["embedding"])
    columns |= {"baseline": base["row"], "delta": round(record["bleu"] - base["bleu"], 4)}
    for prefix in ("", "paper_"):
        bleus, params = ((record[f"{prefix}{name}"], base[f"{prefix}{name}"]) for name in ("bleu", "params"))
        if None not in bleus:
            columns[f"{prefix}delta"] = round(bleus[0] - bleus[1], 4)
        if None not in params and params[1]:
            columns[f"{prefix}params_pct"] = round(100.0 * params[0] / params[1], 2)
    return columns


def summary(records: Records) -> list[str]:
    """Compares each dense row below the largest size with its baseline, then counts for each size how many are not below the baseline."""
    largest = max(r["embedding"] for r in records)
    small = [r for r in records if r["baseline"] is not None and r["embedding"] < largest]
    lines = [
        f"{r['corpus']}: {r['model']} with e = {_size(r)} against {short_id(r['baseline'])}: "
        f"BLEU {_with_paper(r['delta'], r['paper_delta'], '+.2f')}, "
        f"parameters {_with_paper(r['params_pct'], r['paper_params_pct'], '.0f', '%')}"
        for r in small
    ]
    for _, own in sorted(group_by(small, "embedding").items()):
        ours, paper = (_count([r[name] for r in own if r[name] is not None]) for name in ("delta", "paper_delta"))
        lines.append(f"e = {_size(own[0])}: not below the baseline with the largest embeddings: {ours} (paper {paper})")
    return lines


def _size(record: dict[str, Any]) -> str:
    """Formats the size, with the published one if a profile changed it."""
    ours, published = record["embedding"], record["paper_embedding"]
    return str(ours) if ours == published else f"{ours} (as published {published})"


def _count(deltas: list[float]) -> str:
    return f"{sum(delta >= 0 for delta in deltas)} of {len(deltas)}"


def _with_paper(ours: float | None, theirs: float | None, form: str, unit: str = "") -> str:
    text = "not known" if ours is None else f"{ours:{form}}{unit}"
    return text if theirs is None else f"{text} (paper {theirs:{form}}{unit})"


def draw(records: Records, figure: Figure) -> None:
    """Draws ours (with 95 % intervals) and the paper's, one pair of panels per corpus, one colour and marker per model."""
    corpora, models = (list(group_by(records, name)) for name in ("corpus", "model"))
    sources = [("bleu", "here", "embedding")]
    if any(r["paper_bleu"] is not None for r in records):
        sources.append(("paper_bleu", "paper", "paper_embedding"))
    looks = dict(zip(models, figures.colours(len(models)), strict=True))
    panels = figures.panels(figure, len(sources) * len(corpora), height=2.3, most=len(sources))
    handles: dict[str, Any] = {}
    for place, axes in enumerate(panels):
        corpus, (field, source, size) = corpora[place // len(sources)], sources[place % len(sources)]
        for index, (model, colour) in enumerate(looks.items()):
            own = [r for r in records if (r["corpus"], r["model"]) == (corpus, model) and r[field] is not None]
            if own:
                handles.setdefault(model, _draw_line(axes, own, field, size, colour, index, len(models)))
        sizes = sorted({r[size] for r in records})
        over = list(dict.fromkeys(r["over"] for r in records if r["over"] and field == "bleu"))
        bars = f" (bars: 95 % interval over {' or '.join(over)})" if over else ""
        axes.set(title=f"{corpus}, {source}{bars}", xlabel="size of the word embeddings", ylabel="BLEU [%]")
        axes.grid()
        axes.set_xscale("log", base=2)
        axes.set_xticks(sizes, [str(each) for each in sizes])
        axes.minorticks_off()
    figures.legend(figure, list(handles.values()))


def _draw_line(axes: Axes, records: Records, field: str, size: str, colour: str, index: int, count: int) -> Any:
    """Draws scores, ours with intervals; baselines are dashed."""
    own = sorted(records, key=lambda r: r[size])
    half = [(r["half_width"] or 0.0) if field == "bleu" else 0.0 for r in own]
    places = figures.dodged([0.0 for _ in own], index, count, 2.0) if any(half) else [0.0 for _ in own]  # in octaves
    return axes.errorbar(
        [r[size] * 2**moved for r, moved in zip(own, places, strict=True)],
        [r[field] for r in own],
        yerr=half if any(half) else None,
        color=colour,
        marker=figures.marker(index),
        linestyle="-" if own[-1]["dense"] else "--",
        elinewidth=0.8,
        capsize=2,
        label=figures.short(own[0]["model"]),
    )
