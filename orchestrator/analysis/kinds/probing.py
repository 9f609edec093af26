"""Ten probing tasks on frozen encoders (Hao et al. 2019, Table 5; tasks and protocol of Conneau et al. 2018, SentEval).

Sentences pass through the row's tokenisation and subwords into its encoder, in eval mode; the sentence vector is the mean of the top
states, with EOS. With a second encoder, a gate trained with the classifier combines the means of both. The row's weights stay fixed.

Shapes: N sentences, B batch, S source positions (including EOS), D d_model, R width of the extra memory (0 without an extra encoder).
"""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from sklearn.preprocessing import LabelEncoder
from torch import Tensor

from models.transformer import PAD, Transformer
from orchestrator.analysis.base import Analysis, AnalysisContext, Records, Subject, register, table_of
from orchestrator.analysis.classifier import Examples, fit, search, share
from orchestrator.data.senteval import NAME, SOURCE, SPLITS, TASKS, load
from orchestrator.decoding.translate import batches, pad
from orchestrator.errors import UserError
from orchestrator.safe_text import log
from orchestrator.specs.corpora import load_entry
from orchestrator.specs.positions import shown
from orchestrator.specs.table import number
from orchestrator.training.runtime import best_device

OPTIONS = {"data": (str, "")}
"""data: folder of files in SentEval's format, in the source language of the rows."""
SPACE: dict[str, Any] = {"nhid": (50, 100, 200), "dropout": (0.0, 0.1, 0.2), "l2": (1e-5, 1e-4, 1e-3, 1e-2)}
"""Candidate settings of the classifier: hidden units, dropout, weight decay."""
SEED = 1111
"""Seed of the toolkit."""
SHOWN = ["label", "task", "accuracy", "paper", "delta", "majority", "classes", "train", "test"]
LANGUAGE = "en"
"""Language of SentEval's sentences."""
BATCH_TOKENS = 8192
LEAST_VALID = 200
"""Minimum number of va instances to compare settings on; with fewer, the best of twelve settings is mostly luck."""
_instances = cache(load)


@register("probing", options=OPTIONS, needs_weights=True)
def analyse(context: AnalysisContext) -> Analysis:
    """Returns one record per row and task: `accuracy` on te and `valid_accuracy` on va, in percent.

    majority: accuracy of tr's most frequent label. paper: the figure of the analysis row for the task's column. delta: ours minus the
    paper's. Raises UserError for invalid options or files, or if no row can be probed.
    """
    records, notes = context.each_row(analyse_row)
    frame = pd.DataFrame(records)
    notes.append("sentences go through each row's own tokenisation and subwords, also where they are tokenised already, as SentEval's are")
    if (frame.encoders == 2).any():
        notes.append("two encoders: a gate trained with the classifier combines them; the paper does not give its equation")
    if frame.valid.min() < LEAST_VALID:
        notes.append(f"no settings are compared on fewer than {LEAST_VALID} validation sentences: the first ones are taken")
    if few := sorted({f"{r['test']} of {r['task']}" for r in records if r["test"] < 1000}):
        notes.append(f"few test sentences: {', '.join(few)}; their accuracy says little")
    both = frame.rename(columns={"accuracy": "ours"}).set_index(["row", "column"])[["ours", "paper"]].astype(float)
    table = both.stack().unstack("column", sort=False)
    return Analysis(records, notes=notes, summary=table_of("accuracy [%]", table, "{:.2f}"), shown=SHOWN, heads={"delta": "to paper"})


def analyse_row(context: AnalysisContext, subject: Subject, notes: list[str]) -> Records:
    """Returns one record per task. A row with another source language than the sentences has no records and a note."""
    device, folder, language = best_device(), context.options["data"], load_entry(subject.spec.data.corpus).src
    if not folder and language != LANGUAGE:
        hint = "--option data=DIR has files in its language"
        notes.append(f"{subject.row.id}: its source language is {language}, SentEval's is {LANGUAGE}; left out ({hint})")
        return []
    instances = _instances(tuple(TASKS.values()), _folder(context))
    prepared, model = context.prepared(subject), context.model(subject).to(device)
    records: Records = []
    for task in TASKS.values():
        sample = instances[task.name]
        vectors, width = features(model, prepared.encode_text(sample["sentence"].tolist()))
        encoder = LabelEncoder().fit(sample["label"])
        labels = torch.as_tensor(encoder.transform(sample["label"]), dtype=torch.long, device=device)
        masks = {split: torch.as_tensor((sample["split"] == split).to_numpy(copy=True), device=device) for split in SPLITS}
        data = {split: (vectors[mask], labels[mask]) for split, mask in masks.items()}
        made = classify(data, width, len(encoder.classes_), SPACE | ({"nhid": (0,)} if task.name == "WordContent" else {}))
        log(f"{subject.name} {task.name}: {made['accuracy']:.2f} %")
        paper = number(subject.expect.get(task.column))
        delta = None if paper is None else round(made["accuracy"] - paper, 4)
        columns = subject.columns | {"encoders": 1 if model.extra_encoder is None else 2}
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
        **asdict(best.setting),
        "epochs": best.epochs,
    }


def _folder(context: AnalysisContext) -> Path:
    folder = context.options["data"]
    if folder and not Path(folder).is_dir():
        raise UserError(f"--option data={shown(folder)}: no such folder; expected one that holds sentence_length.txt and so on")
    if not folder and context.data_dir is None:
        raise UserError(f"probing: found no --data-dir; expected one with the folder {NAME}: {SOURCE}, or --option data=FOLDER")
    return Path(folder) if folder else Path(context.data_dir or "") / NAME


@torch.no_grad()
def features(model: Transformer, ids: Sequence[Sequence[int]]) -> tuple[Tensor, int]:
    """Returns (vectors [N, D + R] in fp32, D) on the model's device. `ids` have no EOS. The model must be in eval mode."""
    assert not model.training, "dropout would change the vectors"
    device = next(model.parameters()).device
    order: list[int] = []
    means: list[Tensor] = []
    last: dict[str, Any] = {}  # the last output of each encoder, before any bridge
    with ExitStack() as hooks:
        hooks.enter_context(model.encoder.register_forward_hook(lambda module, inputs, output: last.update(top=output[0])))
        if model.extra_encoder is not None:
            hooks.enter_context(model.extra_encoder.register_forward_hook(lambda module, inputs, output: last.update(extra=output)))
        for indices in batches([max(1, len(sentence)) for sentence in ids], BATCH_TOKENS, 256):
            src = pad([ids[i] for i in indices]).to(device)
            model.encode(src)
            vectors = [mean(last["top"], src != PAD)]
            if "extra" in last:
                vectors.append(mean(last["extra"].keys, last["extra"].mask))
            means.append(torch.cat(vectors, dim=-1))
            order += indices
    return torch.cat(means)[torch.tensor(order, device=device).argsort()], vectors[0].shape[1]


def mean(states: Tensor, mask: Tensor) -> Tensor:
    """Averages states [B, S, D] over positions where the mask [B, S] is True; returns [B, D]."""
    weights = mask.to(torch.float32)
    total = torch.einsum("bsd,bs->bd", states.float().masked_fill(~mask[..., None], 0.0), weights)
    return total / weights.sum(1, keepdim=True)
