"""A results folder with finished rows that nobody trained: fresh weights, translations made up from the references, real scores."""

import copy
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from models.transformer import build
from orchestrator.analysis.base import Analysis, AnalysisContext, Subject, options_of
from orchestrator.data.prepare import Prepared, prepare
from orchestrator.ledger.results import Ledger
from orchestrator.ledger.run_files import Store
from orchestrator.scoring.scores import score
from orchestrator.scoring.significance.sentence_statistics import of_translation, packed
from orchestrator.specs.row import Row
from orchestrator.specs.rows import resolve
from orchestrator.sweeps.plan import Data, keys_for
from tests.unit.history import append_history

HEAD = """\
source: {paper: demo, table: small}
data: {corpus: toy-smoke, subword: {kind: word, size: 300, joint: false}}
model: {d_model: 16, d_ff: 32, num_heads: 2, encoder: {num_layers: 4}, decoder: {num_layers: 2}}
train: {max_steps: 4, validate_every: 2, checkpoint_every: 2}
score: {metric: multi-bleu}
rows:
  base: {label: baseline}
  hier: {label: hierarchical, model: {encoder: {connection: {kind: hierarchical}}, decoder: {connection: {kind: hierarchical}}}}
  iter: {label: iterative, model: {encoder: {aggregation: {kind: iterative}}}}
  hop1: {label: one hop, model: {decoder: {aggregation: {kind: mlrf-self-attention, n_hop: 1, d_a: 8, d_f: 8}}}}
  hop3: {label: three hops, model: {decoder: {aggregation: {kind: mlrf-self-attention, n_hop: 3, d_a: 8, d_f: 8}}}}
  later: {label: never run, model: {d_ff: 48}}
"""


class Lab:
    """The demo table, its corpus and its results."""

    def __init__(self, folder: Path, head: str = HEAD) -> None:
        self.file, self.results, self.cache = folder / "demo.yaml", folder / "results", folder / "cache"
        self.file.write_text(head, encoding="utf-8")
        self.rows = {row.id.rpartition("/")[2]: row for row in resolve(self.file)}
        self.ledger = Ledger(self.results)
        spec = self.rows["base"].spec
        self.prepared: Prepared = prepare(spec.data, None, self.cache)

    def finish(self, name: str, *, spoil: Callable[[str], bool] = lambda source: False, seed: int = 1, train: float | None = 0.5) -> None:
        """Weights as they are drawn; the reference as translation, its words shuffled where `spoil` says so of the source line."""
        row = self.rows[name].at(seed)
        keys = keys_for(row, Data(None))
        model = build(row.spec.model.model_dump(), self.prepared.src_size, self.prepared.tgt_size, seed)
        Store(self.ledger.run_dir(keys.train), keys.train).save_weights("last", dict(model.named_parameters()), 4)
        self.ledger.write_spec(keys.train, {"id": row.id, "seed": seed, "spec": row.spec.model_dump(), "keys": keys.as_dict()})
        for step, accuracy in ((2, 0.25), (4, 0.5)):
            report: dict[str, Any] = {"step": step, "valid/accuracy": accuracy, "valid/nll": 2.0}
            append_history(self.ledger, keys.train, report | ({} if train is None else {"train/accuracy": train * accuracy}))
        self.ledger.write_train(keys.train, {"status": "done", "steps": 4, "params": 1})
        sources, references = self.prepared.sources("test"), self.prepared.references("test")[0]
        texts = [_shuffled(line) if spoil(source) else line for source, line in zip(sources, references, strict=True)]
        tokens = self.prepared.tokenise(texts, "tgt")
        self.ledger.write_decode(keys.train, keys.decode, {"tokens": tokens, "sentences": len(texts)}, texts)
        scored = score(texts, tokens, self.prepared, "test", row.spec.score)
        counted = {"statistics": packed(of_translation(texts, tokens, self.prepared, "test", row.spec.score))}
        self.ledger.write_record(keys.train, "score", keys.score, {"decode_key": keys.decode} | scored | counted)

    def subject(self, row: str | Row, asked: Row | None = None) -> Subject:
        found = self.rows[row] if isinstance(row, str) else row
        return Subject(found, keys_for(found, Data(None)), found.label, asked)

    def score(self, row: str) -> dict[str, Any]:
        """The score of the ledger."""
        keys = self.subject(row).keys
        return self.ledger.record(keys.train, "score", keys.score)

    def context(self, kind: str, *names: str, options: list[str] | None = None) -> AnalysisContext:
        return AnalysisContext([self.subject(name) for name in names], self.ledger, None, self.cache, options_of(kind, options or []))


def drawn(made: Analysis) -> Figure:
    """The figure of an analysis."""
    figure = Figure(layout="constrained")
    made.draw(figure, made.records)
    figure.draw_without_rendering()
    return figure


def _shuffled(line: str) -> str:
    words = line.split()
    random.Random(1).shuffle(words)
    return " ".join(words[:-1] or words)


@pytest.fixture(scope="session")
def lab(tmp_path_factory) -> Lab:
    """base and iter are perfect but for what the tests spoil; `later` was never run. Read-only for the tests."""
    made = Lab(tmp_path_factory.mktemp("lab"))
    made.finish("base", spoil=lambda source: len(source.split()) > 6)
    made.finish("hier", spoil=lambda source: len(source.split()) > 9)
    made.finish("iter", train=None)
    made.finish("hop1")
    made.finish("hop3", spoil=lambda source: len(source.split()) > 9)
    return made


@pytest.fixture
def own(lab, tmp_path) -> Lab:
    """The demo with a results folder of the test's own: base is the worst, hier better, iter perfect."""
    made = copy.copy(lab)
    made.rows = dict(lab.rows)
    made.results = tmp_path / "results"
    shutil.copytree(lab.results, made.results)
    made.ledger = Ledger(made.results)
    return made
