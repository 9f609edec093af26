"""Ten probing tasks on frozen encoders (Hao et al. 2019, Table 5; tasks and protocol of Conneau et al. 2018, SentEval).

Sentences pass through the row's own tokenisation and subwords into its encoder, in eval mode; the sentence vector is the mean of the top
states, including EOS. If the row has a second encoder, a gate trained with the classifier combines the means of both. The row's weights do
not change.
"""

from __future__ import annotations

from typing import Any

import pandas as pd
import torch
from sklearn.preprocessing import LabelEncoder

from orchestrator.analysis.base import Analysis, AnalysisContext, Records, Subject, register, table_of
from orchestrator.analysis.classifier import Examples, fit, search, share
from orchestrator.analysis.sentence_vectors import features, instances_of
from orchestrator.data.senteval import SPLITS, TASKS, SentEvalTask
from orchestrator.errors import UserError
from orchestrator.safe_text import log
from orchestrator.specs.positions import nearest, shown
from orchestrator.specs.table import number

DEFAULTS = {
    "tasks": "all",
    "nhid": "50,100,200",
    "dropout": "0,0.1,0.2",
    "l2": "1e-5,1e-4,1e-3,1e-2",
    "limit": "all",
    "device": "auto",
    "data": "",
}
"""tasks: names from the toolkit or the paper. nhid: hidden units, 0 for a linear classifier. limit: instances per split. data: folder of
files in SentEval's format, in the source language of the rows."""
SEED = 1111
"""The toolkit's."""
SHOWN = ["label", "task", "accuracy", "paper", "delta", "majority", "classes", "train", "test"]
LEAST_VALID = 200
"""Minimum number of va instances to compare settings on; with fewer, the best of twelve settings is mostly luck."""


@register("probing", options=DEFAULTS, needs_weights=True)
def analyse(context: AnalysisContext) -> Analysis:
    """Returns one record per row and task: `accuracy` on te and `valid_accuracy` on va, in percent.

    majority: accuracy of tr's most frequent label. paper: the figure of the analysis row for the task's column. delta: ours minus the
    paper's, on SentEval's data only. Raises UserError for invalid options or files, or if no row can be probed.
    """
    records, notes = context.each_row(analyse_row)
    frame = pd.DataFrame(records)
    notes.append("sentences go through each row's own tokenisation and subwords, also where they are tokenised already, as SentEval's are")
    if (frame.encoders == 2).any():
        notes.append("two encoders: a gate trained with the classifier combines them; the paper does not give its equation")
    if (limit := context.limit()) is not None:
        notes.append(f"at most {limit:,} instances a split: not comparable with the paper's numbers")
    if frame.valid.min() < LEAST_VALID:
        notes.append(f"no settings are compared on fewer than {LEAST_VALID} validation sentences: the first ones asked for are taken")
    if few := sorted({f"{r['test']} of {r['task']}" for r in records if r["test"] < 1000}):
        notes.append(f"few test sentences: {', '.join(few)}; their accuracy says little")
    both = frame.rename(columns={"accuracy": "ours"}).set_index(["row", "column"])[["ours", "paper"]].astype(float)
    table = both.stack().unstack("column", sort=False)
    return Analysis(records, notes=notes, summary=table_of("accuracy [%]", table, "{:.2f}"), shown=SHOWN)


def analyse_row(context: AnalysisContext, subject: Subject, notes: list[str]) -> Records:
    """Returns one record per task of a row for which there are sentences."""
    tasks, device, limit = _tasks(context.options["tasks"]), context.device(), context.limit()
    space: dict[str, Any] = {"nhid": context.numbers("nhid")} | {name: _rates(name, context.options[name]) for name in ("dropout", "l2")}
    source = instances_of(context, subject, tasks)
    if isinstance(source, str):
        notes.append(source)
        return []
    kind, instances = source
    if kind == "toy":
        missing = ", ".join(name for name in TASKS if name not in instances)
        notes.append(f"toy: sentences of the built-in language, not SentEval's data; not made for it: {missing}")
    prepared, model = context.prepared(subject), context.model(subject).to(device)
    records: Records = []
    for task in (task for task in tasks if task.name in instances):
        whole = instances[task.name]
        sample = whole if limit is None else whole.sample(frac=1, random_state=SEED).groupby("split").head(limit).sort_index()
        vectors, width = features(model, prepared.encode_text(sample["sentence"].tolist()))
        encoder = LabelEncoder().fit(whole["label"])  # of the whole tr, so that a limit does not change the problem
        labels = torch.as_tensor(encoder.transform(sample["label"]), dtype=torch.long, device=device)
        masks = {split: torch.as_tensor((sample["split"] == split).to_numpy(copy=True), device=device) for split in SPLITS}
        data = {split: (vectors[mask], labels[mask]) for split, mask in masks.items()}
        made = classify(data, width, len(encoder.classes_), space | ({"nhid": [0]} if task.name == "WordContent" else {}))
        log(f"{subject.name} {task.name}: {made['accuracy']:.2f} %")
        paper = number(subject.expect.get(task.column))
        delta = round(made["accuracy"] - paper, 4) if paper is not None and kind == "senteval" else None
        columns = subject.columns | {"data": kind, "encoders": 1 if model.extra_encoder is None else 2}
        records.append(columns | {"task": task.name, "column": task.column} | made | {"paper": paper, "delta": delta})
    return records


def classify(data: dict[str, Examples], width: int, classes: int, space: dict[str, Any]) -> dict[str, Any]:
    """Returns the columns of one task. space: the settings to compare, as `search` takes them; only the first ones if va has few instances.

    width: of the vectors of the first encoder.
    """
    sizes = {split: len(labels) for split, (_, labels) in data.items()}
    if sizes["va"] < LEAST_VALID:
        space = {option: values[:1] for option, values in space.items()}
    best = search(lambda setting: fit(data["tr"], data["va"], width, classes, setting, SEED), **space)
    majority = data["tr"][1].mode().values
    return {
        "accuracy": round(100.0 * share(best.probe, data["te"]), 4),
        "valid_accuracy": round(100.0 * best.valid, 4),
        "majority": round(100.0 * (data["te"][1] == majority).double().mean().item(), 4),
        "classes": classes,
        "train": sizes["tr"],
        "valid": sizes["va"],
        "test": sizes["te"],
        "nhid": best.setting.nhid,
        "dropout": best.setting.dropout,
        "l2": best.setting.l2,
        "epochs": best.epochs,
    }


def _tasks(text: str) -> tuple[SentEvalTask, ...]:
    """Parses tasks such as `Length,WC`, by the toolkit's or the paper's names, into the paper's order."""
    known = {name.lower(): task for task in TASKS.values() for name in (task.name, task.column)}
    parts = [part.strip() for part in text.split(",")] if text != "all" else list(TASKS)
    for part in parts:
        if part.lower() not in known:
            raise UserError(f"--option tasks={shown(text)}: found '{shown(part, 40)}'; {nearest(part, TASKS)}")
    return tuple(task for task in TASKS.values() if task in [known[part.lower()] for part in parts])


def _rates(name: str, text: str) -> list[float]:
    """Parses rates such as `0,0.1`, each at least 0 and below 1."""
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        values = [-1.0]
    if not all(0.0 <= value < 1.0 for value in values):
        raise UserError(f"--option {name}={shown(text)}: expected numbers from 0 to below 1, as in {name}={DEFAULTS[name]}")
    return values
