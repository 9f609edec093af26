"""Strict schema of the parts of a table's file that are not specs: its head, and the head of each row."""

import re
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, model_validator

from orchestrator.specs.analyses import KINDS
from orchestrator.specs.base import Count, Strict
from orchestrator.specs.claims import Claim
from orchestrator.specs.positions import describe
from orchestrator.specs.sweep import UNITS, SweepSpec
from orchestrator.specs.tune import TuneSpec

SEGMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
SEGMENT_WORDS = "letters, digits and ._- (at most 64, first a letter or digit)"
NUMBER = re.compile(r"[-+]?[0-9]+(\.[0-9]+)?[kMG]?")
METRIC_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_./-]{0,63}")
FIGURE = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}")
_COLUMNS = """
    bleu sacrebleu tokenised mteval rouge1 rouge2 rougeL chrf chrf_delta nll delta against significant verdict parts controls params
    params_added train_speed decode_speed tokens_per_second sentences_per_second data steps seeds seed status reason all row system id label
    kind signature train_key decode_key score_key shipped
"""
RESERVED = frozenset(_COLUMNS.split())
"""Figures of score records and columns of reports and data frames, whose names `also` and `means` may not use."""
FAILED = "failed"
"""The value of `expect: {bleu: failed}`, and the status of such a run (`ledger.run_view`)."""

Kind = Literal["run", "quoted", "analysis", "external"]
SCORED = ("run", "external")
"""Kinds of rows that have a score of ours."""
ControlKind = Literal["params", "flops"]
if TYPE_CHECKING:
    AnalysisName = str
else:
    AnalysisName = Literal[KINDS]
TestName = Literal["both", "sign", "bootstrap"]
"""The tests whose p-values mark a row."""


def _figure(name: str) -> str:
    if name in RESERVED:
        raise ValueError("found a figure of this name; expected another: it is a column of reports")
    if not FIGURE.fullmatch(name):
        raise ValueError("found a figure of this name; expected letters, digits and _- (at most 32)")
    return name


FigureName = Annotated[str, AfterValidator(_figure)]
Also = dict[FigureName, dict[str, Any] | None]
"""Figure name -> its differences to the row's `score` section; null removes the file's figure."""
Means = dict[FigureName, list[str] | None]
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
    scale = UNITS.get(value[-1], 1.0)
    return round(float(value.rstrip("kMG")) * scale, 6)


class TableSource(Strict):
    """The paper and the table that a file reproduces."""

    paper: str
    """First part of the addresses of its rows, such as `dou2018`."""
    table: str
    """Second part of the addresses of its rows, such as `table1`."""

    @model_validator(mode="after")
    def _segments(self) -> "TableSource":
        for name in ("paper", "table"):
            if not SEGMENT.fullmatch(getattr(self, name)):
                raise ValueError(f"{name} is {getattr(self, name)!r}; expected {SEGMENT_WORDS}")
        return self


class FigureHeader(Strict):
    """Keys of scoring and analysis that both a file and a row may have. A row's own keys have priority."""

    also: Also = Field(default_factory=dict)
    """Further figures of the same training, such as `{greedy: {beam_size: 1}}`: name -> its differences to the `score` section; null
    removes a figure that the file states."""
    means: Means = Field(default_factory=dict)
    """Means of figures, such as `{average: [mt04, mt05]}`: name -> the averaged figures; null removes a mean that the file states."""
    analysis: AnalysisName | None = None
    """The analysis that `nmt-ablate analyse` runs on the row by default; null: none."""
    significance: TestName | None = None
    """Tests whose p-values mark the row in the analysis `significance`: sign test, paired bootstrap or both; null: both."""
    failed_below: Annotated[float, Field(ge=0, le=100)] | None = None
    """BLEU below which a finished run counts as `failed`. A diverged run then also counts as failed. null: no run counts as failed."""
    controls: list[ControlKind] | None = None
    """Matched controls of each variant: its baseline with the variant's parameters (params), or its training operations (flops)."""


class RowHeader(FigureHeader):
    """Head of a row: its keys other than the spec, in a table's file and in a file printed by `show`."""

    label: str = ""
    """Name of the row in tables; empty: the row's name."""
    kind: Kind = "run"
    """run: the row is trained and scored. quoted: the row never runs; the table prints only the paper's numbers. analysis: the row shows an
    analysis of other rows. external: another system made its translations, which `results add` adds."""
    expect: dict[str, Any] = Field(default_factory=dict)
    """Figures of the paper: column -> a number such as 27.64, +0.3 or 88.0M, true, false or null. `bleu: failed`: a failed run."""
    assumed: list[str] = Field(default_factory=list)
    """Dotted keys that the paper does not state, such as `score.metric`."""
    workers: Count | list[Count] = 1
    """Number of workers that train the row together, each on a part of every batch: a number, or minimum and maximum, such as [2, 8]. With
    a range, the row continues with fewer workers from its last checkpoint when a node leaves."""
    pinned: bool = False
    """Whether ASHA never stops the row."""
    of: list[str] = Field(default_factory=list)
    """Rows that an analysis reads; only with kind analysis."""
    note: Annotated[str, Field(max_length=1000)] = ""
    """One line below the table, such as which reading of a sentence this is."""

    @model_validator(mode="after")
    def _sound(self) -> "RowHeader":
        for name, value in self.expect.items():
            if not METRIC_NAME.fullmatch(name):
                raise ValueError(f"expect has the column {name[:80]!r}; expected {SEGMENT_WORDS}")
            plain = value is None or (isinstance(value, (int, float)) and abs(value) < 1e300) or (name == "bleu" and value == FAILED)
            if not plain and not (isinstance(value, str) and len(value) < 40 and NUMBER.fullmatch(value)):
                shown = repr(value[:60]) if isinstance(value, str) else describe(value)
                raise ValueError(f"expect {name} is {shown}; expected a number such as 27.64, +0.3 or 88.0M, or true or false")
        if isinstance(self.workers, list) and (len(self.workers) != 2 or self.workers[0] >= self.workers[1]):
            raise ValueError(f"workers is {self.workers}; expected the fewest and the most, such as [2, 8]")
        if self.of and self.kind != "analysis":
            raise ValueError(f"of is given in a row of kind {self.kind}; expected only in rows of kind analysis")
        if self.kind == "analysis" and not self.of:
            raise ValueError("of is missing; expected the rows that the analysis looks at")
        for key in ("also", "means", "failed_below", "controls", "use", "init_from", "compare_with") if self.kind != "run" else ():
            comparable = key == "compare_with" and self.kind == "external"
            if key in self.model_fields_set and getattr(self, key) not in (None, {}) and not comparable:
                raise ValueError(f"{key} is given in a row of kind {self.kind}; expected only in rows of kind run")
        if not self.note.isprintable():
            raise ValueError("note has more than one line; expected one")
        return self


class RowHead(RowHeader):
    """Head of a row in a table's file: its keys other than the sections and figures."""

    init_from: str | None = None
    """Name or address of the row whose trained tensors of equal name and shape this one starts from; null: random weights."""
    compare_with: str | None = None
    """Name of the row of this table with which the row is compared; null: the row that it starts from, else the table's baseline."""
    use: list[str] = Field(default_factory=list)
    """Names of templates, which merge in this order onto the file's sections, below the row's own keys."""


class TemplateHead(Strict):
    """Head of a template: its keys other than the sections."""

    assumed: list[str] = Field(default_factory=list)
    """Dotted keys of the template that the paper does not state."""


class TableHead(FigureHeader):
    """Head of a table's file: its keys other than the sections and figures, which apply to all its rows, and to files that extend it."""

    extends: str | None = None
    """A file whose sections, templates and figures this file inherits; not its rows, sweep and grid. The path is relative to this file."""
    source: TableSource | None = None
    """The paper and the table; addresses of rows are paper/table/row. null: local/FILE/row."""
    assumed: list[str] = Field(default_factory=list)
    """Dotted keys that the paper does not state, in every row."""
    sweep: SweepSpec | None = None
    """How the table is run; null: one seed, and every row with its full budget."""
    expect_columns: list[str] = Field(default_factory=list)
    """Order of the columns that the paper reports, such as [params, bleu]; others follow in order of appearance."""
    templates: dict[str, Any] = Field(default_factory=dict)
    """Named parts of rows, which rows include with `use`."""
    tune: TuneSpec | None = None
    """The search that `sweep --tune` runs for every row; null: none."""
    ladder: list[str] = Field(default_factory=list)
    """Profiles of several sizes, smallest first, at which `--ladder file` runs and judges the rows."""
    rows: dict[str, Any] = Field(default_factory=dict)
    """The rows: name -> differences from the file's sections."""
    grid: dict[str, Any] | None = None
    """Axes whose combinations are rows; null: only the rows in `rows`."""
    control_rows: list[str] = Field(default_factory=list)
    """Names of further rows to beat, such as the baseline trained equally long. They apply to each row compared with the usual row."""
    claims: list[Claim] = Field(default_factory=list)
    """Differences that the runs are expected to show, written down before they run."""


class SingleHead(RowHeader):
    """A single resolved row printed by `show`, which needs no other file."""

    controls: ClassVar[None] = None  # type: ignore[misc]  # the key is refused: controls are rows of a table
    id: str
    """Address of the row."""
    spec: dict[str, Any] | None = None
    """Its sections, written out in full, with seed and init_from; null: the row is not run."""
    parents: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """Address -> spec of each row whose trained weights it starts from."""
