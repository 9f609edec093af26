"""What a command was asked for, resolved once: files of tables, rows with their matched controls, and where their results are."""

from __future__ import annotations

from dataclasses import dataclass, replace

from orchestrator.cli.commands.rows import open_ledger, resolve_rows
from orchestrator.errors import UserError
from orchestrator.files.folders import need_folder
from orchestrator.report.find import Finder
from orchestrator.safe_text import log
from orchestrator.specs import index
from orchestrator.specs.controls import KINDS, wanted
from orchestrator.specs.row import Row, by_table
from orchestrator.specs.table_file import TableFile
from orchestrator.sweeps.options import RowOptions
from orchestrator.sweeps.plan import Data


@dataclass(frozen=True)
class Request:
    """Tables and rows that a target names, and what finds their results.

    Args:
        target: As the user wrote it.
        found: The tables, with the rows that the target names.
        rows: With their matched controls.
    """

    target: str
    options: RowOptions
    found: list[index.Target]
    rows: list[Row]
    finder: Finder

    @classmethod
    def of(
        cls,
        target: str,
        options: RowOptions,
        *,
        seed: int | None = None,
        preparing: bool = False,
        data: Data | None = None,
        found: list[index.Target] | None = None,
    ) -> Request:
        """UserError for an unknown target, an invalid spec or a folder that does not exist."""
        need_folder(options.data_dir, "--data-dir")
        data = data or Data(options.data_dir, options.cache_dir)
        found = index.find_all(target) if found is None else found
        rows = resolve_rows(found, options, seed=seed, data=data, preparing=preparing)
        return cls(target, options, found, rows, Finder(open_ledger(options.results), data))

    def again(self) -> Request:
        """The same request, which reads results anew."""
        return replace(self, finder=Finder(self.finder.ledger, self.finder.data))

    def tables(self) -> list[tuple[str, TableFile, list[Row]]]:
        """Address, file and rows of each table."""
        files = {each.table.address: each.table for each in self.found}
        first = self.found[0].table
        return [(address, files.get(address, first), rows) for address, rows in by_table(self.rows).items()]

    def families(self) -> list[tuple[str, TableFile, list[Row]]]:
        """As `tables`, each with all rows of its file and every matched control that has results: what verdicts are made from."""
        whole = self.rows
        if any(each.rows or each.control for each in self.found):
            everything = list({each.table.path: index.Target(each.table) for each in self.found}.values())
            whole = resolve_rows(everything, self.options, data=self.finder.data)
            whole += [row for row in self.rows if row.id not in {other.id for other in whole}]
        return [(address, file, self._controlled(address, rows)) for address, file, rows in replace(self, rows=whole).tables()]

    def _controlled(self, address: str, rows: list[Row]) -> list[Row]:
        """The rows, each followed by those of its matched controls that the ledger has runs of."""
        kinds = [kind for kind in KINDS if kind in self.finder.control_kinds(address)]
        if not kinds:
            return rows
        from orchestrator.cost.controls import Matcher  # deferred: it imports torch

        matcher, by_id, left = Matcher(self.finder.data), {row.id: row for row in rows}, dict[str, None]()
        asked, found = wanted([row for row in rows if row.control is None], kinds), list[Row]()
        for row in rows:
            found.append(row)
            for control in asked.get(row.id, ()) if self.finder.seeds(row) else ():
                try:
                    made = by_id.get(control.name) or matcher.row(control, by_id[control.of], row)
                except UserError as error:
                    left |= dict.fromkeys(error.lines)
                    continue
                if control.name not in by_id and self.finder.seeds(made):
                    found.append(made)
        for line in left:
            log(f"warning: {address} has runs of matched controls that are left out: {line}")
        return found
