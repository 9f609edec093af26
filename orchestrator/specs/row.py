"""A resolved row of a table, its figures besides its own score, and the row with which each row is compared."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from orchestrator.errors import for_each
from orchestrator.specs import check
from orchestrator.specs.positions import Document, KeyPath, Located, Position, nearest, shown
from orchestrator.specs.profiles import test_set
from orchestrator.specs.schema import RunSpec, ScoreSpec
from orchestrator.specs.table import FigureHeader


@dataclass(frozen=True)
class Control:
    """What a control row matches: row `of` with the parameters (kind params) or the training operations (flops) of row `against`.

    of, against: addresses. The control's own address is `name`.
    """

    kind: str
    of: str
    against: str

    @property
    def name(self) -> str:
        """`paper/table/row1@params=row5`."""
        return f"{self.of}@{self.kind}={'/'.join(self.against.split('/')[2:])}"


@dataclass(frozen=True)
class Trial:
    """A trial of a search. loss: the objective, infinite if it did not finish. scores: metric -> its value on the validation set."""

    loss: float
    scores: Mapping[str, float]


@dataclass(frozen=True)
class Row:
    """A resolved row of a table.

    spec: None for quoted rows and analyses; only data, score and seed count for an external row.
    corpus: the corpus as written, before a profile; empty: that of the spec.
    parent: the resolved row that `init_from` names, with the same seed.
    also: name -> another scoring of the same training. means: name -> the figures (named in `also`, or `bleu`) that it averages.
    of: addresses of the rows that an analysis reads. analysis: the kind of analysis that the row is, or that uses the row.
    significance: the tests whose p-values mark the row (`significance.paired_tests`). failed_below: the BLEU below which a run counts as
    failed (`ledger.run_view`). controls: kinds of matched controls that the row or its file requests. control: set for a matched control
    (`cost.controls`). compare_with: address of the row that the file names for comparison. control_rows: addresses of further rows to beat.
    trials: of the search that has tuned the row.
    """

    id: str
    label: str
    kind: str
    spec: RunSpec | None
    expect: dict[str, float | str | bool | None]
    assumed: list[str]
    workers: int | list[int]
    pinned: bool
    source_file: str
    line: int
    parent: "Row | None" = field(default=None, repr=False)
    corpus: str = ""
    also: dict[str, ScoreSpec] = field(default_factory=dict)
    means: dict[str, list[str]] = field(default_factory=dict)
    of: list[str] = field(default_factory=list)
    analysis: str | None = None
    note: str = ""
    significance: str | None = None
    failed_below: float | None = None
    controls: tuple[str, ...] = ()
    control: Control | None = None
    compare_with: str | None = None
    control_rows: tuple[str, ...] = ()
    trials: "tuple[Trial, ...]" = ()

    @property
    def run_spec(self) -> RunSpec:
        """Returns the spec. Only for rows that have one."""
        assert self.spec is not None, f"{self.id} is no row that runs"
        return self.spec

    @property
    def most_workers(self) -> int:
        """Returns the number of workers when the row has all its nodes."""
        return self.workers if isinstance(self.workers, int) else self.workers[1]

    @property
    def lineage(self) -> "list[Row]":
        """Returns the chain of rows that training starts from, the first one first, then the row itself."""
        return [*([] if self.parent is None else self.parent.lineage), self]

    def at(self, seed: int) -> "Row":
        """Returns the row and its parents with another seed."""
        if self.spec is None:
            return self
        parent = self.parent and self.parent.at(seed)
        if seed == self.spec.seed and parent is self.parent:
            return self
        return replace(self, spec=self.spec.model_copy(update={"seed": seed}), parent=parent)

    def rescored(self, score: ScoreSpec) -> "Row":
        """Returns the row with the same training and search but another test set or metric."""
        return replace(self, spec=self.run_spec.model_copy(update={"score": score}))


def table_of(row_id: str) -> str:
    return "/".join(row_id.split("/")[:2])


def short_id(row_id: str) -> str:
    """Row address without paper and table: `row9`, `row7/en-de`."""
    return "/".join(row_id.split("/")[2:])


def by_table(rows: Iterable[Row]) -> dict[str, list[Row]]:
    tables: dict[str, list[Row]] = {}
    for row in rows:
        tables.setdefault(table_of(row.id), []).append(row)
    return tables


def baseline(rows: Sequence[Row]) -> str | None:
    """Returns the first pinned row, else the first row that runs. Baselines are pinned so that a search never stops them."""
    runs = [row for row in rows if row.kind == "run"]
    return next((row.id for row in runs if row.pinned), runs[0].id if runs else None)


def starts(rows: Sequence[Row], base: str | None = None) -> dict[str, str]:
    """Maps each row to the row it is compared with, on the same corpus.

    That is `base` if given, else the row that its file names (`compare_with`), else the row that it starts from if that is among `rows`,
    else the `baseline` of the rows that are written for its corpus. A profile may train several of these groups on one corpus.
    """
    corpora = {row.id: row.spec.data.corpus for row in rows if row.spec is not None}
    written = {row.id: row.corpus or corpora[row.id] for row in rows if row.spec is not None}
    first = {corpus: baseline([row for row in rows if written.get(row.id) == corpus]) for corpus in set(written.values())}
    found = {}
    for row in rows:
        if row.spec is None:
            continue
        usual = row.spec.init_from if row.spec.init_from in corpora else first[written[row.id]]
        start = base or row.compare_with or usual
        if start is not None and start != row.id and corpora.get(start) == row.spec.data.corpus:
            found[row.id] = start
    return found


def as_data(row: Row) -> dict[str, Any]:
    """Returns the row's head as plain data, without its spec."""
    mine = {} if row.spec is None else row.spec.score.model_dump()
    also = {name: {key: value for key, value in score.model_dump().items() if value != mine[key]} for name, score in row.also.items()}
    head: dict[str, Any] = {"id": row.id, "label": row.label, "kind": row.kind, "expect": dict(row.expect), "assumed": list(row.assumed)}
    head |= {"workers": row.workers if row.workers != 1 else None, "pinned": row.pinned or None}
    rest = {"also": also, "means": dict(row.means), "of": list(row.of), "analysis": row.analysis, "note": row.note}
    head |= {name: value or None for name, value in (rest | {"significance": row.significance}).items()}
    return {name: value for name, value in (head | {"failed_below": row.failed_below}).items() if value is not None}


def with_figures(file: Located, document: Document, at: KeyPath) -> Located:
    """Returns a file's figures, overridden by the figures of the mapping at `at`. null removes a figure, or selects the file's value."""
    own = Located.of(document, at, lambda name: name in FigureHeader.model_fields)
    own.data = {name: value for name, value in own.data.items() if value is not None or name == "failed_below"}
    for name, kind in (("also", dict), ("means", list)):  # values of other types are problems of the head
        given = own.data.pop(name, None)
        own.data[name] = {key: v for key, v in given.items() if isinstance(v, kind | None)} if isinstance(given, dict) else {}
    found = file.merged(own)
    for name in ("also", "means"):
        found.data[name] = {figure: value for figure, value in found.data[name].items() if value is not None}
    return found


def row_figures(file: Located, document: Document, at: KeyPath, kind: str) -> Located:
    """Returns the figures of the row at `at`, merged onto the file's. Mistakes become problems of the document.

    An analysis has only its analysis and significance. A quoted or external row has no figures.
    """
    found = with_figures(file, document, at)
    if kind == "analysis" and "analysis" not in found.data:
        document.wrong(at, "analysis is missing; expected the row or the file to name one")
    if kind != "run":
        found.data = {name: found.data[name] for name in ("analysis", "significance") if kind == "analysis" and name in found.data}
    else:
        check_means(found, document)
    return found


def check_means(figures: Located, document: Document) -> None:
    """Adds a problem to the document for each mean of unknown figures or with the name of one."""
    known = [*figures.data.get("also", {}), "bleu"]
    for name, parts in figures.data.get("means", {}).items():
        if name in known[:-1]:
            wrong = "found the name of a figure in also; expected another name"
        elif not parts:
            wrong = "found an empty list; expected figures named in also, or bleu"
        elif unknown := [part for part in parts if part not in known]:
            wrong = f"found '{shown(unknown[0])}'; {nearest(unknown[0], known)}"
        else:
            continue
        document.problems.append(figures.at(("means", name)).line(wrong))


def other_scorings(figures: Located, spec: RunSpec, profile_test: str | None = None) -> dict[str, ScoreSpec]:
    """Applies each difference in `also` to the `score` section of `spec`: name -> section. Raises UserError with one line per problem.

    profile_test: the test set of a profile (see `profiles.test_set`).
    """
    also = figures.data.get("also", {})

    def scoring(name: str) -> ScoreSpec:
        score = spec.score.model_dump() | also[name]
        if "test" in also[name]:
            score["test"] = test_set(score["test"], profile_test)
        positions: dict[KeyPath, Position] = {("score", key): figures.at(("also", name, key)) for key in also[name]}
        return check.check(Located(spec.sections() | {"score": score}, figures.at(("also", name)), positions)).score

    return dict(zip(also, for_each(scoring, also), strict=True))
