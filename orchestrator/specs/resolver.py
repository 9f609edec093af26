"""Resolves a row of a table under a profile, overrides and a seed, with the rows it starts from, is compared with, or analyses."""

from collections.abc import Iterator, Sequence
from typing import Any

from models.registry import REGISTRIES
from orchestrator.errors import UserError, collecting, for_each, raise_all
from orchestrator.safe_text import log_once
from orchestrator.specs import check, corpora, index, profiles
from orchestrator.specs.components import schema
from orchestrator.specs.positions import KeyPath, Located, nearest, shown
from orchestrator.specs.profiles import RATE, Override, Profile
from orchestrator.specs.row import Row, other_scorings
from orchestrator.specs.schema import RunSpec
from orchestrator.specs.table import SCORED, RowHeader, segments
from orchestrator.specs.table_file import ParsedRow, TableFile


class Resolver:
    """Resolves rows under given overrides, profile and seed."""

    def __init__(self, sets: list[Override], profile: str | None, seed: int) -> None:
        self.sets, self.seed = sets, seed
        self.profile = None if profile is None else profiles.load(profile)
        self._parents: dict[tuple[str, ...], Row] = {}

    def row(self, table: TableFile, name: str, sets: list[Override] | None = None) -> Row:
        """Returns a row of a table that passed `check_written`. Raises UserError if overrides or profile make it invalid."""
        sets = self.sets if sets is None else sets
        parsed = table.rows[name]
        head, parent, spec, corpus = parsed.head, None, None, ""
        if head.kind in SCORED:
            parent = self._parent(table, parsed, sets)
            spec = self.spec(parsed.spec, sets, None if parent is None else parent.id, table.shared)
            corpus = parsed.spec.data["data"]["corpus"]
            head = head.model_copy(update={"assumed": list(dict.fromkeys([*table.assumed, *head.assumed]))})
        more: dict[str, Any] = {"label": head.label or name, "of": subjects(table, parsed), "compare_with": compared_with(table, parsed)}
        more |= {"parent": parent, "control_rows": tuple(f"{table.address}/{other}" for other in table.head.control_rows if other != name)}
        return self.made(f"{table.address}/{name}", head, parsed.figures, spec, parsed.position.where, corpus, **more)

    def made(self, address: str, head: RowHeader, figures: Located, spec: RunSpec | None, where: str, corpus: str, **more: Any) -> Row:
        """Returns the row of a head and a resolved spec. where: FILE:LINE. corpus: as written, before a profile. more: other fields."""
        file, _, line = where.rpartition(":")
        scale = Profile() if self.profile is None else self.profile[0]
        bound = figures.data.get("failed_below")  # rows that state none have none; a profile replaces that of the others
        bound = None if bound is None else float(bound if scale.failed_below is None else scale.failed_below)
        also = {} if spec is None else other_scorings(figures, spec, scale.of(corpus).score.get("test"))
        own = {name: getattr(head, name) for name in ("label", "kind", "expect", "assumed", "workers", "pinned", "of", "note")}
        own |= {"also": also, "failed_below": bound, "controls": tuple(figures.data.get("controls", ()))}
        own |= {name: figures.data[name] for name in ("means", "analysis", "significance") if name in figures.data}
        return Row(id=address, spec=spec, source_file=file, line=int(line), corpus=corpus, **own | more)

    def _parent(self, table: TableFile, parsed: ParsedRow, sets: list[Override]) -> Row | None:
        if parsed.head.init_from is None:
            return None
        home, name = _named(table, parsed, parsed.head.init_from, "init_from")
        reach = profiles.for_parent(sets, parsed.spec.data, home.rows[name].spec.data)
        wanted = (str(home.path), name, *(override.text for override in reach))
        if wanted not in self._parents:
            if home is not table:
                check_written(home)
            self._parents[wanted] = self.row(home, name, reach)
        return self._parents[wanted]

    def spec(self, row: Located, sets: list[Override], init_from: str | None, shared: Located | None = None) -> RunSpec:
        """Returns the spec of a row after profile and overrides, in this order. shared: the sections of its table's file."""
        spec = check.check(row, seed=self.seed, init_from=init_from)
        if self.profile is None and not sets:
            return spec
        scaled = Located(spec.sections(), row.home, row.positions)
        if self.profile is not None:
            scaled = profiles.apply(scaled, *self.profile, 1.0 if shared is None else _relative_rate(scaled, shared))
        found = check.check(profiles.apply_sets(scaled, sets), seed=self.seed, init_from=init_from)
        own, now, known = spec.data.corpus, scaled.data["data"]["corpus"], {} if self.profile is None else self.profile[0].corpora
        usual = now.startswith("toy-") and (own.startswith("toy-") or corpora.load_entry(own).needs_data_dir)  # no user's own files
        if own != now == found.data.corpus and own not in known and not usual:
            what = f"found {own}; the profile trains on {now} instead; --set data.corpus={own} keeps it"
            log_once(f"warning: {row.line(('data', 'corpus'), what)}")
        return found


def _relative_rate(row: Located, shared: Located) -> float:
    """Returns the learning rate that the row or an axis of a grid states, relative to its table's; 1 if they state none."""
    own, base = (each.data.get("optim", {}).get("schedule", {}) for each in (row, shared))
    path = row.at(RATE).path
    stated = path[:1] == ("grid",) or (path[:1] == ("rows",) and path[-1:] == RATE[-1:])
    comparable = own["kind"] == base.get("kind") and own["lr"] is not None and isinstance(base.get("lr"), (int, float))
    return float(own["lr"] / base["lr"]) if stated and comparable and base["lr"] else 1.0


def check_written(table: TableFile) -> None:
    """Raises UserError with every problem of the file, sorted by line: structure, specs, references. The rows of a grid are not checked."""
    problems, specs = list(table.problems), list[RunSpec]()
    scored = [parsed for parsed in table.written.values() if parsed.head.kind in SCORED]
    for parsed in scored:
        with collecting(problems):
            specs.append(check.check(parsed.spec))
            other_scorings(parsed.figures, specs[-1])
    for parsed in table.written.values():
        for reference in (subjects, compared_with, _no_circle, _has_start):
            with collecting(problems):
                reference(table, parsed)
    problems += _misspelt(table)
    if specs and len(specs) == len(scored) and table.grid is None:
        problems += _unknown_keys(table, specs)
    if table.grid is not None:
        with collecting(problems):
            names = table.grid.combinations
            if taken := [name for name in table.written if name in names]:
                words = f"found combinations with the names of rows: {', '.join(taken[:8])}; expected other names"
                raise UserError(table.grid.position.line(words))
    consequence = ": missing; expected a value"
    refuse([line for line in (*problems, *_rungs(table)) if not table.lacks_base or not line.endswith(consequence)])


def dotted_keys(value: Any, above: str = "") -> Iterator[str]:
    """Yields every key of plain data, such as `model.regularizers.weight`. Items of a list have no index."""
    for item in value if isinstance(value, list) else ():
        yield from dotted_keys(item, above)
    for name, part in value.items() if isinstance(value, dict) else ():
        yield f"{above}{name}"
        yield from dotted_keys(part, f"{above}{name}.")


def _unknown_keys(table: TableFile, specs: Sequence[RunSpec]) -> list[str]:
    """Returns an error line for each key in `assumed`, `changes` or `tune` that none of the specs has. specs: of all rows of the file."""
    document, data = table.document, [spec.model_dump() for spec in specs]
    used = [("templates", name) for row in table.written.values() for name in row.head.use]
    lists: list[KeyPath] = [(), *used, *document.below("rows")]
    named = [place for path in lists for place in document.below(*path, "assumed").items()]
    named += [place for path in document.below("claims") for place in document.below(*path, "changes").items()]
    drawn = {path: str(path[-1]) for section in ("space", "own") for path in document.below("tune", section)}
    known = {key for each in data for key in dotted_keys(each)}
    kinds = [(registry, kind) for registry in REGISTRIES for kind in REGISTRIES[registry].names()] if drawn else []
    names = {key for key in known if "." in key} | {option for kind in kinds for option in schema(*kind).model_fields}
    found = [(path, key, known) for path, key in named if isinstance(key, str)] + [(path, key, names) for path, key in drawn.items()]
    lines = ((path, f"found '{shown(key)}', which no row has; {nearest(key, keys)}") for path, key, keys in found if key not in keys)
    return [document.at(path).line(words) for path, words in lines]


def _misspelt(table: TableFile) -> list[str]:
    """Returns error lines about unknown names in templates that no row uses, which no other check finds.

    Other errors are dropped, because a template is only a fragment of a row.
    """
    used = {name for parsed in table.written.values() for name in parsed.head.use}
    lines: list[str] = []
    for name in table.templates.keys() - used:
        own, found = table.templates[name].spec, list[str]()
        places = tuple(f"{position.where}: " for position in own.positions.values())
        with collecting(found):
            check.check(table.shared.merged(own))
        lines += [line for line in found if line.startswith(places) and ": unknown " in line]
    return lines


def _rungs(table: TableFile) -> list[str]:
    """Returns a line for each list of rungs whose last one is beyond the steps of every row."""
    sweep, tune = table.head.sweep, table.head.tune
    rungs: dict[KeyPath, list[int]] = {("sweep", "scheduler", "rungs"): [] if sweep is None else sweep.scheduler.rungs}
    rungs["tune", "stop", "rungs"] = [] if tune is None or tune.stop is None else tune.stop.rungs
    specs = [parsed.spec for parsed in table.written.values() if parsed.head.kind == "run"] + [table.shared] * (table.grid is not None)
    steps = [spec.data.get("train", {}).get("max_steps") for spec in specs]
    if not steps or not all(isinstance(s, int) for s in steps):
        return []
    beyond = {path: max(found) for path, found in rungs.items() if max(found, default=0) > max(steps)}
    words = f"expected at most train.max_steps, {max(steps)}"
    return [table.document.at(path).line(f"found a rung at step {last}; {words}") for path, last in beyond.items()]


def refuse(problems: Sequence[str]) -> None:
    """Raises UserError with the problems sorted by file and line, if there are any."""

    def place(line: str) -> tuple[str, int]:
        file, _, rest = line.partition(":")
        number = rest.partition(":")[0]
        return file, int(number) if number.isdigit() else 0

    if problems:
        raise UserError(*sorted(dict.fromkeys(problems), key=place))


def compared_with(table: TableFile, parsed: ParsedRow) -> str | None:
    """Returns the address of the row in `compare_with`, or None.

    Raises UserError if it is not another row of the table of kind run or external, or if the rows that it leads to come back to this one.
    """
    name = parsed.head.compare_with
    if name is None:
        return None
    home, row = _named(table, parsed, name, "compare_with", kinds=SCORED)
    if home is not table:
        position = table.document.at(("rows", parsed.name, "compare_with"))
        raise UserError(position.line(f"found '{shown(name)}', a row of another table; {nearest(name, table.rows)}"))
    _no_circle(table, parsed, "compare_with")
    return f"{table.address}/{row}"


def subjects(table: TableFile, parsed: ParsedRow) -> list[str]:
    """Returns the addresses of the rows in `of`. Raises UserError with one line for each that is not a row of kind run."""

    def address(i: int) -> str:
        home, row = _named(table, parsed, parsed.head.of[i], "of", i)
        return f"{home.address}/{row}"

    return for_each(address, range(len(parsed.head.of)))


def _named(table: TableFile, parsed: ParsedRow, name: str, *key: str | int, kinds: Sequence[str] = ("run",)) -> tuple[TableFile, str]:
    """Returns the table and the name of another row of one of the kinds, by its name in `table` or its address. key: which names it."""
    position = table.document.at(("rows", parsed.name, *key))
    home, row = table, name.removeprefix(f"{table.address}/") if segments(name, 3, 4) else name
    if name in table.rows:
        row = name
    elif row not in table.rows:
        if not segments(name, 3, 4):
            raise UserError(position.line(f"found '{shown(name)}'; {nearest(name, table.rows)}"))
        try:
            target = index.find(name)
        except UserError as error:
            raise UserError(position.line(f"found '{name}': {error.lines[0]}")) from None
        home, row = target.table, target.row or ""
    if (kind := home.rows[row].head.kind) not in kinds:
        raise UserError(position.line(f"found '{name}', a row of kind {kind}; expected one of kind {' or '.join(kinds)}"))
    if home is table and row == parsed.name:
        raise UserError(position.line(f"found the row itself, '{name}'; expected another row"))
    return home, row


def _has_start(table: TableFile, parsed: ParsedRow) -> None:
    """Raises UserError if the row in `init_from` does not keep the weights that this one starts from, or is of another width."""
    if parsed.head.init_from is not None:
        home, row = _named(table, parsed, parsed.head.init_from, "init_from")
        parent, own = check.check(home.rows[row].spec), check.check(parsed.spec)
        start, width = own.decode.checkpoint, parent.model.d_model
        lacks = check.whole(parent.model_copy(update={"decode": parent.decode.model_copy(update={"checkpoint": start})}))
        raise_all(parsed.spec.line(p.path, f"{p.message} in {home.address}/{row}, whose weights it starts from") for p in lacks)
        if own.model.d_model != width:
            words = f"found '{row}', of d_model {width}; expected a row of d_model {own.model.d_model}, as this one"
            raise UserError(table.document.at(("rows", parsed.name, "init_from")).line(words))


def _no_circle(table: TableFile, parsed: ParsedRow, key: str = "init_from") -> None:
    """Raises UserError if the row that `key` names is missing, or if a circle of them begins with this row."""
    seen: list[str] = []
    home, current = table, parsed
    try:
        while (name := getattr(current.head, key)) is not None and (place := f"{home.address}/{current.name}") not in seen:
            seen.append(place)
            home, row = _named(home, current, name, key, kinds=SCORED if key == "compare_with" else ("run",))
            current = home.rows[row]
    except UserError:
        if len(seen) == 1:  # the reference of a later row is reported with that row
            raise
        return
    order = [f"{table.address}/{name}" for name in table.written]
    if seen and current is parsed and seen[0] == next(place for place in order if place in seen):
        names = " -> ".join(place.removeprefix(f"{table.address}/") for place in (*seen, seen[0]))
        raise UserError(table.document.at(("rows", parsed.name, key)).line(f"found a circle: {names}; expected a row that ends it"))
