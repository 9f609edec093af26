"""Validates one merged row: RunSpec, components, and constraints that span several fields."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from pydantic import ValidationError

from orchestrator.errors import UserError
from orchestrator.specs import corpora, precision
from orchestrator.specs.components import check_components
from orchestrator.specs.corpus_files import CorpusFiles
from orchestrator.specs.messages import Problem, problems_of
from orchestrator.specs.positions import KeyPath, Located, nearest
from orchestrator.specs.schema import BatchSpec, DecodeSpec, ModelSpec, OptimSpec, RunSpec, ScoreSpec

SECTIONS = ("data", "batch", "model", "optim", "train", "decode", "score")
MAX_LAYERS = 1000
MAX_WIDTH = 100_000
SPECIALS = 4


def defaults() -> dict[str, Any]:
    """Returns the sections that have defaults, written out in full; rows merge onto them."""
    sections = {"batch": BatchSpec(), "model": ModelSpec(), "optim": OptimSpec(), "decode": DecodeSpec(), "score": ScoreSpec()}
    return {name: section.model_dump() for name, section in sections.items()}


class Checked(NamedTuple):
    """spec: None if there are problems, one line each. unfit: components refuse their sites or each other, and nothing else is wrong."""

    spec: RunSpec | None
    problems: list[str]
    unfit: bool = False


def check(row: Located, *, seed: int = 1, init_from: str | None = None) -> Checked:
    """Validates a merged row and fills in the defaults of its components."""
    problems: list[Problem] = []
    data, unfit = dict(row.data), False
    if isinstance(data.get("model"), dict):
        data["model"], found, unfit = check_components(data["model"])
        problems += [Problem(("model", *p.path), p.message) for p in found]
    spec: RunSpec | None = None
    try:
        spec = RunSpec.model_validate(data | {"seed": seed, "init_from": init_from})
    except ValidationError as error:
        known = {p.path for p in problems}
        problems += [p for p in problems_of(error, RunSpec) if not any(k[: len(p.path)] == p.path for k in known)]
    if spec is not None:
        wrong, too_few_bits = whole(spec), precision.refused(spec)
        unfit = not wrong and bool(unfit or too_few_bits)
        problems += wrong + too_few_bits
    lines = [row.line(p.path, p.message) for p in problems]
    return Checked(None, lines, spec is not None and unfit) if lines else Checked(spec, [])


def whole(spec: RunSpec) -> list[Problem]:
    """Returns the problems that no field shows on its own."""
    found: list[Problem] = []

    def unless(ok: bool, path: KeyPath, message: str) -> None:
        if not ok:
            found.append(Problem(path, message))

    model, data = spec.model, spec.data
    for side in ("encoder", "decoder"):
        depth = getattr(model, side).num_layers
        unless(depth <= MAX_LAYERS, ("model", side, "num_layers"), f"found {depth}; expected at most {MAX_LAYERS}")
    for name in ("d_model", "d_ff", "word_dim", "output_dim", "max_positions"):
        width = getattr(model, name)
        unless(width is None or width <= MAX_WIDTH, ("model", name), f"found {width}; expected at most {MAX_WIDTH}")
    unless(
        model.d_model % 2 == 0 or model.positions != "sinusoidal", ("model", "d_model"), f"found {model.d_model}; expected an even number"
    )
    words, out = model.word_dim or model.d_model, model.output_dim or model.word_dim or model.d_model
    unless(
        model.embeddings == "separate" or words == out,
        ("model", "output_dim"),
        f"found {out}; expected {words}, the width of words: embeddings are {model.embeddings}",
    )
    longest = data.max_length
    if model.positions == "learned":
        unless(
            longest is not None and longest < model.max_positions,
            ("data", "max_length"),
            f"found {'null' if longest is None else longest}; expected at most {model.max_positions - 1}, for model.max_positions and EOS",
        )
    tied = model.embeddings == "three-way"
    unless(data.subword.joint or not tied, ("model", "embeddings"), "found three-way; expected data.subword.joint true, for one vocabulary")
    sizes = data.vocab
    unless(
        not tied or sizes.src == sizes.tgt,
        ("data", "vocab"),
        f"found {sizes.src} and {sizes.tgt}; expected one size: embeddings are three-way",
    )
    unless(
        data.subword.size > SPECIALS, ("data", "subword", "size"), f"found {data.subword.size}; expected more than the {SPECIALS} specials"
    )
    unless(
        data.subword.size <= MAX_WIDTH * 10, ("data", "subword", "size"), f"found {data.subword.size}; expected at most {MAX_WIDTH * 10}"
    )
    for side in ("src", "tgt"):
        size = getattr(sizes, side)
        unless(
            size is None or SPECIALS < size <= MAX_WIDTH * 10,
            ("data", "vocab", side),
            f"found {size}; expected {SPECIALS + 1} to {MAX_WIDTH * 10}",
        )
    averaged = spec.decode.checkpoint == "average"
    unless(not averaged or spec.train.snapshots > 0, ("decode", "checkpoint"), "found average; expected train.snapshots of at least 1")
    moving = spec.decode.checkpoint == "ema"
    unless(not moving or spec.optim.ema is not None, ("decode", "checkpoint"), "found ema; expected optim.ema, the decay of the average")
    for schedule in (spec.optim.schedule, *([] if spec.optim.restart is None else [spec.optim.restart.schedule])):
        cuts, patience = schedule.cuts_to_end(), spec.train.patience
        unless(
            patience is None or patience >= cuts,
            ("train", "patience"),
            f"found {patience}; expected none, or at least {cuts}: so many rises bring the plateau's rate under min_lr, and it ends there",
        )
    tuned = spec.decode.length_penalty.alpha == "tuned"
    unless(not tuned or spec.score.metric != "rouge", ("decode", "length_penalty", "alpha"), "found tuned; expected a number with rouge")
    try:
        splits = _splits(data.corpus)
    except UserError:
        if not isinstance(data.corpus, str) or corpora.has_entry(data.corpus):
            raise
        return [*found, Problem(("data", "corpus"), f"found {data.corpus!r}; {nearest(data.corpus, corpora.list_entries())}")]
    if spec.score.test not in splits:
        found.append(Problem(("score", "test"), f"found {spec.score.test!r}; {nearest(spec.score.test, splits)}"))
    return found


@functools.cache
def _splits(corpus: str | CorpusFiles) -> tuple[str, ...]:
    """Returns the held-out splits of a corpus."""
    return tuple(name for name in corpora.load_entry(corpus).splits if name != "train") or ("valid", "test")
