"""Ten probing tasks on frozen encoders (Hao et al. 2019, Table 5; tasks and protocol of Conneau et al. 2018, SentEval).

Sentences pass through the row's own tokenisation and subwords into its encoder, in eval mode; the sentence vector is the mean of the top
states, including EOS. If the row has a second encoder, a gate trained with the classifier combines the means of both. The row's weights do
not change.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from matplotlib.figure import Figure
from rich.progress import Progress
from sklearn.preprocessing import LabelEncoder

from models.transformer import Transformer
from orchestrator.analysis import figures
from orchestrator.analysis.base import Analysis, AnalysisContext, Records, Subject, by_row, group_by
from orchestrator.analysis.probing import classifier
from orchestrator.analysis.probing.features import features
from orchestrator.analysis.probing.sentences import SentenceSource, Sources, limited
from orchestrator.analysis.progress import progress_bar, progress_bars
from orchestrator.analysis.registry import register
from orchestrator.data.senteval import SPLITS, TASKS, ProbingSet, SentEvalTask
from orchestrator.data.store import Prepared
from orchestrator.errors import UserError
from orchestrator.safe_text import visible
from orchestrator.specs.positions import nearest, shown
from orchestrator.specs.table import number

DEFAULTS = {
    "tasks": "all",
    "classifier": "mlp",
    "nhid": "50,100,200",
    "dropout": "0,0.1,0.2",
    "l2": "1e-5,1e-4,1e-3,1e-2",
    "limit": "all",
    "seed": "1111",
    "device": "auto",
    "data": "",
    "derive": "",
    "language": "en",
}
"""tasks: names from the toolkit or the paper. limit: instances per split. data: folder of files in SentEval's format. derive: file of plain
sentences. language: language of these files."""
SHOWN = ["label", "task", "accuracy", "paper", "delta", "majority", "classes", "train", "test"]
COLUMNS = [
    *("row", "label", "seed", "data", "encoders", "task", "column", "accuracy", "valid_accuracy", "paper", "delta", "majority"),
    *("classes", "train", "valid", "test", "nhid", "dropout", "l2", "epochs"),
]
LEAST_VALID = 200
"""Minimum number of va instances to compare settings on; with fewer, the best of twelve settings is mostly luck."""
ROW_WIDTH = 0.7
"""Fraction of a task's width in the figure that its rows occupy."""


@dataclass(frozen=True)
class Options:
    """Parsed options. limit: maximum number of instances per split."""

    tasks: list[SentEvalTask]
    nhid: list[int]
    dropout: list[float]
    l2: list[float]
    limit: int | None
    seed: int
    device: torch.device

    def search_space(self, task: SentEvalTask, valid: int) -> tuple[list[classifier.ClassifierSetting], list[float]]:
        """Returns (settings of the first stage, weight decays), only the first of each if va has few instances (`valid`).

        WordContent always uses a linear classifier, as in the toolkit.
        """
        settings = list(classifier.settings([0] if task.name == "WordContent" else self.nhid, self.dropout, self.l2))
        return (settings, self.l2) if valid >= LEAST_VALID else (settings[:1], self.l2[:1])


def parse_options(context: AnalysisContext) -> Options:
    """Parses all options. Raises UserError naming the invalid one."""
    nhid = [0] if context.choice("classifier", "mlp", "logreg") == "logreg" else context.numbers("nhid")
    dropout, l2 = (_rates(name, context.options[name]) for name in ("dropout", "l2"))
    return Options(_tasks(context.options["tasks"]), nhid, dropout, l2, context.limit(), context.integer("seed"), context.device())


def _tasks(text: str) -> list[SentEvalTask]:
    """Parses tasks such as `Length,WC`, by the toolkit's or the paper's names, into the paper's order."""
    known = {name.lower(): task for task in TASKS.values() for name in (task.name, task.column)}
    parts = [part.strip() for part in text.split(",")] if text != "all" else list(TASKS)
    for part in parts:
        if part.lower() not in known:
            raise UserError(f"--option tasks={shown(text)}: found '{shown(part, 40)}'; {nearest(part, TASKS)}")
    names = {known[part.lower()].name for part in parts}
    return [task for task in TASKS.values() if task.name in names]


def _rates(name: str, text: str) -> list[float]:
    """Parses rates such as `0,0.1`, each at least 0 and below 1."""
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        values = []
    if not values or not all(0.0 <= value < 1.0 for value in values):
        raise UserError(f"--option {name}={shown(text)}: expected numbers from 0 to below 1, as in {name}={DEFAULTS[name]}")
    return values


@register("probing", options=DEFAULTS, needs_weights=True)
def analyse(context: AnalysisContext) -> Analysis:
    """Returns one record per row and task: `accuracy` on te and `valid_accuracy` on va, in percent.

    majority: accuracy of tr's most frequent label. paper: the figure of the analysis row for the task's column. delta: ours minus the
    paper's, on SentEval's data only. Raises UserError for invalid options or files, or if no row can be probed.
    """
    options = parse_options(context)
    sources = Sources(context, options.tasks)
    records: Records = []
    notes: list[str] = []
    with progress_bars() as bars:
        for subject in context.subjects:
            source = sources.of(subject)
            if isinstance(source, str):
                notes.append(source)
                continue
            records += analyse_row(context, subject, source, options, bars)
            notes += source.notes
    if not records:
        raise UserError(*(notes or ["probing: found no task to do"]))
    notes = list(dict.fromkeys(notes)) + _notes(records, options)
    return Analysis("probing", COLUMNS, records, partial(draw, records), notes, summary(records), SHOWN)


def analyse_row(context: AnalysisContext, subject: Subject, source: SentenceSource, options: Options, bars: Progress) -> Records:
    """Returns one record per task of a row for which there are sentences."""
    prepared, model = context.prepared(subject), context.model(subject).to(options.device)
    columns = subject.columns | {"data": source.data, "encoders": 1 if model.extra_encoder is None else 2}
    records: Records = []
    for task in options.tasks:
        if task.name not in source.sets:
            continue
        started = time.monotonic()
        name = f"{subject.name} {task.name}"
        record = columns | {"task": task.name, "column": task.column}
        record |= analyse_task(model, prepared, source.sets[task.name], options, task, bars, name)
        paper = number(subject.expect.get(task.column))
        comparable = paper is not None and source.data == "senteval"
        record |= {"paper": paper, "delta": round(record["accuracy"] - paper, 4) if comparable else None}
        records.append(record)
        line = f"{name}: {record['accuracy']:.2f} % in {time.monotonic() - started:.0f} s"
        bars.console.print(visible(line), markup=False, soft_wrap=True)
    return records


def analyse_task(
    model: Transformer, prepared: Prepared, whole: ProbingSet, options: Options, task: SentEvalTask, bars: Progress, name: str
) -> dict[str, Any]:
    """Returns the columns of one task. The classes are those of the whole tr, so that a limit does not change the problem."""
    encoder, instances = LabelEncoder().fit(whole["tr"].labels), limited(whole, options.limit, options.seed)
    lines = [line for split in SPLITS for line in instances[split].sentences]
    with progress_bar(bars, name, len(lines), "sentences") as advance:
        vectors = features(model, prepared.encode_text(lines), advance)
    ends = torch.tensor([len(instances[split]) for split in SPLITS]).cumsum(0).tolist()
    data = {}
    for split, start, end in zip(SPLITS, [0, *ends], ends, strict=False):
        labels = torch.as_tensor(encoder.transform(instances[split].labels), dtype=torch.long)
        data[split] = classifier.Examples(vectors.at(slice(start, end)), labels.to(options.device))
    settings, decays = options.search_space(task, len(data["va"]))
    classes = len(encoder.classes_)
    with progress_bar(bars, name, len(settings) + len(decays) - 1, "classifiers") as advance:
        best = classifier.search(data["tr"], data["va"], classes, settings, decays, options.seed, advance)
    majority = Counter(instances["tr"].labels).most_common(1)[0][0]
    return {
        "accuracy": round(100.0 * classifier.share(best.probe, data["te"]), 4),
        "valid_accuracy": round(100.0 * best.valid, 4),
        "majority": round(100.0 * instances["te"].labels.count(majority) / len(instances["te"]), 4),
        "classes": classes,
        "train": len(instances["tr"]),
        "valid": len(instances["va"]),
        "test": len(instances["te"]),
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
        gate = "s = g*m_e + (1-g)*P m_r, g = sigmoid(W[m_e; m_r])"
        notes.append(f"two encoders: {gate}, trained with the classifier; the paper says no more than that a gate combines them")
    if options.limit is not None:
        notes.append(f"at most {options.limit:,} instances a split: not comparable with the paper's numbers")
    if any(r["valid"] < LEAST_VALID for r in records):
        notes.append(f"no settings are compared on fewer than {LEAST_VALID} validation sentences: the first ones asked for are taken")
    few = sorted({f"{r['test']} of {r['task']}" for r in records if r["test"] < 1000})
    return notes + ([f"few test sentences: {', '.join(few)}; their accuracy says little"] if few else [])


def draw(records: Records, figure: Figure) -> None:
    """Draws one column per task and one colour per row: ours filled, the paper's hollow, the most frequent label's accuracy grey."""
    (axes,) = figures.panels(figure, 1, height=2.4)
    styles = figures.styles(records)
    columns, rows = group_by(records, "column"), by_row(records)
    names = list(columns)
    for index, (key, own) in enumerate(rows.items()):
        offset = ROW_WIDTH * ((index + 0.5) / len(rows) - 0.5)
        look = styles[key].line("none")
        places = [names.index(r["column"]) + offset for r in own]
        axes.plot(places, [r["accuracy"] for r in own], label=styles[key].name, **look)
        reported = [(place, r["paper"]) for place, r in zip(places, own, strict=True) if r["paper"] is not None]
        if reported:
            axes.plot(*zip(*reported, strict=True), **look, markerfacecolor="none")
    for place, own in enumerate(columns.values()):
        low = sum(r["majority"] for r in own) / len(own)
        label = "commonest label" if place == 0 else "_"
        axes.hlines(low, place - 0.45, place + 0.45, color="0.6", linewidth=1.0, label=label)
    axes.set_xticks(range(len(columns)), names)
    axes.set_xlim(-0.5, len(columns) - 0.5)
    paper = "; hollow: the paper" if any(r["paper"] is not None for r in records) else ""
    axes.set(ylabel=f"accuracy [%]{paper}")
    axes.grid(axis="y")
    figures.legend(figure, axes.get_legend_handles_labels()[0])
