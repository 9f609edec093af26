"""Results, learning curves and translations as data frames, the verdict on two rows, trained models, and runs of unfinished work."""

import hashlib
import os
import re
import shlex
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, TypedDict, Unpack

import pandas as pd

from orchestrator.cli.commands.request import Request, only
from orchestrator.cli.commands.run import checked, prepare_run, prepare_sweep
from orchestrator.engines.execute import execute
from orchestrator.errors import UserError
from orchestrator.files import folders
from orchestrator.ledger.bucket import attach
from orchestrator.ledger.results import Ledger
from orchestrator.lifecycle.loader import Translator
from orchestrator.lifecycle.translator import load_translator
from orchestrator.report.claims import Comparisons
from orchestrator.report.effects import main_metric
from orchestrator.report.find import SeedResult, is_shipped
from orchestrator.report.notes import warn_of_changes
from orchestrator.specs import index
from orchestrator.specs.claims import RowClaim, of_table
from orchestrator.specs.controls import TUNED
from orchestrator.specs.row import starts
from orchestrator.specs.rows import sweep_of
from orchestrator.specs.show import dumped
from orchestrator.specs.table import SCORED
from orchestrator.specs.table import number as reported_number
from orchestrator.sweeps.names import parse_seeds
from orchestrator.sweeps.options import CACHE, RESULTS, ExecutionOptions, RowOptions
from orchestrator.tracking.history import flatten, number

Target = str | Path | Mapping[str, Any]
"""A table, row, file or folder, as for commands, or the content of a table's file as a mapping."""


class Where(TypedDict, total=False):
    """Scale and folders: keyword arguments of every function, with the meaning of the options of the same names.

    The folders default to NMT_DATA_DIR, NMT_RESULTS and NMT_CACHE_DIR, else to the defaults of the commands.
    """

    profile: str | None
    sets: list[str] | None
    data_dir: str | Path | None
    results: str | Path | None
    cache_dir: str | Path | None


def row_options(where: Where) -> RowOptions:
    """Returns `where` as options. UserError: a path is no existing folder. TypeError: a keyword is not in `Where`."""
    for name in where:
        if name not in Where.__annotations__:
            raise TypeError(f"unexpected keyword argument '{name}'; expected one of {', '.join(Where.__annotations__)}")
    data_dir = where.get("data_dir") or os.environ.get("NMT_DATA_DIR")
    options = RowOptions(
        profile=where.get("profile"),
        sets=where.get("sets"),
        data_dir=None if data_dir is None else folders.checked(data_dir, "data_dir"),
        results=attach.place(where.get("results") or os.environ.get("NMT_RESULTS") or RESULTS),
        cache_dir=folders.checked(where.get("cache_dir") or os.environ.get("NMT_CACHE_DIR") or CACHE, "cache_dir"),
    )
    folders.need_folder(options.data_dir, "data_dir")
    return options


def find(target: Target, where: Where, seed: int | None = None) -> Request:
    """Returns the rows of a target with access to their results. UserError: unknown target or invalid specs."""
    with as_text(target) as text:
        return Request.of(text, row_options(where), seed=seed)


@contextmanager
def as_text(target: Target) -> Iterator[str]:
    """Context: the target as text for commands. A mapping becomes a temporary file; its `extends` is relative to the working folder."""
    if not isinstance(target, Mapping):
        yield str(target)
        return
    content = dict(target)
    with tempfile.TemporaryDirectory(prefix="nmt-ablate-") as folder:
        if isinstance(base := content.get("extends"), str):
            content["extends"] = os.path.relpath(Path(base).absolute(), Path(folder).resolve())
        digest = hashlib.sha256(dumped(dict(target)).encode()).hexdigest()
        path = Path(folder) / f"mapping-{digest[:12]}.yaml"
        path.write_text(dumped(content), encoding="utf-8")
        try:
            yield str(path)
        except UserError as error:  # the caller does not know the temporary file and its line numbers
            raise UserError(*(re.sub(rf"{re.escape(str(path))}(:\d+)?", "mapping", line) for line in error.lines)) from None


def results(target: Target, *, seeds: Sequence[int] | None = None, spec: bool = False, **where: Unpack[Where]) -> pd.DataFrame:
    """Returns the results of every row of a table, file or folder: one line per row and seed, also for rows that have not run yet.

    Args:
        seeds: Seeds to list besides seeds with results; default: the seeds of the file's sweep section.
        spec: Add the whole spec as columns `spec.model.d_model` and so on.
        where: See `Where`.

    Columns: `row`, `label`, `kind`, `seed`; `status` and `reason`; `steps`, `params`, `bleu` (ROUGE-L for summaries), `chrf` and the row's
    other scorings; `tokens_per_second` in training, `sentences_per_second` in decoding; `reported.NAME`: the paper's figures; `signature`
    of the score; `train_key`, `decode_key`, `score_key`; `shipped`: the figures come with the product; `changed`: components edited since
    the training. `status` is done, stopped, diverged, failed, trained (not scored yet), repeated (the weights of another seed), new (not
    run), needs-data (not run, corpus absent), or the kind of a row that does not run. Figures are missing for unfinished runs.
    UserError: unknown target, invalid spec."""
    found = find(target, where)
    seeds = sweep_of(found.found, found.options.profile).seeds if seeds is None else seeds
    lines: list[dict[str, Any]] = []
    for row in found.rows:
        reported = {f"reported.{name}": reported_number(value) for name, value in row.expect.items()}
        known = {each.seed: each for each in found.finder.outcomes(row, seeds)}
        keys = found.finder.seeds(row, seeds)
        for seed in sorted({*known, *seeds}) if row.spec is not None else [None]:
            line: dict[str, Any] = {"row": row.id, "label": row.label, "kind": row.kind, "seed": seed, "status": row.kind, "reason": ""}
            if seed in known:
                line |= _figures(known[seed], found.finder.ledger)
            elif seed is not None:
                trained = keys[seed].train if seed in keys else None
                line |= {"status": "needs-data" if trained is None else "new", "train_key": trained}
            if spec and seed is not None and (seeded := row.at(seed).spec) is not None:
                line |= {f"spec.{name}": value for name, value in flatten(seeded.model_dump(mode="json"))}
            lines.append(line | reported)
    frame = pd.DataFrame(lines)
    return frame.astype({name: "Int64" for name in ("seed", "steps", "params") if name in frame})


def history(target: Target, *, seeds: Iterable[int] = (), **where: Unpack[Where]) -> pd.DataFrame:
    """Returns the learning curves of every row and seed: one line per report, in order of steps.

    Columns: `row`, `seed`, `step` (updates), `time`, and the metrics that runs log: `train/nll` and `valid/nll` in nats per token,
    `valid/bleu`, `train/lr` and so on. A metric is missing at steps that do not report it.
    seeds: to search for besides the seeds in the ledger; default: 1. Errors: as of `results`."""
    found, seeds, lines = find(target, where), [*seeds] or [1], []
    for row in found.rows:
        for seed, keys in found.finder.seeds(row, seeds).items():
            for report in found.finder.ledger.history(keys.train) if keys.train is not None else ():
                metrics = {name: value for name, item in flatten(report) if (value := number(item)) is not None}
                step, seconds = int(metrics.pop("step")), metrics.pop("t", None)
                lines.append({"row": row.id, "seed": seed, "step": step, "time": pd.to_datetime(seconds, unit="s", utc=True)} | metrics)
    return pd.DataFrame(lines, columns=None if lines else ["row", "seed", "step", "time"])


def hypotheses(target: Target, seed: int = 1, **where: Unpack[Where]) -> pd.DataFrame:
    """Returns the translations of one row's test set, one line per sentence.

    Columns: `hypothesis`, and if the corpus is prepared `source` and `reference` (`reference2` and so on). Raises UserError like
    `results`, and for a row that was not decoded with this seed.
    """
    found = find(target, where, seed)
    row, finder = only(target, found.rows, SCORED), found.finder
    how = "run" if row.kind == "run" else "results add FILE --row"
    keys, command = finder.keys(row), f"nmt-ablate {how} {shlex.quote(str(target))}"
    record = None
    if keys is not None and keys.train is not None and keys.decode is not None:
        record = finder.ledger.read_decode(keys.train, keys.decode)
        if record is None and finder.ledger.record(keys.train, "decode", keys.decode) is not None:
            again = f"nmt-ablate repro {shlex.quote(str(target))} --into FOLDER"
            raise UserError(f"{row.id}: the translations with seed {seed} were left out of the ledger; {again} makes them anew")
    if record is None or row.spec is None:
        raise UserError(f"{row.id}: no translations with seed {seed} in {found.options.results}; expected {command} first")
    columns = {}
    if (prepared := finder.data.prepared(row.spec.data)) is not None:
        columns["source"] = prepared.sources(row.spec.score.test)
        for i, stream in enumerate(prepared.references(row.spec.score.test)):
            columns["reference" if i == 0 else f"reference{i + 1}"] = stream
    return pd.DataFrame(columns | {"hypothesis": record["hypotheses"]})


def run(
    target: Target,
    *,
    seeds: Sequence[int] | None = None,
    engine: str = "local",
    jobs: int | str = 1,
    tracking: bool = True,
    tracking_uri: str | None = None,
    **where: Unpack[Where],
) -> pd.DataFrame:
    """Trains, decodes and scores all unfinished work, as `nmt-ablate sweep` does, and returns the `results` of the target.

    Args:
        target: A table, with its scheduler and seeds, or one row, by default with seed 1 and its full budget. A mapping: a file's content.
        seeds: Default: the seeds of the file's sweep section.
        engine: `local` or `ray`.
        jobs: Number of simultaneous runs with the local engine: a number or `auto`.
        tracking: Write to MLflow. tracking_uri: its address; default: a file in the results folder.
        where: See `Where`.

    Equal work is done once. The same call resumes an interrupted one. Failed runs have a reason. UserError: bad input."""
    places = asdict(row_options(where))
    options = ExecutionOptions(**places, engine=engine, jobs=str(jobs), no_tracking=not tracking, tracking_uri=tracking_uri)
    with as_text(target) as text:
        (first, *more) = index.find_all(text)
        prepare = prepare_run if not more and (first.row is not None or first.table.is_single) else prepare_sweep
        request, chosen, options = prepare(text, None if seeds is None else parse_seeds(",".join(map(str, seeds))), options)
        rows, options = checked(request.rows, chosen, options)
        execute(rows, chosen, options)
        return results(text, seeds=chosen, **where)


@dataclass(frozen=True)
class Comparison:
    """How row `a` differs from row `b`, as `nmt-ablate verdict` judges it (docs/verdicts.md).

    Args:
        b: The other row. If the table compares a with b: the strongest control of a.
        verdict: `confirmed`, `reversed`, `open`, `one seed`, `not run` and so on. reason: its reason.
        delta: Mean of a minus mean of b, in points of BLEU (ROUGE-L for summaries); None if a row has no figures.
        low, high: The interval of delta, over other seeds and other sentences; None for one seed.
        p: Two-sided p-value, adjusted for the table's claims; None for one seed.
        claim: The difference that the paper reports; None if it reports none.
        seeds: Finished seeds of a and of b.
        seeds_needed: Seeds per row that would be enough for a decision; None if unknown.
    """

    a: str
    b: str
    verdict: str
    reason: str
    delta: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    claim: float | None = None
    seeds: tuple[int, int] = (0, 0)
    seeds_needed: int | None = None


def compare(a: Target, b: Target, *, metric: str | None = None, seeds: Iterable[int] = (), **where: Unpack[Where]) -> Comparison:
    """Compares two rows over all their finished seeds, as a claim of the table of `a`. a, b: rows by address or file.

    If the table itself compares them, this is its verdict, against the strongest of the row's controls, else an additional claim.

    metric: `nll`; default: BLEU, or ROUGE-L for summaries. seeds: seeds to search for besides the seeds in the ledger. Raises UserError
    for equal, unknown or invalid rows, and without figures of the metric."""
    first, second, seeds = find(a, where), find(b, where), [*seeds] or [1]
    ours, base = only(a, first.rows, SCORED), only(b, second.rows, SCORED)
    if ours.id == base.id:
        raise UserError(f"{a}: compared with itself; expected two rows")
    tuned = [row.id.endswith(TUNED) for row in (ours, base)]
    families = [each for each in first.families() if any(row.id == ours.id.removesuffix(TUNED) for row in each.rows)]
    family = families[-1 if all(tuned) else 0]
    if family.searches:
        ours, base = (replace(row, id=row.id.removesuffix(TUNED)) for row in (ours, base))
    address, file, finder, there = family.address, family.file, family.finder, {row.id for row in family.rows}
    rows = [*family.rows, *(row for row in (ours, base) if row.id not in there)]
    outcomes = {row.id: finder.outcomes(row, seeds) for row in rows}
    warn_of_changes(rows, outcomes, finder, seeds, first.options.arguments)
    start, stated, main = starts(family.rows), of_table(address, file.head.claims), main_metric(ours)
    metric = metric or main
    usual = ours.id in there and ours.control is None and start.get(ours.id) == base.id
    asked = usual or any((one.row, one.against) == (ours.id, base.id) and (one.metric or main) in (main, metric) for one in stated)
    stated = stated if asked else [*stated, RowClaim(ours.id, base.id, None)]
    compared = Comparisons(rows, outcomes, start, finder.reader, stated, seen={ours.id} if asked else ())
    judged = {(each.claim.row, each.claim.against, each.metric): each for each in compared.judgements}
    if (found := judged.get((ours.id, base.id, metric))) is None:
        known = ", ".join(own for row, against, own in judged if (row, against) == (ours.id, base.id))
        raise UserError(f"{a}: no {metric} of both rows; expected one of {known}")
    effect = found.effect
    answer = None if effect is None else effect.answer
    done = [sum(o.status == "done" for o in outcomes[row.id]) for row in (ours, base)]
    ending = TUNED if family.searches else ""
    return Comparison(
        ours.id + ending,
        (base.id if effect is None else effect.against) + ending,
        found.verdict.word,
        found.verdict.reason,
        delta=None if effect is None else effect.delta,
        low=None if answer is None else answer.low,
        high=None if answer is None else answer.high,
        p=found.p,
        claim=found.claim.effect,
        seeds=(done[0], done[1]) if effect is None else effect.seeds,
        seeds_needed=found.verdict.seeds,
    )


def load(target: Target, seed: int = 1, **where: Unpack[Where]) -> Translator:
    """Returns the trained model of one row. Its `translate` takes a list of sentences and returns their translations.

    Raises UserError if the row was not trained with this seed, its weights were deleted, or its corpus is absent.
    """
    found = find(target, where, seed)
    return load_translator(only(target, found.rows), found.options)


def _figures(one: SeedResult, ledger: Ledger) -> dict[str, Any]:
    names = ("status", "reason", "steps", "params", "bleu", "chrf", "tokens_per_second", "sentences_per_second", "signature")
    keys = {f"{name}_key": getattr(one.keys, name) for name in ("train", "decode", "score")}
    shipped = is_shipped(ledger, one.keys.train)
    return {name: getattr(one, name) for name in names} | one.also | keys | {"shipped": shipped, "changed": ", ".join(one.changed)}
