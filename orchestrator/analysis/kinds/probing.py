"""Ten probing tasks on frozen encoders (Hao et al. 2019, Table 5; tasks and protocol of Conneau et al. 2018, SentEval).

Sentences pass through the row's own tokenisation and subwords into its encoder, in eval mode; the sentence vector is the mean of the top
states, including EOS. If the row has a second encoder, a gate trained with the classifier combines the means of both. The row's weights do
not change.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd
import torch
from rich.progress import Progress
from sklearn.preprocessing import LabelEncoder

from models.transformer import Transformer
from orchestrator.analysis.base import Analysis, AnalysisContext, Records, Subject, by_row, group_by
from orchestrator.analysis.probing.classifier import ClassifierSetting, Fitted, fit, search, share
from orchestrator.analysis.probing.features import features
from orchestrator.analysis.probing.sentences import limited, source_of
from orchestrator.analysis.progress import progress_bar, progress_bars
from orchestrator.analysis.registry import register
from orchestrator.data.senteval import SPLITS, TASKS, SentEvalTask
from orchestrator.data.store import Prepared
from orchestrator.errors import UserError
from orchestrator.safe_text import visible
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


@dataclass(frozen=True)
class Options:
    """Parsed options. limit: maximum number of instances per split."""

    tasks: tuple[SentEvalTask, ...]
    nhid: list[int]
    dropout: list[float]
    l2: list[float]
    limit: int | None
    device: torch.device

    def search_space(self, task: SentEvalTask, valid: int) -> dict[str, Any]:
        """Returns the arguments of `search`, with one setting if va has few instances (`valid`).

        WordContent is linear, as in the toolkit.
        """
        space: dict[str, list[Any]] = {"nhid": [0] if task.name == "WordContent" else self.nhid, "dropout": self.dropout, "l2": self.l2}
        return space if valid >= LEAST_VALID else {name: values[:1] for name, values in space.items()}


def parse_options(context: AnalysisContext) -> Options:
    """Parses all options. Raises UserError naming the invalid one."""
    dropout, l2 = (_rates(name, context.options[name]) for name in ("dropout", "l2"))
    tasks = _tasks(context.options["tasks"])
    return Options(tasks, context.numbers("nhid"), dropout, l2, context.limit(), context.device())


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


@register("probing", options=DEFAULTS, needs_weights=True)
def analyse(context: AnalysisContext) -> Analysis:
    """Returns one record per row and task: `accuracy` on te and `valid_accuracy` on va, in percent.

    majority: accuracy of tr's most frequent label. paper: the figure of the analysis row for the task's column. delta: ours minus the
    paper's, on SentEval's data only. Raises UserError for invalid options or files, or if no row can be probed.
    """
    options = parse_options(context)
    with progress_bars() as bars:
        records, notes = context.each_row(partial(analyse_row, context, options, bars))
    return Analysis("probing", records, notes=notes + _notes(records, options), summary=summary(records), shown=SHOWN)


def analyse_row(context: AnalysisContext, options: Options, bars: Progress, subject: Subject, notes: list[str]) -> Records:
    """Returns one record per task of a row for which there are sentences."""
    source = source_of(context, subject, options.tasks)
    if isinstance(source, str):
        notes.append(source)
        return []
    notes += source.notes
    prepared, model = context.prepared(subject), context.model(subject).to(options.device)
    columns = subject.columns | {"data": source.data, "encoders": 1 if model.extra_encoder is None else 2}
    records: Records = []
    for task in options.tasks:
        if task.name in source.sets:
            made = analyse_task(model, prepared, source.sets[task.name], options, task, bars, f"{subject.name} {task.name}")
            paper = number(subject.expect.get(task.column))
            comparable = paper is not None and source.data == "senteval"
            delta = round(made["accuracy"] - paper, 4) if comparable else None
            bars.console.print(visible(f"{subject.name} {task.name}: {made['accuracy']:.2f} %"), markup=False, soft_wrap=True)
            records.append(columns | {"task": task.name, "column": task.column} | made | {"paper": paper, "delta": delta})
    return records


def analyse_task(
    model: Transformer, prepared: Prepared, whole: pd.DataFrame, options: Options, task: SentEvalTask, bars: Progress, name: str
) -> dict[str, Any]:
    """Returns the columns of one task. The classes are those of the whole tr, so that a limit does not change the problem."""
    encoder, instances = LabelEncoder().fit(whole["label"]), limited(whole, options.limit, SEED)
    with progress_bar(bars, name, len(instances), "sentences") as advance:
        vectors, width = features(model, prepared.encode_text(instances["sentence"].tolist()), advance)
    labels = torch.as_tensor(encoder.transform(instances["label"]), dtype=torch.long, device=options.device)
    masks = {split: torch.as_tensor((instances["split"] == split).to_numpy(copy=True), device=options.device) for split in SPLITS}
    data = {split: (vectors[mask], labels[mask]) for split, mask in masks.items()}
    sizes, classes = {split: len(labels) for split, (_, labels) in data.items()}, len(encoder.classes_)
    space = options.search_space(task, sizes["va"])
    fits = sum(len(space["dropout"]) if units else 1 for units in space["nhid"]) + len(space["l2"]) - 1
    with progress_bar(bars, name, fits, "classifiers") as advance:

        def fit_one(setting: ClassifierSetting) -> Fitted:
            fitted = fit(data["tr"], data["va"], width, classes, setting, SEED)
            advance()
            return fitted

        best = search(fit_one, **space)
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


def summary(records: Records) -> list[str]:
    """Returns the paper's table: a line per row, the paper's figures below ours."""
    columns = list(group_by(records, "column"))
    lines = [("accuracy [%]", columns)]
    for row in by_row(records).values():
        own = {r["column"]: r for r in row}
        for whose, field in (("ours", "accuracy"), ("paper", "paper")):
            cells = ["" if c not in own or own[c][field] is None else f"{own[c][field]:.2f}" for c in columns]
            lines += [(f"{row[0]['label']} ({whose})", cells)] if any(cells) else []
    width = max(len(name) for name, _ in lines)
    return [f"{name:{width}}" + "".join(f"{cell:>8}" for cell in cells) for name, cells in lines]


def _notes(records: Records, options: Options) -> list[str]:
    notes = ["sentences go through each row's own tokenisation and subwords, also where they are tokenised already, as SentEval's are"]
    if any(r["encoders"] == 2 for r in records):
        notes.append("two encoders: a gate trained with the classifier combines them; the paper does not give its equation")
    if options.limit is not None:
        notes.append(f"at most {options.limit:,} instances a split: not comparable with the paper's numbers")
    if any(r["valid"] < LEAST_VALID for r in records):
        notes.append(f"no settings are compared on fewer than {LEAST_VALID} validation sentences: the first ones asked for are taken")
    few = sorted({f"{r['test']} of {r['task']}" for r in records if r["test"] < 1000})
    return notes + ([f"few test sentences: {', '.join(few)}; their accuracy says little"] if few else [])
