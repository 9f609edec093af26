"""Matched controls: rows that show whether a variant gains more than its additional parameters or operations explain.

`row1@params=row5` is row1, widened to the parameters of row5 and trained like row1. `row1@flops=row5` is row1, trained for as many
operations as row5. If row5 starts from row1's trained weights, the flops control starts from them too. The params control then starts from
a widened row1, which is trained before (`row1@params=row5@start`). Each control then trains as long as row5. Both match within TOLERANCE.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rich.console import Console

from orchestrator.cost.flops import work
from orchestrator.cost.widths import TOLERANCE, widened
from orchestrator.cost.work import Length, Lengths
from orchestrator.data import prepare
from orchestrator.data.store import Prepared
from orchestrator.errors import UserError
from orchestrator.specs import check, index, rows
from orchestrator.specs.controls import WORDS, wanted
from orchestrator.specs.optim import Restart, Schedule
from orchestrator.specs.row import Control, Row, short_id
from orchestrator.specs.schema import RunSpec
from orchestrator.sweeps import parts
from orchestrator.sweeps.plan import Data


def resolve(
    target: str | list[index.Target],
    data: Data,
    *,
    sets: list[str] | None = None,
    profile: str | None = None,
    seed: int | None = None,
    given: Sequence[str] | None = None,
    preparing: bool = False,
) -> tuple[list[Row], list[str]]:
    """Resolves rows as `specs.rows.resolve` does, matched controls too. Returns rows, and a line for controls that could not be resolved.

    A table includes the controls that its rows request, each below its variant. A single row includes only `given` controls.

    data: vocabulary sizes and lengths, on which controls depend.
    given: kinds of controls that replace the ones in the files.
    preparing: whether to prepare corpora that controls need; for commands that train afterwards.

    Raises UserError as `specs.rows.resolve` does, and if `target` is a control that cannot be resolved.
    """
    resolved = lambda asked: rows.resolve(asked, sets=sets, profile=profile, seed=seed)  # noqa: E731
    found, matcher = index.find_all(target), Matcher(data, preparing=preparing)
    first = found[0]
    if first.control is not None:
        (of,), (against,) = (resolved([index.Target(first.table, (first.control[place],), tuned=first.tuned)]) for place in (0, 2))
        control = Control(first.control[1], of.id, against.id)
        if of.kind != "run" or against.kind != "run":
            raise UserError(f"{control.name}: found rows of kind {of.kind} and {against.kind}; expected rows of kind run")
        try:
            return [matcher.row(control, of, against)], []
        except UserError as error:
            raise UserError(*(f"{control.name}: {line}" for line in error.lines)) from error
    named = resolved(found)
    if given is None and (first.row is not None or not any(row.controls for row in named)):
        return named, []
    whole = named if not first.rows else resolved(first.table.path)
    by_id, asked = {row.id: row for row in whole}, wanted(whole, given)
    return matcher.each_followed(named, asked, by_id, lambda row: True)


_PLAIN: dict[str, Any] = {"expect": {}, "pinned": False, "note": "", "controls": ()}
"""Fields that a control does not copy from its row."""


class Matcher:
    """Makes controls from resolved rows of kind run."""

    def __init__(self, data: Data, *, preparing: bool = False) -> None:
        self.data, self.preparing = data, preparing
        self.lengths = Lengths()
        self._tried: set[str] = set()

    def each_followed(
        self, rows: Sequence[Row], asked: Mapping[str, Sequence[Control]], by_id: Mapping[str, Row], keep: Callable[[Row], bool]
    ) -> tuple[list[Row], list[str]]:
        """Returns all rows, with controls after their row, and a line for controls that cannot be made. keep: filters rows with controls.

        asked: row -> its controls; by_id: all rows of the table. A control that is already among them is not made again.
        """
        found, left_out = list[Row](), dict[str, list[str]]()
        for row in rows:
            found.append(row)
            for control in (each for each in asked.get(row.id, ()) if each.name not in by_id and keep(row)):
                try:
                    found += filter(keep, [self.row(control, by_id[control.of], row)])
                except UserError as error:
                    left_out.setdefault("; ".join(error.lines), []).append(short_id(control.name))
        return found, [f"control{'s' * (len(names) > 1)} {', '.join(names)} left out: {reason}" for reason, names in left_out.items()]

    def row(self, control: Control, of: Row, against: Row) -> Row:
        make = self._widened if control.kind == "params" else self._trained
        spec, parent, how = make(of, against)
        checked = check.valid(spec.sections(), control.name, spec)
        label = f"{short_id(of.id)}, {how}: {WORDS[control.kind]} of {short_id(against.id)}"
        return replace(of, id=control.name, label=label, spec=checked, parent=parent, control=control, **_PLAIN)

    def _widened(self, of: Row, against: Row) -> tuple[RunSpec, Row | None, str]:
        sizes, target = self._sizes(of.run_spec), parts.params(against.run_spec, *self._sizes(against.run_spec))
        model, how = widened(of.run_spec, sizes, target)
        spec = of.run_spec.model_copy(update={"model": model})
        if against.run_spec.init_from != of.id:
            return spec, of.parent, how
        start_id = f"{Control('params', of.id, against.id).name}@start"
        start = replace(of, id=start_id, label=f"{short_id(of.id)}, {how}", spec=spec, **_PLAIN)
        return spec.model_copy(update={"init_from": start.id}), start, f"{how}, continued"

    def _trained(self, of: Row, against: Row) -> tuple[RunSpec, Row | None, str]:
        continued = against.run_spec.init_from == of.id
        base = of.run_spec.model_copy(update={"init_from": of.id}) if continued else of.run_spec
        (target, _), (_, length) = self._operations(against.run_spec), self._operations(base)
        spec, updates = base, length.updates
        for _ in range(2):  # again, because epochs with batches of another size change the mean update
            updates = max(1, round(updates * target / self._operations(spec)[0]))
            spec = lengthened(base, length.updates, updates)
        error = self._operations(spec)[0] / target - 1
        how = f"{'continued for ' if continued else ''}{updates:,} updates" + (f" ({error:+.1%})" if abs(error) > TOLERANCE else "")
        return spec, of if continued else of.parent, how

    def _operations(self, spec: RunSpec) -> tuple[float, Length]:
        """Returns the operations of the training itself, as `plan` counts them. UserError: they are unknown in advance."""
        prepared = self._prepared(spec)
        if prepared is None:
            raise UserError(f"operations need the lengths of prepared data: prepare {spec.data.corpus} (nmt-ablate data prepare)")
        length = self.lengths.training(spec, prepared)
        cuts = spec.optim.schedule.cuts_to_end()
        for key, most in (("train.patience", spec.train.patience), ("optim.schedule", cuts or None)):
            if most is not None and length.validations > most:
                raise UserError(f"operations are not known beforehand: {key} may end the training early")
        return work(spec.model, prepared.src_size, prepared.tgt_size).training(length.tokens) * length.updates, length

    def _sizes(self, spec: RunSpec) -> tuple[int, int]:
        self._prepared(spec)
        if (sizes := self.data.vocabulary_sizes(spec)) is None:
            raise UserError(
                f"parameters need vocabulary sizes: prepare {spec.data.corpus} (nmt-ablate data prepare) or give "
                "--set data.vocab.src=N --set data.vocab.tgt=N"
            )
        return sizes

    def _prepared(self, spec: RunSpec) -> Prepared | None:
        section = spec.data.model_dump_json()
        if self.preparing and self.data.cache_dir is not None and section not in self._tried and self.data.manifest(spec.data) is not None:
            with Console(file=sys.stderr).status(f"preparing {spec.data.corpus}"):
                prepare.prepare(spec.data, self.data.data_dir, self.data.cache_dir)
        self._tried.add(section)
        return self.data.prepared(spec.data)


def lengthened(spec: RunSpec, updates: int, to: int) -> RunSpec:
    """Returns the spec with a training of `to` updates instead of `updates`. All other numbers of updates are scaled by the same factor.

    noam's `factor` changes so that the peak of the learning rate stays.
    """
    if to == updates:
        return spec

    def scaled(value: Any) -> Any:
        return value if not isinstance(value, int) else max(1, round(value * to / updates)) if value else 0

    train = {name: scaled(getattr(spec.train, name)) for name in ("validate_every", "checkpoint_every", "snapshot_every")}

    def schedule(old: Schedule) -> Schedule:
        warmup = scaled(old.warmup)
        factor = old.factor if old.kind != "noam" or not warmup else round(old.factor * (warmup / old.warmup) ** 0.5, 6)
        return old.model_copy(update={"warmup": warmup, "factor": factor})

    def restart(old: Restart) -> Restart:
        after = {name: scaled(getattr(old, name)) for name in ("after_steps", "after_epochs")}
        return old.model_copy(update={**after, "schedule": schedule(old.schedule)})

    optim = {"schedule": schedule(spec.optim.schedule), "restart": spec.optim.restart and restart(spec.optim.restart)}
    train |= {"max_steps": to, "max_epochs": None}
    return spec.model_copy(update={"train": spec.train.model_copy(update=train), "optim": spec.optim.model_copy(update=optim)})
