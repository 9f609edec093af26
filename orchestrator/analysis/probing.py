"""Ten probing tasks on frozen encoders (Hao et al. 2019, Table 5; tasks and protocol of Conneau et al. 2018, SentEval).

A sentence goes through the row's own tokenisation and subwords into its encoder, in eval mode; its vector is the mean of the top states,
EOS counted. Where the row has a second encoder, the means of both are combined by a gate that is trained with the classifier. No weight of
the row changes.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from orchestrator.analysis import probing_classifier as classifier
from orchestrator.analysis import probing_figure
from orchestrator.analysis.base import Analysis, Context, Subject
from orchestrator.analysis.probing_data import Source, Sources, limited
from orchestrator.analysis.probing_features import features
from orchestrator.analysis.probing_options import LEAST_VALID, How, how_of
from orchestrator.analysis.probing_options import OPTIONS as OPTIONS
from orchestrator.analysis.progress import Bars
from orchestrator.data.senteval import SPLITS, ProbingSet, Task
from orchestrator.errors import UserError
from orchestrator.specs.table import number

if TYPE_CHECKING:
    from models.transformer import Transformer
    from orchestrator.data.store import Prepared

NEEDS_WEIGHTS = True
SHOWN = ["label", "task", "accuracy", "paper", "delta", "majority", "classes", "train", "test"]
COLUMNS = ["row", "label", "seed", "data", "encoders", "task", "column", "accuracy", "valid_accuracy", "paper", "delta", "majority"]
COLUMNS += ["classes", "train", "valid", "test", "nhid", "dropout", "l2", "epochs"]


def analyse(context: Context) -> Analysis:
    """A record for each row and task: `accuracy` on te, `valid_accuracy` on va, in percent.

    majority: of always saying tr's commonest label. paper: what the analysis row expects in the task's column. delta: ours minus the
    paper's, on SentEval's data alone. UserError for bad options and files, and where no row can be probed.
    """
    how = how_of(context)
    sources = Sources(context, how.tasks)
    records: list[dict[str, Any]] = []
    notes: list[str] = []
    with Bars() as bars:
        for subject in context.subjects:
            source = sources.of(subject)
            if isinstance(source, str):
                notes.append(source)
                continue
            records += of_row(context, subject, source, how, bars)
            notes += source.notes
    if not records:
        raise UserError(*(notes or ["probing: found no task to do"]))
    made = list(dict.fromkeys(notes)) + _notes(records, how)
    return Analysis("probing", COLUMNS, records, partial(probing_figure.draw, records), made, summary(records), SHOWN)


def of_row(context: Context, subject: Subject, source: Source, how: How, bars: Bars) -> list[dict[str, Any]]:
    """The tasks of one row that its sentences have."""
    prepared, model = context.prepared(subject), context.model(subject).to(how.device)
    about = {"row": subject.row.id, "label": subject.label, "seed": subject.spec.seed, "data": source.data}
    about["encoders"] = 1 if model.extra_encoder is None else 2
    expect = (subject.asked or subject.row).expect
    records = []
    for task in how.tasks:
        if task.name not in source.sets:
            continue
        started = time.monotonic()
        name = f"{subject.row.id} seed {subject.spec.seed} {task.name}"
        record: dict[str, Any] = about | {"task": task.name, "column": task.column}
        record |= of_task(model, prepared, source.sets[task.name], how, task, bars, name)
        paper = expect.get(task.column)
        record["paper"] = None if isinstance(paper, bool) else number(paper)
        known = record["paper"] is not None and source.data == "senteval"
        record["delta"] = round(record["accuracy"] - record["paper"], 4) if known else None
        records.append(record)
        bars.tell(f"{name}: {record['accuracy']:.2f} % in {time.monotonic() - started:.0f} s")
    return records


def of_task(model: Transformer, prepared: Prepared, whole: ProbingSet, how: How, task: Task, bars: Bars, name: str) -> dict[str, Any]:
    """What a record says of one task. Classes are those of the whole tr, so that a limit does not change what there is to tell apart."""
    from sklearn.preprocessing import LabelEncoder

    names, instances = LabelEncoder().fit(whole["tr"].labels), limited(whole, how.limit, how.seed)
    lines = [line for split in SPLITS for line in instances[split].sentences]
    reading = bars.bar(name, len(lines), "sentences")
    found = features(model, prepared.encode_text(lines), reading)
    reading.close()
    ends = torch.tensor([len(instances[split]) for split in SPLITS]).cumsum(0).tolist()
    data = {}
    for split, start, end in zip(SPLITS, [0, *ends], ends, strict=False):
        labels = torch.as_tensor(names.transform(instances[split].labels), dtype=torch.long)
        data[split] = classifier.Data(found.at(slice(start, end)), labels.to(how.device))
    settings, decays = how.search(task, len(data["va"]))
    training = bars.bar(name, len(settings) + len(decays) - 1, "classifiers")
    best = classifier.search(data["tr"], data["va"], len(names.classes_), settings, decays, how.seed, training)
    training.close()
    commonest = Counter(instances["tr"].labels).most_common(1)[0][0]
    record = {"accuracy": round(100.0 * classifier.share(best.probe, data["te"]), 4), "valid_accuracy": round(100.0 * best.valid, 4)}
    record |= {"majority": round(100.0 * instances["te"].labels.count(commonest) / len(instances["te"]), 4), "classes": len(names.classes_)}
    record |= {long: len(instances[split]) for long, split in zip(("train", "valid", "test"), SPLITS, strict=True)}
    return record | {"nhid": best.setting.nhid, "dropout": best.setting.dropout, "l2": best.setting.l2, "epochs": best.epochs}


def summary(records: Sequence[dict[str, Any]]) -> list[str]:
    """The paper's table: a line a row, the paper's figures below ours."""
    columns = list(dict.fromkeys(r["column"] for r in records))
    rows = list(dict.fromkeys((r["row"], r["seed"]) for r in records))
    lines = [("accuracy [%]", columns)]
    for row in rows:
        own = {r["column"]: r for r in records if (r["row"], r["seed"]) == row}
        label = next(iter(own.values()))["label"]
        for whose, field in (("ours", "accuracy"), ("paper", "paper")):
            cells = ["" if c not in own or own[c][field] is None else f"{own[c][field]:.2f}" for c in columns]
            lines += [(f"{label} ({whose})", cells)] if any(cells) else []
    width = max(len(name) for name, _ in lines)
    return [f"{name:{width}}" + "".join(f"{cell:>8}" for cell in cells) for name, cells in lines]


def _notes(records: Sequence[dict[str, Any]], how: How) -> list[str]:
    found = ["sentences go through each row's own tokenisation and subwords, also where they are tokenised already, as SentEval's are"]
    if any(r["encoders"] == 2 for r in records):
        gate = "s = g*m_e + (1-g)*P m_r, g = sigmoid(W[m_e; m_r])"
        found.append(f"two encoders: {gate}, trained with the classifier; the paper says no more than that a gate combines them")
    if how.limit is not None:
        found.append(f"at most {how.limit:,} instances a split: not comparable with the paper's numbers")
    if any(r["valid"] < LEAST_VALID for r in records):
        found.append(f"no settings are compared on fewer than {LEAST_VALID} validation sentences: the first ones asked for are taken")
    few = sorted({f"{r['test']} of {r['task']}" for r in records if r["test"] < 1000})
    return found + ([f"few test sentences: {', '.join(few)}; their accuracy says little"] if few else [])
