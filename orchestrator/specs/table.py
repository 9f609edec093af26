"""Strict schema of the parts of a table's file that are not specs: source, sweep, and the head of each row."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, model_validator

from orchestrator.specs.analyses import KINDS
from orchestrator.specs.claims import Claim
from orchestrator.specs.resources import size, valid_share
from orchestrator.specs.schema import Natural, Positive, Strict

SEGMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
SEGMENT_WORDS = "letters, digits and ._- (at most 64, first a letter or digit)"
NUMBER = re.compile(r"[-+]?[0-9]+(\.[0-9]+)?[kMG]?")
METRIC_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_./-]{0,63}")
FIGURE = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}")
RESERVED = ("bleu", "sacrebleu", "tokenised", "mteval", "rouge1", "rouge2", "rougeL")
"""Figure names of score records, which `also` and `means` may not use."""
FAILED = "failed"
"""The value of `expect: {bleu: failed}`, and the status of such a run (`ledger.outcome`)."""
MAX_SEED = 2**32 - 1
_UNIT = {"k": 1e3, "M": 1e6, "G": 1e9}

Seed = Annotated[int, Field(ge=0, le=MAX_SEED)]
Kind = Literal["run", "quoted", "analysis"]
ControlKind = Literal["params", "flops"]
if TYPE_CHECKING:
    AnalysisName = str
else:
    AnalysisName = Literal[KINDS]
TestName = Literal["both", "sign", "bootstrap"]
"""The tests whose p-values mark a row."""
Also = dict[str, dict[str, Any] | None]
"""Figure name -> its differences to the row's `score` section; null removes the file's figure."""
Means = dict[str, list[str] | None]
"""Figure name -> the figures that it averages; null removes the file's figure."""


def segments(text: str, low: int, high: int) -> bool:
    """Returns whether `text` consists of `low` to `high` well-formed segments joined by slashes."""
    parts = text.split("/")
    return low <= len(parts) <= high and all(SEGMENT.fullmatch(part) for part in parts)


def number(value: float | str | bool | None) -> float | None:
    """Converts a reported figure to a number: '88.0M' -> 88000000.0, '+0.3' -> 0.3. Returns None for booleans, null and 'failed'."""
    if isinstance(value, bool) or value == FAILED:
        return None
    if value is None or not isinstance(value, str):
        return value
    scale = _UNIT.get(value[-1], 1.0)
    return round(float(value.rstrip("kMG")) * scale, 6)


class TableSource(Strict):
    """The paper and the table that a file reproduces."""

    paper: str
    table: str

    @model_validator(mode="after")
    def _segments(self) -> TableSource:
        for name in ("paper", "table"):
            if not SEGMENT.fullmatch(getattr(self, name)):
                raise ValueError(f"{name} is {getattr(self, name)!r}; expected {SEGMENT_WORDS}")
        return self


class Retrain(Strict):
    """After a search, the `top` rows and pinned rows are trained again in full, with other seeds."""

    top: Positive = 3
    seeds: Annotated[list[Seed], Field(min_length=1)]


class Scheduler(Strict):
    """asha compares a run at each rung (in steps) with the runs that reached it before; fifo gives every run its full budget.

    tolerance: how much worse than the cutoff, in the metric's units, a run may be at a rung and go on. noise: sqrt(2) times the standard
    deviation over seeds at the rung, of the baseline's noise floor.
    """

    kind: Literal["asha", "fifo"] = "asha"
    metric: Literal["valid/nll", "valid/ppl", "valid/accuracy", "valid/bleu"] = "valid/nll"
    mode: Literal["min", "max"] = "min"
    rungs: list[Positive] = Field(default_factory=list)
    reduction_factor: Annotated[float, Field(gt=1)] = 2.0
    shuffle_seed: Natural = 0
    tolerance: Annotated[float, Field(ge=0, allow_inf_nan=False)] | Literal["noise"] = 0.0
    retrain: Retrain | None = None

    @model_validator(mode="after")
    def _sound(self) -> Scheduler:
        if self.kind == "asha" and not self.rungs:
            raise ValueError("rungs are missing; expected increasing steps such as [200, 400]")
        if any(a >= b for a, b in zip(self.rungs, self.rungs[1:], strict=False)):
            raise ValueError(f"rungs {self.rungs} do not increase")
        wanted = "max" if self.metric in ("valid/accuracy", "valid/bleu") else "min"
        if self.mode != wanted:
            raise ValueError(f"mode {self.mode} keeps the worst by {self.metric}; expected {wanted}")
        return self


MAX_SEEDS = 1000


def _counted(seeds: Any) -> Any:
    """Expands a number of seeds, `3` -> [1, 2, 3]; returns anything else unchanged."""
    if isinstance(seeds, int) and not isinstance(seeds, bool):
        if not 1 <= seeds <= MAX_SEEDS:
            raise ValueError(f"seeds is {seeds}; expected how many, from 1 to {MAX_SEEDS}, or a list such as [1, 2]")
        return list(range(1, seeds + 1))
    return seeds


class Resources(Strict):
    """Resources of each worker of each run, which do not affect results (see `orchestrator.engines.resources`).

    gpu: number of GPUs, a fraction of one, or auto (as many runs per GPU as fit by estimated memory). memory: auto (the estimate, if runs
    share a machine), none, or a size such as 12G. wait: seconds without resources after which the sweep ends; null waits indefinitely.
    """

    gpu: Annotated[float, Field(ge=0.01, le=64)] | Literal["auto"] = 1.0
    memory: str = "auto"
    wait: Annotated[float, Field(ge=1)] | None = None

    @model_validator(mode="after")
    def _sound(self) -> Resources:
        if self.gpu != "auto" and not valid_share(float(self.gpu)):
            raise ValueError(f"gpu is {self.gpu}; expected auto, a part of a GPU such as 0.25, or whole ones")
        if self.memory not in ("auto", "none"):
            try:
                size(self.memory)
            except ValueError:
                raise ValueError(f"memory is {self.memory[:40]!r}; expected auto, none or a size such as 12G") from None
        return self


class SweepSpec(Strict):
    """How a table is run. seeds: a list, or a number N for 1 to N."""

    seeds: Annotated[list[Seed], Field(min_length=1), BeforeValidator(_counted, json_schema_input_type=Positive | list[Seed])] = Field(
        default_factory=lambda: [1]
    )
    concurrency: Positive | None = None
    resources: Resources = Resources()
    scheduler: Scheduler = Scheduler(kind="fifo")

    @model_validator(mode="after")
    def _distinct(self) -> SweepSpec:
        again = [] if self.scheduler.retrain is None else self.scheduler.retrain.seeds
        for seeds in (self.seeds, again):
            if len(set(seeds)) != len(seeds):
                raise ValueError(f"seeds {seeds} are not distinct")
        if both := sorted(set(self.seeds) & set(again)):
            raise ValueError(f"scheduler.retrain.seeds {both} are seeds of the search; expected others: its best were chosen by those")
        return self


class FigureHeader(Strict):
    """Scoring and analysis keys that both a file and a row may have."""

    also: Also = Field(default_factory=dict)
    means: Means = Field(default_factory=dict)
    analysis: AnalysisName | None = None
    significance: TestName | None = None
    failed_below: Annotated[float, Field(ge=0, le=100)] | None = None
    """BLEU below which a finished run counts as `failed`; a diverged run then does as well. null: neither does."""
    controls: list[ControlKind] | None = None
    """Matched controls of each variant: its baseline with the variant's parameters, or its training operations (see `cost.controls`)."""

    @model_validator(mode="after")
    def _names(self) -> FigureHeader:
        for section in ("also", "means"):
            for name in getattr(self, section):
                if not FIGURE.fullmatch(name) or name in RESERVED:
                    wanted = f"letters, digits and _- (at most 32), and none of {', '.join(RESERVED)}"
                    raise ValueError(f"{section} has the figure {name[:80]!r}; expected {wanted}")
        return self


class RowHeader(FigureHeader):
    """Head of a row: its keys other than the spec, in a table's file and in a file printed by `show`."""

    label: str = ""
    kind: Kind = "run"
    expect: dict[str, Any] = Field(default_factory=dict)
    assumed: list[str] = Field(default_factory=list)
    workers: Annotated[int, Field(ge=1, le=4096)] = 1
    pinned: bool = False
    of: list[str] = Field(default_factory=list)
    note: Annotated[str, Field(max_length=1000)] = ""

    @model_validator(mode="after")
    def _expect(self) -> RowHeader:
        for name, value in self.expect.items():
            if not METRIC_NAME.fullmatch(name):
                raise ValueError(f"expect has the column {name[:80]!r}; expected {SEGMENT_WORDS}")
            plain = value is None or (isinstance(value, (int, float)) and abs(value) < 1e300) or (name == "bleu" and value == FAILED)
            if not plain and not (isinstance(value, str) and len(value) < 40 and NUMBER.fullmatch(value)):
                shown = value if isinstance(value, str) else type(value).__name__
                raise ValueError(f"expect {name} is {str(shown)[:60]!r}; expected a number such as 27.64, +0.3 or 88.0M, or true or false")
        return self

    @model_validator(mode="after")
    def _kind(self) -> RowHeader:
        if self.of and self.kind != "analysis":
            raise ValueError(f"of is given in a row of kind {self.kind}; expected only in rows of kind analysis")
        if self.kind == "analysis" and not self.of:
            raise ValueError("of is missing; expected the rows that the analysis looks at")
        if self.kind != "run" and (self.also or self.means):
            raise ValueError(f"{'also' if self.also else 'means'} is given in a row of kind {self.kind}; expected only in rows of kind run")
        if self.kind != "run" and self.failed_below is not None:
            raise ValueError(f"failed_below is given in a row of kind {self.kind}; expected only in rows of kind run")
        if self.kind != "run" and self.controls is not None:
            raise ValueError(f"controls is given in a row of kind {self.kind}; expected only in rows of kind run")
        if not self.note.isprintable():
            raise ValueError("note has more than one line; expected one")
        return self


class RowHead(RowHeader):
    """Head of a row in a table's file. use: names of templates, merged in this order."""

    init_from: str | None = None
    use: list[str] = Field(default_factory=list)

    @model_validator(mode="after")
    def _use(self) -> RowHead:
        if self.use and self.kind != "run":
            raise ValueError(f"use is given in a row of kind {self.kind}; expected only in rows of kind run")
        return self


class TableHead(FigureHeader):
    """Head of a table's file. Its figures apply to all its rows of kind run, and to files that extend it."""

    extends: str | None = None
    source: TableSource | None = None
    assumed: list[str] = Field(default_factory=list)
    sweep: SweepSpec | None = None
    expect_columns: list[str] = Field(default_factory=list)
    templates: dict[str, Any] = Field(default_factory=dict)
    rows: dict[str, Any] = Field(default_factory=dict)
    grid: dict[str, Any] | None = None  # see specs.grid.schema
    claims: list[Claim] = Field(default_factory=list)


class SingleHead(RowHeader):
    """A single resolved row printed by `show`, which needs no other file. `parents`: address -> spec of each row it starts from."""

    controls: ClassVar[None] = None  # type: ignore[misc]  # the key is refused: controls are rows of a table
    id: str
    spec: dict[str, Any] | None = None
    parents: dict[str, dict[str, Any]] = Field(default_factory=dict)
