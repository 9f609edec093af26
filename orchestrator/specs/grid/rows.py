"""Resolves all rows of a grid at once.

Parts of the spec are resolved once per distinct content, like any row (`Resolver.spec`). Rows are assembled from these parts, and only
constraints that span parts are checked on the assembled row.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from orchestrator.errors import UserError
from orchestrator.specs import check, precision, row_references
from orchestrator.specs.compatibility import check_compatibility
from orchestrator.specs.components import SIDE_SLOTS, WHOLE_SLOTS, refusal, site_info
from orchestrator.specs.gc_pause import no_garbage_collection
from orchestrator.specs.grid.assignments import Assignment, ConflictError, apply, assignments
from orchestrator.specs.grid.axes import Value
from orchestrator.specs.grid.combinations import Combination, Grid
from orchestrator.specs.grid.named_rows import label
from orchestrator.specs.messages import Problem
from orchestrator.specs.parsed_table import TableFile
from orchestrator.specs.positions import KeyPath, Position
from orchestrator.specs.resolver import Resolver
from orchestrator.specs.row import Row
from orchestrator.specs.schema import ModelSpec, RunSpec

Part = tuple[str, ...]
Key = tuple["Bound", ...]
"""The bound values that set keys of a part."""

UNREGULARIZED: tuple[Part, ...] = tuple(("model", name) for name in ("encoder", "decoder", *WHOLE_SLOTS))
REGULARIZERS: Part = ("model", "regularizers")
NETWORK: tuple[Part, ...] = (*UNREGULARIZED, REGULARIZERS)
WIDTHS: Part = ("model",)
"""Everything of the model outside NETWORK."""
AROUND: tuple[Part, ...] = (WIDTHS, ("data",))
"""The parts that a profile reads when it scales another part."""
SECTIONS: tuple[Part, ...] = tuple((name,) for name in check.SECTIONS if name != "model")
MOST_LINES = 20


@dataclass(eq=False)
class Bound:
    """A value of an axis with its <words> expanded, and the parts in which it sets keys."""

    sets: list[Assignment]
    parts: list[Part]


@dataclass
class Assembled:
    """Rows of a grid. unfit: error line of each distinct component refusal -> number of combinations; refused: combination name -> line."""

    rows: list[Row] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    unfit: dict[str, int] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)


def part_of(path: Iterable[str | int]) -> Part:
    """Returns the part of the spec to which a key path belongs."""
    parts = tuple(str(p) for p in path)
    return parts[:2] if parts[:2] in NETWORK else parts[:1]


def assemble(table: TableFile, resolver: Resolver) -> Assembled:
    """Returns the rows of the table's grid under the resolver. Without profile and overrides, the result is cached in the grid."""
    assert table.grid is not None
    plain = resolver.profile is None and not resolver.sets
    if not plain:
        with no_garbage_collection():
            return _Assembler(table, table.grid, resolver).run()
    if table.grid.assembled is None:
        with no_garbage_collection():
            table.grid.assembled = _Assembler(table, table.grid, resolver).run()
    found: Assembled = table.grid.assembled
    if found.rows and found.rows[0].spec is not None and found.rows[0].spec.seed != resolver.seed:
        found = replace(found, rows=[row.at(resolver.seed) for row in found.rows])
    return found


class _Assembler:
    def __init__(self, table: TableFile, grid: Grid, resolver: Resolver) -> None:
        self.table, self.grid, self.resolver = table, grid, resolver
        self.bounds: dict[tuple[Value, tuple[Value, ...]], Bound] = {}
        self.parts: dict[tuple[Part, Key, Key], RunSpec | None] = {}
        self.sections: dict[tuple[Key, ...], dict[str, Any] | None] = {}
        self.unregularized: dict[tuple[Key, ...], ModelSpec | None] = {}
        self.models: dict[tuple[Any, ...], tuple[ModelSpec, list[Problem]] | None] = {}
        self.refusals: dict[tuple[Any, ...], str | None] = {}
        self.wholes: dict[tuple[Any, ...], list[Problem]] = {}
        self.messages: dict[tuple[KeyPath, str], str] = {}
        self.found = Assembled()
        self.bad: dict[str, None] = {}

    def run(self) -> Assembled:
        try:
            address, parent = self._parent()
        except UserError as error:
            self.found.problems = error.lines
            return self.found
        self.address = address
        assumed = list(dict.fromkeys([*self.table.assumed, *self.grid.section.assumed]))
        where, _, line = self.grid.position.where.rpartition(":")
        prefix, figures, workers = self.table.address, self.table.figures, self.grid.section.workers
        bound, means = self.resolver.bound(figures.failed_below), dict(figures.means.data)
        marked: dict[str, Any] = {"analysis": figures.analysis, "significance": figures.significance, "failed_below": bound}
        marked = {name: value for name, value in (marked | {"controls": figures.controls or None}).items() if value is not None}
        for name, values in self.grid.combinations().items():
            spec = self._spec(name, values)
            if spec is None:
                continue
            try:
                also = self.resolver.also(figures, spec) if figures.also.data else {}
            except UserError as error:
                self.bad.update(dict.fromkeys(error.lines))
                continue
            row = Row(f"{prefix}/{name}", label(values), "run", spec, {}, assumed, workers, False, where, int(line), parent, also, means)
            self.found.rows.append(replace(row, **marked) if marked else row)
        if self.grid.section.unfit == "error":
            self.bad.update(dict.fromkeys(self.found.unfit))
        lines = list(self.bad)
        more = [f"{self.grid.position.where}: grid: and {len(lines) - MOST_LINES} problems more"] if len(lines) > MOST_LINES else []
        self.found.problems = lines[:MOST_LINES] + more
        if not self.found.rows and not self.found.problems:
            self.found.problems = [self.grid.position.line("every combination is excluded; expected at least one row")]
        return self.found

    def _parent(self) -> tuple[str | None, Row | None]:
        """Returns address and row of the grid's `init_from`, or (None, None). Raises UserError if the row does not exist."""
        if self.grid.section.init_from is None:
            return None, None
        name = next(iter(self.grid.combinations()))
        home, row = row_references.parent(self.table, self.table.rows[name])
        return f"{home.address}/{row}", self.resolver.row(home, row, self._reach())

    def _reach(self) -> Any:
        """Returns the overrides that apply to the parent: all except those of components."""
        return [o for o in self.resolver.sets if part_of(o.path) not in NETWORK]

    def _bound(self, value: Value, words: tuple[Value, ...]) -> Bound:
        known = self.bounds.get((value, words))
        if known is None:
            sets = assignments((*words, value))
            known = self.bounds[value, words] = Bound(sets, list(dict.fromkeys(part_of(path) for path, _, _ in sets)))
        return known

    def _spec(self, name: str, values: Combination) -> RunSpec | None:
        """Returns the resolved spec, or None after recording its problems."""
        touching: dict[Part, list[Bound]] = {}
        words = {value.axis: value for value in values if value.words}
        for value in values:
            if value.settings:
                try:
                    bound = self._bound(value, tuple(words[name] for name in value.placeholders if name in words))
                except ConflictError as error:
                    self.bad[str(error)] = None
                    return None
                for part in bound.parts:
                    touching.setdefault(part, []).append(bound)
        keys: dict[Part, Key] = {part: tuple(bounds) for part, bounds in touching.items()}
        around: Key = keys.get(WIDTHS, ()) + keys.get(("data",), ())
        network = (around, *(keys.get(part, ()) for part in NETWORK))
        if network not in self.models:
            self.models[network] = self._model(keys, around)
        made = self.models[network]
        settings = (around, *(keys.get(part, ()) for part in SECTIONS))
        if settings not in self.sections:
            self.sections[settings] = self._sections(keys, around)
        sections = self.sections[settings]
        if made is None or sections is None:
            return None
        model, problems = made
        if problems:
            self._refused(name, values, problems[0])
            return None
        spec = RunSpec.model_validate(sections | {"model": model, "seed": self.resolver.seed, "init_from": self.address})
        asked = (model.encoder.num_layers, model.decoder.num_layers, *settings)
        if asked not in self.wholes:
            self.wholes[asked] = check.whole(spec)
        if self.wholes[asked]:
            row = apply(assignments(values), self.table.shared)
            self.bad.update(dict.fromkeys(row.line(p.path, p.message) for p in self.wholes[asked]))
            return None
        if too_few := precision.refused(spec):
            self._refused(name, values, too_few[0])
            return None
        return spec

    def _part(self, part: Part, key: Key, around: Key) -> RunSpec | None:
        """Returns a spec of which only `part` is used, resolved from the settings of `part` and AROUND; None if it is invalid."""
        known = (part, key, around)
        if known not in self.parts:
            wanted = {part, *AROUND}
            sets = [a for bound in dict.fromkeys((*around, *key)) for a in bound.sets if part_of(a[0]) in wanted]
            overrides = [o for o in self.resolver.sets if part_of(o.path) in wanted]
            self.parts[known] = None
            try:
                row = apply(sets, self.table.shared)
                self.parts[known] = self.resolver.spec(row, overrides, self.address, cross_checks=False)
            except ConflictError as error:
                self.bad[str(error)] = None
            except UserError as error:
                self.bad.update(dict.fromkeys(error.lines))
        return self.parts[known]

    def _sections(self, keys: dict[Part, Key], around: Key) -> dict[str, Any] | None:
        """Returns the sections beside the model; None if one is invalid on its own."""
        found = {part[0]: self._part(part, keys.get(part, ()), around) for part in SECTIONS}
        return None if any(spec is None for spec in found.values()) else {name: getattr(spec, name) for name, spec in found.items()}

    def _model(self, keys: dict[Part, Key], around: Key) -> tuple[ModelSpec, list[Problem]] | None:
        """Returns the model assembled from its parts, and its incompatibilities; None if a part is invalid on its own."""
        settings = (around, *(keys.get(part, ()) for part in UNREGULARIZED))
        if settings not in self.unregularized:
            self.unregularized[settings] = self._unregularized(keys, around)
        model, regularized = self.unregularized[settings], self._part(REGULARIZERS, keys.get(REGULARIZERS, ()), around)
        if model is None or regularized is None:
            return None
        model = model.model_copy(update={"regularizers": regularized.model.regularizers})
        return model, self._unfit(model)

    def _unregularized(self, keys: dict[Part, Key], around: Key) -> ModelSpec | None:
        """Returns the model without regularizers, whose weights many searches vary; None if a part is invalid on its own."""
        base = self._part(WIDTHS, keys.get(WIDTHS, ()), around)
        found = {part[1]: self._part(part, keys.get(part, ()), around) for part in UNREGULARIZED}
        if base is None or any(spec is None for spec in found.values()):
            return None
        parts = {name: getattr(spec.model, name) for name, spec in found.items() if spec is not None} | {REGULARIZERS[1]: []}
        rest = {name: getattr(base.model, name) for name in ModelSpec.model_fields if name not in parts}
        return ModelSpec.model_validate(rest | parts)

    def _unfit(self, model: ModelSpec) -> list[Problem]:
        """Returns the first component that refuses its site, or the first incompatibility between components."""
        depths = {"encoder": {"num_layers": model.encoder.num_layers}, "decoder": {"num_layers": model.decoder.num_layers}}
        site = depths | {"d_model": model.d_model, "num_heads": model.num_heads, "norm": model.norm}
        filled: dict[KeyPath, dict[str, Any]] = {}
        place = (model.encoder.num_layers, model.decoder.num_layers, model.d_model, model.num_heads, model.norm)
        for path, registry, component in _components(model):
            filled[path] = component
            known = (path, tuple(map(str, component.values())), place)
            if known not in self.refusals:
                info = site_info(site, path)
                self.refusals[known] = None if info is None else refusal(registry, component, info)
            message = self.refusals[known]
            if message is not None:
                return [Problem(("model", *path), message)]
        return [Problem(("model", *p.path), p.message) for p in check_compatibility(filled)]

    def _refused(self, name: str, values: Combination, problem: Problem) -> None:
        known = (problem.path, problem.message)
        if known not in self.messages:
            row = apply(assignments(values), self.table.shared)
            row.home = Position(self.grid.position.where, ("grid",))
            self.messages[known] = row.line(problem.path, problem.message)
        line = self.messages[known]
        self.found.unfit[line] = self.found.unfit.get(line, 0) + 1
        self.found.refused[name] = line


def _components(model: ModelSpec) -> list[tuple[KeyPath, str, dict[str, Any]]]:
    """Returns (path below `model`, registry, component) of every component, in the order of `components.slots`."""
    found: list[tuple[KeyPath, str, dict[str, Any]]] = []
    for name in ("encoder", "decoder"):
        side = getattr(model, name)
        found += [((name, slot), slot, getattr(side, slot)) for slot in SIDE_SLOTS]
    found.append((("decoder", "cross_attention"), "cross_attention", model.decoder.cross_attention))
    found += [((slot,), slot, getattr(model, slot)) for slot in WHOLE_SLOTS if getattr(model, slot) is not None]
    return found + [(("regularizers", i), "regularizer", each) for i, each in enumerate(model.regularizers)]
