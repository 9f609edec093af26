"""The ladder of a table: the effect of each row at several sizes, its slope, and its equivalent in compute of the baseline."""

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from orchestrator.cost.flops import work
from orchestrator.cost.work import Lengths
from orchestrator.files.atomic import plain
from orchestrator.report.effects import Effect, Effects, interval
from orchestrator.report.judgement import OfRow
from orchestrator.report.page.section import Section
from orchestrator.scoring.significance.estimator import Answer
from orchestrator.scoring.significance.scaling import LEAST_SIZES, Loss, SpeedUp, slope, speed_up
from orchestrator.scoring.significance.sentence_statistics import TITLES
from orchestrator.specs.row import Row, short_id
from orchestrator.tables import counted

NLL = "nll"
MACHINE = ("device", "cpu", "threads")  # fields of a capsule in which trainings with comparable seconds agree


@dataclass(frozen=True)
class Size:
    """A table at one size. profile: its name, or the file."""

    profile: str
    section: Section

    @cached_property
    def losses(self) -> dict[str, Loss]:
        """Returns row -> its loss and the cost of one training, for rows with at least two seeds and prepared data."""
        rows = [row for row in self.section.rows if row.kind == "run"]
        effects, lengths = Effects(rows, self.section.outcomes, self.section.finder.reader, NLL), Lengths()
        found = {}
        for row in rows:
            scores = effects.arms[row.id].scores if row.id in effects.arms else np.zeros(0)
            if len(scores) > 1 and (took := self._took(row, lengths)) is not None and (spread := effects.spread(row.id)) is not None:
                variance = spread.variance + effects.model(row.id).tau2  # a mean contains the seeds' common effects
                found[row.id] = Loss(float(scores.mean()), (variance / len(scores)) ** 0.5, *took)
        return found

    def _took(self, row: Row, lengths: Lengths) -> tuple[float, float, frozenset[Any]] | None:
        """Returns operations, mean seconds and machines of a training, including the rows that it starts from."""
        operations, seconds, machines = 0.0, 0.0, set[Any]()
        for each in row.lineage:
            outcomes = self.section.done(each.id) if each.id in self.section.outcomes else self.section.finder.outcomes(each)
            records = [self.section.finder.ledger.read_train(str(o.keys.train)) or {} for o in outcomes]
            prepared = None if each.spec is None else self.section.finder.data.prepared(each.spec.data)
            if each.spec is None or prepared is None or not records or any("seconds" not in record for record in records):
                return None
            length = lengths.training(each.spec, prepared)
            updates = statistics.fmean(record["steps"] for record in records)
            operations += work(each.spec.model, prepared.src_size, prepared.tgt_size).training(length.tokens) * updates
            seconds += statistics.fmean(record["seconds"] for record in records)
            machines |= {tuple((o.capsule or {}).get(name) for name in MACHINE) for o in outcomes}
        return operations, seconds, frozenset(machines)

    def tokens_per_parameter(self, row: str) -> float | None:
        """Returns target tokens of a training per parameter of the model."""
        records = [self.section.finder.ledger.read_train(str(o.keys.train)) or {} for o in self.section.done(row)[:1]]
        known = (r["seconds"] * r["tokens_per_second"] / r["params"] for r in records if {"seconds", "tokens_per_second"} <= set(r))
        return next(known, None)


@dataclass(frozen=True)
class Point:
    """A row at one size. params: parameters of its comparison row, else its own. effect, verdict: from the table at this size."""

    profile: str
    params: int | None
    effect: Effect
    verdict: str
    speed_up: SpeedUp | None = None

    def as_json(self) -> dict[str, Any]:
        return vars(self) | {"effect": self.effect.as_json(), "speed_up": None if self.speed_up is None else asdict(self.speed_up)}


@dataclass(frozen=True)
class Line:
    """A row on one metric over the sizes. slope: the change of its effect when the parameters double."""

    row: str
    metric: str
    points: Sequence[Point]
    slope: tuple[float, Answer] | None = None


@dataclass(frozen=True)
class Ladder:
    """The ladder of a table, with all rows that have an effect at some size."""

    table: str
    profiles: Sequence[str]
    lines: Sequence[Line]
    notes: Sequence[str] = ()

    def as_json(self) -> dict[str, Any]:
        """{"table", "ladder": [profile, ..], "rows": [{"row", "metric", "sizes", "slope"}], "notes"}; null for what is infinite."""
        rows = [
            {
                "row": line.row,
                "metric": line.metric,
                "sizes": [point.as_json() for point in line.points],
                "slope": None if line.slope is None else {"per_doubling": line.slope[0], **asdict(line.slope[1])},
            }
            for line in self.lines
        ]
        return dict(plain({"table": self.table, "ladder": self.profiles, "rows": rows, "notes": self.notes}))

    @property
    def title(self) -> str:
        return f"{self.table} at {counted(len(self.profiles), 'size')}"

    HEADS = ("row", "metric", "size", "parameters", "delta", "verdict", "speed-up in compute", "in time")

    def cells(self) -> list[list[str]]:
        """Returns a line per row, metric and size, and a line per slope."""
        found = []
        for line in self.lines:
            for point in line.points:
                about = [short_id(line.row), TITLES[line.metric], point.profile, f"{point.params:,}" if point.params else ""]
                found.append([*about, point.effect.interval, point.verdict, *_said(point.speed_up)])
            if line.slope is not None:
                found.append([short_id(line.row), TITLES[line.metric], "each doubling", "", interval(line.metric, *line.slope), "", "", ""])
        return found


def make(sizes: Sequence[Size]) -> Ladder:
    """Returns the ladder of one table, from the smallest to the largest size. A slope needs one control, test set and vocabulary."""
    starts = {row: base for size in reversed(sizes) for row, base in size.section.starts.items()}
    lines, uneven, empty = [], set[str](), []
    for row in dict.fromkeys(line.id for size in sizes for line in size.section.table.rows if line.id in starts):
        setting = _settings(sizes, row)
        for nll in (False, True):
            points = [point for size in sizes if (point := _point(size, sizes, row, starts[row], nll)) is not None]
            if points:
                same = len({(setting[point.profile], point.effect.against) for point in points}) == 1
                uneven |= set() if same else {short_id(row)}
                lines.append(Line(row, points[0].effect.metric, points, _slope(points) if same else None))
            known = {point.profile for point in points if point.effect.difference is not None}
            if not nll and (without := [size.profile for size in sizes if size.profile not in known]):
                empty.append(f"{short_id(row)} at {', '.join(without)}")
    left = [f"no result of two seeds: {'; '.join(empty)}"] if empty else []
    left += [f"no slope, since data, scoring or the strongest control differ: {', '.join(sorted(uneven))}"] if uneven else []
    return Ladder(sizes[0].section.table.table, [size.profile for size in sizes], lines, [*_notes(sizes), *left])


def _settings(sizes: Sequence[Size], row: str) -> dict[str, str]:
    """Returns profile -> data and scoring of the row, for the sizes that have the row."""
    specs = {size.profile: each.spec for size in sizes for each in size.section.rows if each.id == row}
    return {profile: f"{spec.data.model_dump_json()} {spec.score.model_dump_json()}" for profile, spec in specs.items() if spec is not None}


def _point(size: Size, sizes: Sequence[Size], row: str, base: str, nll: bool) -> Point | None:
    judged = next((line.judged for line in size.section.table.rows if line.id == row), OfRow())
    found = judged.nll if nll else judged.own
    if found is None or found.effect is None:
        return None
    fast = _speed_up(size, sizes, row, base) if nll else None
    params = [done.params for name in (base, row) for done in size.section.done(name) if done.params]
    return Point(size.profile, next(iter(params), None), found.effect, found.verdict.word, fast)


def _slope(points: Sequence[Point]) -> tuple[float, Answer] | None:
    known = [(p.params, p.effect.delta, answer) for p in points if p.params and (answer := p.effect.answer) is not None]
    return slope(*zip(*known, strict=True)) if known else None


def _speed_up(size: Size, sizes: Sequence[Size], row: str, base: str) -> SpeedUp | None:
    """Returns the speed-up relative to the curve of the row's baseline, over sizes with both rows and one vocabulary."""
    data = _settings(sizes, row)
    alike = [each for each in sizes if base in each.losses and data.get(each.profile) == data.get(size.profile)]
    if row not in size.losses or size not in alike:
        return None
    return speed_up([each.losses[base] for each in alike], size.losses[row], alike.index(size))


def _said(found: SpeedUp | None) -> tuple[str, str]:
    if found is None:
        return "", ""
    mark = "~" * found.beyond
    time = "" if found.time is None else f"{mark}{found.time:.2f}"
    return f"{mark}{found.compute:.2f} ({found.low:.2f} to {found.high:.2f})", time


def _notes(sizes: Sequence[Size]) -> list[str]:
    notes = ["verdict: of each size alone, as its table has it", "each doubling: of the parameters of the row that a row is compared with"]
    ratio = {size.profile: size.tokens_per_parameter(str(size.section.table.base)) for size in sizes}
    known = {profile: each for profile, each in ratio.items() if each is not None}
    if known and max(known.values()) > 1.25 * min(known.values()):  # a smaller difference has no note
        said = ", ".join(f"{each:.1f} ({profile})" for profile, each in known.items())
        notes.append(f"tokens per parameter of the baseline differ between sizes: {said}")
    if len(sizes) < LEAST_SIZES:
        notes.append(f"no speed-up: a curve needs {LEAST_SIZES} sizes")
        return notes
    said = "speed-up: compute, or time, in which the baseline's curve over its sizes reaches the row's nll, over the row's own"
    needs = "a speed-up needs two seeds of both rows, the prepared corpus, and losses that clearly fall with compute; in time, one machine"
    return [*notes, said, f"{needs}; ~: outside of the baseline's sizes"]
