"""Validates one merged row: RunSpec, components, and constraints that span several fields."""

from __future__ import annotations

import functools
from typing import Any

from pydantic import ValidationError

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


def check(row: Located, *, seed: int = 1, init_from: str | None = None, cross_checks: bool = True) -> tuple[RunSpec | None, list[str]]:
    """Validates a merged row and fills in the defaults of its components.

    Returns (spec, []) if the row is valid, else (None, one line per problem). With cross_checks=False each section and component is
    checked on its own, without `whole` and without the compatibility of components.
    """
    problems: list[Problem] = []
    data = dict(row.data)
    if isinstance(data.get("model"), dict):
        filled, found = check_components(data["model"], cross_checks=cross_checks)
        problems += [Problem(("model", *p.path), p.message) for p in found]
        for path, options in filled.items():
            _place(data["model"], path, options)
    spec: RunSpec | None = None
    try:
        spec = RunSpec.model_validate(data | {"seed": seed, "init_from": init_from})
    except ValidationError as error:
        known = {p.path for p in problems}
        problems += [p for p in problems_of(error, RunSpec) if not any(k[: len(p.path)] == p.path for k in known)]
    if spec is not None and cross_checks:
        problems += whole(spec) + precision.refused(spec)
    return (None, [row.line(p.path, p.message) for p in problems]) if problems else (spec, [])


def _place(model: dict[str, Any], path: KeyPath, options: dict[str, Any]) -> None:
    target: Any = model
    for part in path[:-1]:
        target = target[part]
    target[path[-1]] = options


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
    own = isinstance(data.corpus, CorpusFiles)
    known = [] if own else corpora.list_entries()
    splits = _splits(data.corpus) if own or data.corpus in known else ()
    unless(not known or data.corpus in known, ("data", "corpus"), f"found {data.corpus!r}; {nearest(str(data.corpus), known)}")
    unless(not splits or spec.score.test in splits, ("score", "test"), f"found {spec.score.test!r}; {nearest(spec.score.test, splits)}")
    return found


@functools.cache
def _splits(corpus: str | CorpusFiles) -> tuple[str, ...]:
    """Returns the held-out splits of a corpus."""
    return tuple(name for name in corpora.load_entry(corpus).splits if name != "train") or ("valid", "test")
