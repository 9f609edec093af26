"""Validates one merged row: RunSpec, components, and constraints that span several fields."""

import functools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from models.config import options
from models.registry import REGISTRIES
from orchestrator.errors import raise_all
from orchestrator.specs import corpora, public_tests
from orchestrator.specs.base import Strict
from orchestrator.specs.components import check_components, side_of, site_info, slots
from orchestrator.specs.messages import Problem, problems_of
from orchestrator.specs.positions import Located, Position, describe, nearest
from orchestrator.specs.schema import ModelSpec, RunSpec

SECTIONS = ("data", "batch", "model", "optim", "train", "decode", "score")
_last: dict[str, tuple[Any, Strict]] = {}
"""Section -> the data of the last valid row, and what they became: rows of a grid share most of their data (see `Located.merged`)."""


@functools.lru_cache(maxsize=256)
def _entry(corpus: str, file: Path, stamp: tuple[int, int]) -> corpora.CorpusEntry:
    return corpora.load_entry(corpus)


def defaults() -> dict[str, Any]:
    """Returns the sections that have defaults, written out in full; rows merge onto them."""
    return {name: field.default.model_dump() for name, field in RunSpec.model_fields.items() if isinstance(field.default, Strict)}


def check(row: Located, *, seed: int = 1, init_from: str | None = None) -> RunSpec:
    """Returns the spec of a merged row. Raises UserError with a line for each problem."""
    problems: list[Problem] = []
    data = dict(row.data)
    if isinstance(data.get("model"), dict):
        data["model"], found = check_components(data["model"])
        problems += [Problem(("model", *p.path), p.message) for p in found]
    spec: RunSpec | None = None
    try:
        same = {name: made for name, (given, made) in _last.items() if row.data.get(name) is given}
        spec = RunSpec.model_validate(data | same | {"seed": seed, "init_from": init_from})
        _last.update({name: (row.data[name], getattr(spec, name)) for name in SECTIONS if name in row.data and name != "model"})
    except ValidationError as error:
        known = {p.path for p in problems}
        problems += [p for p in problems_of(error, RunSpec) if not any(k[: len(p.path)] == p.path for k in known)]
    if spec is None:
        problems += _unknown_corpus(data["data"].get("corpus") if isinstance(data.get("data"), dict) else None)
    else:
        problems += whole(spec)
        precision = spec.decode.precision
        if precision != "fp32" and (reason := needs_fp32(spec.model)) is not None:
            problems.append(Problem(("decode", "precision"), f"found {precision}; expected fp32: {reason}"))
    raise_all(row.line(p.path, p.message) for p in problems)
    assert spec is not None
    return spec


def _unknown_corpus(name: Any) -> list[Problem]:
    if not isinstance(name, str) or corpora.find_entry(name) is not None:
        return []
    return [Problem(("data", "corpus"), f"found {describe(name)}; {nearest(name, corpora.list_entries())}")]


def valid(sections: dict[str, Any], name: str, like: RunSpec) -> RunSpec:
    """The spec with these sections, and the seed and parent of another. Raises UserError, whose lines begin with `name`."""
    return check(Located(sections, Position(name, ())), seed=like.seed, init_from=like.init_from)


def whole(spec: RunSpec) -> list[Problem]:
    """Returns the problems that no field shows on its own."""
    found: list[Problem] = []

    def unless(ok: bool, key: str, value: object, expected: str) -> None:
        if not ok:
            found.append(Problem(tuple(key.split(".")), f"found {'null' if value is None else value}; expected {expected}"))

    model, data, decode, train = spec.model, spec.data, spec.decode, spec.train
    unless(model.d_model % 2 == 0 or model.positions != "sinusoidal", "model.d_model", model.d_model, "an even number")
    words, out = model.word_dim or model.d_model, model.output_dim or model.word_dim or model.d_model
    separate, tied = model.embeddings == "separate", model.embeddings == "three-way"
    unless(separate or words == out, "model.output_dim", out, f"{words}, the width of words: embeddings are {model.embeddings}")
    if model.positions == "learned":
        fits = data.max_length is not None and data.max_length < model.max_positions
        unless(fits, "data.max_length", data.max_length, f"at most {model.max_positions - 1}, for model.max_positions and EOS")
        width = max(batch.pad_to for batch in (spec.batch, spec.optim.restart and spec.optim.restart.batch) if batch)
        unless(width <= model.max_positions, "batch.pad_to", width, f"at most {model.max_positions}, model.max_positions")
    unless(data.subword.joint or not tied, "model.embeddings", "three-way", "data.subword.joint true, for one vocabulary")
    sizes = data.vocab
    unless(not tied or sizes.src == sizes.tgt, "data.vocab", f"{sizes.src} and {sizes.tgt}", "one size: embeddings are three-way")
    unless(decode.checkpoint != "average" or train.snapshots > 0, "decode.checkpoint", "average", "train.snapshots of at least 1")
    unless(decode.checkpoint != "ema" or spec.optim.ema is not None, "decode.checkpoint", "ema", "optim.ema, the decay of the average")
    for schedule in (spec.optim.schedule, *([] if spec.optim.restart is None else [spec.optim.restart.schedule])):
        cuts = schedule.cuts_to_end()
        why = f"none, or at least {cuts}: so many rises bring the plateau's rate under min_lr, and it ends there"
        unless(train.patience is None or train.patience >= cuts, "train.patience", train.patience, why)
    tuned = decode.length_penalty.alpha == "tuned"
    unless(not tuned or spec.score.metric != "rouge", "decode.length_penalty.alpha", "tuned", "a number with rouge")
    if (file := corpora.find_entry(data.corpus)) is None:
        return [*found, *_unknown_corpus(data.corpus)]
    info = file.stat()
    entry = _entry(data.corpus, file, (info.st_mtime_ns, info.st_size))
    splits = [name for name in entry.splits if name != "train"] or ["valid", "test"]
    if spec.score.test not in splits and (reason := public_tests.refusal(spec.score.test, entry, splits)) is not None:
        found.append(Problem(("score", "test"), reason))
    return found


def needs_fp32(model: ModelSpec) -> str | None:
    """Returns the first component that needs fp32 at its site and why, or None if the model may run in any precision."""
    section = model.model_dump()
    for path, registry, component in slots(section):
        reason = REGISTRIES[registry].get(component["kind"]).needs_fp32(site_info(section, side_of(path)), **options(component))
        if reason is not None:
            return f"{'.'.join(map(str, path))} {component['kind']}: {reason}"
    return None


def _doubts(spec: RunSpec) -> Iterator[str]:
    """Yields what the spec says in vain, and why its result may be wrong."""
    restart, score = spec.optim.restart, spec.score
    if spec.train.precision == "bf16" and (reason := needs_fp32(spec.model)) is not None:
        yield f"train.precision bf16: {reason}"
    for unit in ("steps", "epochs"):
        begins, ends = getattr(restart, f"after_{unit}", None), getattr(spec.train, f"max_{unit}")
        if begins is not None and ends is not None and begins >= ends:
            yield f"optim.restart.after_{unit} {begins}: it never begins, for train.max_{unit} is {ends}"
    if score.split_compounds and score.metric != "multi-bleu":
        yield f"score.split_compounds true: metric {score.metric} does not use it"
    if score.tokenize is not None and score.metric == "multi-bleu":
        yield f"score.tokenize {score.tokenize}: metric multi-bleu does not use it"


def warnings(specs: Iterable[tuple[str, RunSpec]]) -> list[str]:
    """Returns one warning per doubt, with the rows concerned. specs: pairs of row and spec."""
    rows: dict[str, dict[str, None]] = {}
    for row, spec in specs:
        for doubt in _doubts(spec):
            rows.setdefault(doubt, {})[row] = None
    found = []
    for doubt, names in rows.items():
        more = f" and {len(names) - 3} more rows" if len(names) > 3 else ""
        found.append(f"warning: {', '.join(list(names)[:3])}{more}: {doubt}")
    return found
