"""The target of a command, resolved once: files of tables, rows with their matched controls, and the place of their results."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from orchestrator.cli.commands.tune import tuning_of
from orchestrator.cost import controls
from orchestrator.errors import UserError
from orchestrator.files.folders import need_folder
from orchestrator.ledger.results import Ledger, Record
from orchestrator.paths import published_ledgers
from orchestrator.report import notes
from orchestrator.report.find import Finder, SeedResult
from orchestrator.safe_text import log, log_once
from orchestrator.specs import index
from orchestrator.specs.controls import KINDS, TUNED, parse, wanted
from orchestrator.specs.row import Row, by_table, starts
from orchestrator.specs.sweep import SweepSpec
from orchestrator.specs.table_file import TableFile
from orchestrator.sweeps.options import RowOptions
from orchestrator.sweeps.plan import Data
from orchestrator.tuning import choice

Asked = str | list[index.Target]


def open_ledger(results: Path) -> Ledger:
    """Returns the ledger of `--results`, with the published results as mirrors."""
    return Ledger(results, published_ledgers())


def only(target: object, rows: list[Row], kinds: Sequence[str] = ("run",)) -> Row:
    """Returns the only row of `rows` of these kinds. UserError: none or several. target: for the message."""
    found = [row for row in rows if row.kind in kinds]
    kind = f"kind {' or '.join(kinds)}"
    if len(rows) == 1 and not found:
        raise UserError(f"{rows[0].source_file}:{rows[0].line}: {rows[0].id}: found a row of kind {rows[0].kind}; expected one of {kind}")
    if len(found) != 1:
        names = [row.id for row in found[:24]]
        raise UserError(f"{target}: found {len(found)} rows of {kind}; expected one{': ' if names else ''}{', '.join(names)}")
    return found[0]


@dataclass(frozen=True)
class Family:
    """A table whose claims are judged together, with access to its results.

    rows: all rows of the file, and every matched control with results.
    seeds: seeds to search for, besides the seeds in the ledger.
    searches: row -> the search that chose its configuration (`tuning.choice`); empty: the rows are as written.
    """

    address: str
    file: TableFile
    rows: list[Row]
    finder: Finder
    seeds: Sequence[int]
    searches: Mapping[str, Record] = field(default_factory=dict)

    def named(self, rows: Sequence[Row]) -> set[str]:
        """Returns the addresses of the requested rows. A row includes its tuned form; `row@tuned` is only the tuned form."""
        asked = {row.id.removesuffix(TUNED) if self.searches else row.id for row in rows}
        return asked & {row.id for row in self.rows}

    def notes(self, outcomes: Mapping[str, Sequence[SeedResult]]) -> list[str]:
        """Returns notes on recorded claims and on the seeds of the rows with these outcomes."""
        shown = {row_id.removeprefix(f"{self.address}/").removesuffix(TUNED) for row_id in outcomes}
        lost = notes.lost_claims(self.finder.ledger, self.address, self.file.head.claims, self.file.rows.keys() - shown)
        return [*lost, *notes.of_seeds([row for row in self.rows if row.id in outcomes], outcomes, self.finder)]

    @property
    def name(self) -> str:
        return f"{self.address}, tuned" if self.searches else self.address


@dataclass(frozen=True)
class Request:
    """Tables and rows that a target names, with access to their results.

    found: the tables, with the rows that the target names. rows: the rows with their matched controls.
    """

    target: Asked
    options: RowOptions
    found: list[index.Target]
    rows: list[Row]
    finder: Finder

    @classmethod
    def of(
        cls, target: Asked, options: RowOptions, *, seed: int | None = None, preparing: bool = False, data: Data | None = None
    ) -> "Request":
        """Resolves a target and prints unresolved controls. UserError: unknown target, invalid spec or missing folder."""
        need_folder(options.data_dir, "--data-dir")
        data, found = data or Data(options.data_dir, options.cache_dir), index.find_all(target)
        settings: dict[str, Any] = {"sets": options.sets, "profile": options.profile, "seed": seed, "preparing": preparing}
        written = [replace(each, tuned=False) for each in found]
        rows, left_out = controls.resolve(written, data, given=parse(options.controls), **settings)
        log(*left_out)
        finder = Finder(open_ledger(options.results), data)
        if found[0].tuned:
            rows = [choice.tuned_row(row, finder, found[0].table.head.tune) for row in rows]
        return cls(target, options, found, rows, finder)

    def again(self) -> "Request":
        """Returns the same request, which reads results again."""
        return replace(self, finder=Finder(self.finder.ledger, self.finder.data))

    def families(self) -> list[Family]:
        """Returns the tables as verdicts use them, each followed by its tuned rows if a search has chosen some."""
        whole = self.rows
        if any(each.rows or each.control for each in self.found):
            everything = list({each.table.path: index.Target(each.table) for each in self.found}.values())
            whole = Request.of(everything, self.options, data=self.finder.data).rows
            whole += [row for row in self.rows if row.id not in {other.id for other in whole} and not row.id.endswith(TUNED)]
        files, found = {each.table.address: each.table for each in self.found}, []
        for address, own in by_table(whole).items():
            file, rows = files.get(address, self.found[0].table), self._controlled(address, own)
            found.append(Family(address, file, rows, self.finder, (file.head.sweep or SweepSpec()).seeds))
            section = file.head.tune if self.options.tune_with is None else tuning_of([], self.options.tune_with).spec
            if searches := choice.used(rows, self.finder, section):
                start = starts(rows)
                tuned = [
                    replace(choice.with_chosen(row, searches[row.id]), compare_with=start.get(row.id)) for row in rows if row.id in searches
                ]
                if lacking := choice.not_searched(tuned, rows):
                    log_once(f"warning: {address}: tuned verdicts leave out {', '.join(lacking)}, which the search did not tune")
                finder = self.finder.without(next(iter(searches.values()))["tune"]["seeds"]["search"])
                found.append(Family(address, file, tuned, finder, [] if section is None else section.seeds.judge, searches))
        return found

    def _controlled(self, address: str, rows: list[Row]) -> list[Row]:
        """Returns the rows, each followed by its matched controls that have runs in the ledger."""
        stored = self.finder.control_kinds(address, rows)
        kinds = [kind for kind in KINDS if kind in stored]
        if not kinds:
            return rows
        asked = wanted([row for row in rows if row.control is None], kinds)
        matcher, known = controls.Matcher(self.finder.data), {row.id: row for row in rows}
        found, left_out = matcher.each_followed(rows, asked, known, lambda row: bool(self.finder.seeds(row) or self.finder.trials(row)))
        log(*(f"warning: {address} has runs of matched controls: {line}" for line in left_out))
        return found
