"""Timed training steps and decodings of several rows in turns."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar

import torch
from torch import nn

from models.transformer import Transformer, build, count_parameters
from orchestrator import cpu
from orchestrator.analysis.base import Context, Subject
from orchestrator.data.store import Prepared
from orchestrator.decoding.fixed_length import FullLength
from orchestrator.decoding.translate import decode_corpus
from orchestrator.errors import UserError
from orchestrator.specs.schema import DecodeSpec
from orchestrator.sweeps.row import load_model
from orchestrator.training.batches import Feed, Update
from orchestrator.training.objective import Objective, Share
from orchestrator.training.optim import clip, optimizer
from orchestrator.training.runtime import best_device

C = TypeVar("C")


@dataclass(frozen=True)
class Settings:
    """rounds: turns that count; steps: updates, sentences: translations of one row in one round; clock: wall or cpu."""

    rounds: int
    steps: int
    sentences: int
    clock: str


@dataclass
class Case:
    """One row, ready to train and to decode. seconds: of each round; updates, sources: the same in every round."""

    subject: Subject
    model: Transformer
    trained: bool
    updates: list[Update]
    sources: list[list[int]]
    device: torch.device
    search: DecodeSpec
    clock: str
    forced: bool = False
    work: dict[str, int] = field(default_factory=dict)
    seconds: dict[str, list[float]] = field(default_factory=lambda: {"train": [], "decode": []})
    output_tokens: int = 0

    def __post_init__(self) -> None:
        self.params = count_parameters(self.model)
        self.objective = Objective(self.model, self.subject.spec.optim.label_smoothing)
        if self.subject.spec.train.compile:
            self.objective.compile()
        self.optimizer = optimizer(self.model, self.subject.spec.optim)  # its rate stays 0: same work, same weights

    def rates(self, name: str) -> list[float]:
        """Updates/s or sentences/s of each round."""
        return [self.work[name] / seconds for seconds in self.seconds[name]]

    def train(self) -> float:
        """Seconds of all updates."""
        cpu.use(self.subject.spec.train.threads)
        self.model.train()
        started = self._now()
        for update in self.updates:
            self._step(update)
        return self._now() - started

    def decode(self) -> float:
        """Seconds of all sentences."""
        cpu.use(self.subject.spec.train.threads)
        model: nn.Module = FullLength(self.model) if self.forced else self.model
        search = self.search.model_copy(update={"max_ratio": 1.0, "max_extra": 0}) if self.forced else self.search
        started = self._now()
        found = decode_corpus(model.eval(), self.sources, search)
        seconds = self._now() - started
        self.output_tokens = sum(len(hypotheses[0].ids) + 1 for hypotheses in found)
        return seconds

    def _step(self, update: Update) -> None:
        """As in the training loop."""
        spec = self.subject.spec
        self.optimizer.zero_grad(set_to_none=True)
        for batch in update.micro:
            tensors = (t.to(self.device, non_blocking=True) for t in (batch.src, batch.tgt_in, batch.tgt_out))
            with torch.autocast(self.device.type, torch.bfloat16, enabled=spec.train.precision == "bf16"):
                loss, _ = self.objective(*tensors, Share(update.src_tokens, update.tgt_tokens, 1.0))
                loss.backward()
        clip(self.model, spec.optim.clip_norm)
        self.optimizer.step()

    def _now(self) -> float:
        return now(self.clock, self.device)


def measure(context: Context, settings: Settings, device: torch.device) -> tuple[list[Case], bool]:
    """Cases with their seconds, and whether outputs were forced to the length of their sources (not all rows have trained weights)."""
    cases = [_case(context, subject, settings, device) for subject in context.subjects]
    forced = not all(case.trained for case in cases)
    for case in cases:
        case.forced = forced
        case.work = {"train": len(case.updates), "decode": len(case.sources)}
    for number, name, case in turns(cases, settings.rounds, ("train", "decode")):
        seconds = case.train() if name == "train" else case.decode()
        if number >= 0:
            case.seconds[name].append(seconds)
    return cases, forced


def turns(cases: Sequence[C], rounds: int, works: Sequence[str] = ("decode",)) -> Iterator[tuple[int, str, C]]:
    """(round, work, case): A, B, C, B, C, A, ... Round -1 does not count: memory of these sizes is taken for the first time.

    Each round begins with another case, for the first one finds the caches as others left them.
    """
    for number in range(-1, rounds):
        first = max(number, 0) % len(cases)
        for work in works:
            yield from ((number, work, case) for case in (*cases[first:], *cases[:first]))


def now(clock: str, device: torch.device) -> float:
    """Seconds of the process (clock `cpu`) or of the wall, once the device has done its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.process_time() if clock == "cpu" else time.perf_counter()


def device_of(name: str) -> torch.device:
    """UserError for a GPU that is not there."""
    if name == "cuda" and not torch.cuda.is_available():
        raise UserError("--option device='cuda': found no CUDA device; expected auto or cpu")
    return best_device() if name == "auto" else torch.device(name)


def clock_of(name: str, context: Context, device: torch.device) -> str:
    """wall or cpu. UserError for the CPU's clock where a GPU computes."""
    if name == "cpu" and device.type != "cpu":
        raise UserError(f"--option clock='cpu': the device is {device.type}; expected wall")
    alone = device.type == "cpu" and all(subject.spec.train.threads == 1 for subject in context.subjects)
    return ("cpu" if alone else "wall") if name == "auto" else name


def _case(context: Context, subject: Subject, settings: Settings, device: torch.device) -> Case:
    spec, prepared = subject.spec, context.prepared(subject)
    model, trained = model_of(context, subject, prepared, device)
    feed = Feed(prepared.pairs("train"), spec.batch, spec.seed)
    updates = list(islice(feed.updates(0, 0), settings.steps))
    return Case(subject, model, trained, updates, some_sources(subject, prepared, settings.sentences), device, spec.search, settings.clock)


def some_sources(subject: Subject, prepared: Prepared, count: int) -> list[list[int]]:
    """Ids of `count` sentences at most, spread over the whole test set. UserError where it has no words."""
    test = subject.spec.score.test
    lines = prepared.sources(test)
    every = max(1, len(lines) // count)
    sources = [ids for ids in prepared.encode(lines[::every][:count]) if ids]
    if not sources:
        raise UserError(f"{subject.row.id}: test set {test} has no sentence to decode")
    return sources


def model_of(context: Context, subject: Subject, prepared: Prepared, device: torch.device) -> tuple[Transformer, bool]:
    """Trained weights where they lie here, else fresh ones."""
    if subject.keys.train is not None:
        try:
            return load_model(subject.spec, prepared, context.store(subject), device), True
        except UserError:
            pass  # a mirror's run has no tensors
    model: Transformer = build(subject.spec.model.model_dump(), prepared.src_size, prepared.tgt_size, subject.spec.seed)
    return model.to(device).eval(), False
