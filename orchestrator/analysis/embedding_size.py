"""BLEU against the size of the word embeddings, a line a model, a panel a corpus, ours and the paper's (Shen et al. 2018, Table 1), and
what the paper concludes: a dense model with small embeddings equals a baseline with large ones, with a fraction of its parameters.

A model's baseline is the row without dense connections and dense attention that has as many layers, at its largest embeddings, on the
same corpus.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from orchestrator.analysis import embedding_size_figure
from orchestrator.analysis.base import Analysis, Context, Subject
from orchestrator.errors import UserError
from orchestrator.report.figures import figures, short_id
from orchestrator.report.find import Finder
from orchestrator.specs.schema import ModelSpec
from orchestrator.specs.table import number
from orchestrator.sweeps.plan import Data

COLUMNS = [
    "row",
    "label",
    "corpus",
    "model",
    "layers",
    "embedding",
    "bleu",
    "spread",
    "seeds",
    "params",
    "paper_embedding",
    "paper_bleu",
    "paper_params",
]
COLUMNS += ["dense", "baseline", "delta", "params_pct", "paper_delta", "paper_params_pct"]
SHOWN = ["model", "corpus", "embedding", "bleu", "spread", "params", "paper_bleu", "delta", "params_pct"]
DENSE = ("concatenated", "dense", "dense_attention_1", "dense_attention_2")
"""Connections, of either side, and bridges of the models that are compared; those without any of them are baselines."""
SIZE = re.compile(r"[-_]?e(\d+)$")
"""How an address says the published size."""


def analyse(context: Context) -> Analysis:
    """A record for each row, over its seeds. UserError where all rows have one size."""
    finder = Finder(context.ledger, Data(context.data_dir))
    records = [record for s in context.subjects if (record := of_row(s, finder)) is not None]
    corpora, models = (list(dict.fromkeys(r[name] for r in records)) for name in ("corpus", "model"))
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
    notes.append("delta, params_pct: BLEU less, and parameters in percent of, those of the baseline at its largest embeddings")
    drawn = partial(embedding_size_figure.draw, records)
    return Analysis("embedding-size", COLUMNS, records, drawn, notes, summary(records), SHOWN)


def of_row(subject: Subject, finder: Finder) -> dict[str, Any] | None:
    row, model = subject.row, subject.spec.model
    found = figures(row, finder.outcomes(row, [subject.spec.seed]))
    if found is None or "bleu" not in found:
        return None
    return {
        "row": row.id,
        "label": subject.label,
        "corpus": _corpus(subject),
        "model": _named(subject),
        "layers": model.encoder.num_layers,
        "embedding": embedding(model),
        "bleu": found["bleu"],
        "spread": found["bleu_spread"],
        "seeds": len(found["seeds"]),
        "params": found["params"],
        "paper_embedding": int(said[1]) if (said := SIZE.search(row.id)) else embedding(model),
        "paper_bleu": number(row.expect.get("bleu")),
        "paper_params": number(row.expect.get("params")),
        "dense": dense(model),
    }


def dense(model: ModelSpec) -> bool:
    return any(part["kind"] in DENSE for part in (model.encoder.connection, model.decoder.connection, model.bridge))


def embedding(model: ModelSpec) -> int:
    """Width of the word embeddings."""
    return model.word_dim or model.d_model


def _corpus(subject: Subject) -> str:
    """By the address where it ends so (`de-en-e64`): under a profile several corpora are one."""
    last = subject.row.id.rpartition("/")[2]
    return SIZE.sub("", last) if SIZE.search(last) and SIZE.sub("", last) else subject.spec.data.corpus


def _named(subject: Subject) -> str:
    """The label without what follows its first comma, which names corpus and size."""
    return subject.label.partition(",")[0]


def _compared(record: Mapping[str, Any], records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Against the baseline; nothing for a baseline itself."""
    same = [r for r in records if not r["dense"] and (r["corpus"], r["layers"]) == (record["corpus"], record["layers"])]
    empty: dict[str, Any] = dict.fromkeys(("baseline", "delta", "params_pct", "paper_delta", "paper_params_pct"))
    if record["dense"] is False or not same:
        return empty
    base = max(same, key=lambda r: r["embedding"])
    found = empty | {"baseline": base["row"], "delta": round(record["bleu"] - base["bleu"], 4)}
    for prefix in ("", "paper_"):
        bleus, params = ((record[f"{prefix}{name}"], base[f"{prefix}{name}"]) for name in ("bleu", "params"))
        if None not in bleus:
            found[f"{prefix}delta"] = round(bleus[0] - bleus[1], 4)
        if None not in params and params[1]:
            found[f"{prefix}params_pct"] = round(100.0 * params[0] / params[1], 2)
    return found


def summary(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Of each dense row below the largest size BLEU and parameters against its baseline, then of each size how many are not below it."""
    largest = max(r["embedding"] for r in records)
    small = [r for r in records if r["baseline"] is not None and r["embedding"] < largest]
    lines = [
        f"{r['corpus']}: {r['model']} with e = {_size(r)} against {short_id(r['baseline'])}: "
        f"BLEU {_of(r['delta'], r['paper_delta'], '+.2f')}, parameters {_of(r['params_pct'], r['paper_params_pct'], '.0f', '%')}"
        for r in small
    ]
    for size in sorted({r["embedding"] for r in small}):
        own = [r for r in small if r["embedding"] == size]
        said = [_count([r[name] for r in own if r[name] is not None]) for name in ("delta", "paper_delta")]
        lines.append(f"e = {_size(own[0])}: not below the baseline with the largest embeddings: {said[0]} (paper {said[1]})")
    return lines


def _size(record: Mapping[str, Any]) -> str:
    """With the published size where a profile has another."""
    ours, published = record["embedding"], record["paper_embedding"]
    return str(ours) if ours == published else f"{ours} (as published {published})"


def _count(deltas: Sequence[float]) -> str:
    return f"{sum(delta >= 0 for delta in deltas)} of {len(deltas)}"


def _of(ours: float | None, theirs: float | None, form: str, unit: str = "") -> str:
    said = "not known" if ours is None else f"{ours:{form}}{unit}"
    return said if theirs is None else f"{said} (paper {theirs:{form}}{unit})"
