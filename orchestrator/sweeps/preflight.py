"""Checks before anything trains: corpora, positions, metrics, precision."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import torch

from models import inference
from models.transformer import build
from orchestrator.data import expected_text
from orchestrator.data.integrity import DamagedError
from orchestrator.data.prepare import Prepared, prepare
from orchestrator.errors import UserError, collecting, raise_all
from orchestrator.safe_text import log
from orchestrator.specs import corpora
from orchestrator.specs.bleu_tokenizer import check_installed
from orchestrator.specs.schema import DataSpec, ScoreSpec
from orchestrator.sweeps.live import phase
from orchestrator.sweeps.metric_compatibility import metric_warnings
from orchestrator.sweeps.task import Task
from orchestrator.training.initial_weights import warm_start
from orchestrator.training.runtime import best_device


def prepare_corpora(tasks: Sequence[Task], data_dir: Path | None, cache_dir: Path) -> None:
    """Prepares the corpora of all tasks. Warns about metrics, vocabularies and texts. UserError: see `prepare`, `check_positions`."""
    warnings, differences, pieces = dict[str, None](), set[str](), dict[str | None, object]()
    sizes: dict[str, tuple[int, int]] = {}
    for data, group in _by_data(tasks):
        with phase(f"preparing {data.corpus}"):
            prepared = prepare(data, data_dir, cache_dir)
        scores = list({s.spec.model_dump_json(): s.spec for task in group for s in task.scorings.values()}.values())
        try:
            found = _metric_warnings(prepared, data, group, scores)
        except DamagedError:
            prepared = prepare(data, data_dir, cache_dir, verify=True)
            found = _metric_warnings(prepared, data, group, scores)
        warnings |= dict.fromkeys(found)
        sizes |= {task.train_key: (prepared.src_size, prepared.tgt_size) for task in group}
        pieces |= {task.train_key: prepared.stats["vocab_sha256"] for task in group}
        splits = {*expected_text.TRAINING, *(score.test for score in scores)}
        differences |= set(expected_text.unexpected(data.corpus, expected_text.of_prepared(prepared, splits)))
    others = (task.id for task in tasks if pieces.get(task.parent_key, own := pieces[task.train_key]) != own)
    warnings |= dict.fromkeys(f"{row}: starts from a row with another vocabulary; embeddings of equal size are copied" for row in others)
    warnings |= dict.fromkeys(_other_shapes(tasks, sizes))
    log(*(f"warning: {line}" for line in [*warnings, *sorted(differences)]))


def _other_shapes(tasks: Sequence[Task], sizes: Mapping[str, tuple[int, int]]) -> list[str]:
    """Returns a line per row with tensors that have other shapes in its parent. UserError: no tensor fits. sizes: of the vocabularies."""
    by_key, problems, lines = {task.train_key: task for task in tasks}, list[str](), list[str]()
    for task in {task.id: task for task in tasks if task.parent_key in by_key}.values():
        with collecting(problems, f"{task.id}: "), torch.device("meta"):
            own, its = (build(each.spec.model.model_dump(), *sizes[each.train_key]) for each in (task, by_key[str(task.parent_key)]))
            names = warm_start(own, dict(its.named_parameters()))
            if other := sorted({*names["fresh"]} & {*names["unused"]}):
                more = f" and {len(other) - 3} more" if len(other) > 3 else ""
                lines.append(f"{task.id}: does not start from its parent's {', '.join(other[:3])}{more}, which have other shapes there")
    raise_all(problems)
    return lines


def _metric_warnings(prepared: Prepared, data: DataSpec, tasks: Sequence[Task], scores: Sequence[ScoreSpec]) -> list[str]:
    for task in tasks:
        check_positions(task, prepared)
    return [line for score in scores for line in metric_warnings(prepared, data, score)]


def verify_corpora(tasks: Sequence[Task], data_dir: Path | None, cache_dir: Path) -> None:
    """Prepares a corpus again if one of its files has changed since it was written."""
    for data, _ in _by_data(tasks):
        with phase(f"checking the prepared files of {data.corpus}"):
            prepare(data, data_dir, cache_dir, verify=True)


def _by_data(tasks: Sequence[Task]) -> Iterator[tuple[DataSpec, list[Task]]]:
    groups: dict[str, list[Task]] = {}
    for task in tasks:
        groups.setdefault(task.spec.data.model_dump_json(), []).append(task)
    for group in groups.values():
        yield group[0].spec.data, group


def check_positions(task: Task, prepared: Prepared) -> None:
    """UserError if a sentence of the training, validation or test data is longer than the model's learned positions."""
    model = task.spec.model
    if model.positions != "learned":
        return
    tests = dict.fromkeys(scoring.spec.test for scoring in task.scorings.values())
    for split in dict.fromkeys(("train", "valid", *tests)):
        pairs = prepared.pairs(split)
        sides = [pairs.src_lengths, pairs.tgt_lengths] if split in ("train", "valid") else [pairs.src_lengths]
        longest = 1 + max(int(lengths.max(initial=0)) for lengths in sides)
        if longest > model.max_positions:
            expected = f"expected at most {model.max_positions}, model.max_positions (data.truncate cuts longer ones)"
            raise UserError(f"{task.id}: {split}: found a sentence of {longest} subwords with its EOS; {expected}")


def check_metrics(tasks: Iterable[Task]) -> None:
    """UserError with a line for each row whose BLEU needs packages that are not installed."""
    problems: list[str] = []
    for task in tasks:
        for scoring in task.scorings.values():
            with collecting(problems, f"{task.id}: "):
                check_installed(scoring.spec, corpora.load_entry(task.spec.data.corpus).tgt)
    raise_all(problems)


def check_precision(tasks: Sequence[Task]) -> None:
    """UserError with a line for each row whose decoding precision this machine does not support."""
    if "RAY_ADDRESS" in os.environ:  # the cluster's machines decode, not this one
        return
    problems = []
    for row, precision in {task.id: task.spec.decode.precision for task in tasks}.items():
        try:
            if precision != "fp32":
                inference.find_maker(precision, best_device())
        except inference.PrecisionError as error:
            problems.append(f"{row}: decode.{error}")
    raise_all(problems)
