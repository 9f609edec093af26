"""Searches every arm: trains its trials with the search seeds, ends weaker trials at rungs, and chooses the best on the validation set.

Comparisons at a rung wait for all trials of the arm (successive halving, Jamieson and Talwalkar 2016, not the asynchronous form). A choice
therefore depends only on the ledger's records. It is the same for every engine and number of processes, and after interruptions.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from orchestrator.errors import for_each, raise_all
from orchestrator.ledger.results import Ledger, Record
from orchestrator.safe_text import log
from orchestrator.scoring.rouge import figures_of
from orchestrator.specs.profiles import VALID
from orchestrator.specs.row import Row
from orchestrator.specs.sweep import LARGER_IS_BETTER
from orchestrator.sweeps.options import ExecutionOptions
from orchestrator.sweeps.row import Result
from orchestrator.tracking.history import number
from orchestrator.tuning.trials import Trial, Tuning, points, trials_of

Execute = Callable[[list[Row], list[int], ExecutionOptions], list[Result]]


@dataclass
class Arm:
    """A row with its trials. ended: trial -> the rung that ended it. Trial 0, the row as written, is never ended."""

    row: Row
    trials: list[Trial]
    ended: dict[int, int] = field(default_factory=dict)

    @property
    def going(self) -> list[Trial]:
        return [trial for trial in self.trials if trial.number not in self.ended]


def arms_of(rows: Sequence[Row], tuning: Tuning) -> list[Arm]:
    """Returns the arms with all trials. UserError: one line per value that does not fit a row."""
    at = points(tuning.spec)
    made = for_each(lambda row: Arm(row, trials_of(row, tuning, at)), rows)
    drawn = {name for arm in made for trial in arm.trials for name in trial.draws}
    for name in tuning.spec.own:
        if name not in drawn:
            log(tuning.at(("tune", "own", name)).line("warning: no arm has this key"))
    return made


class Search:
    """A search over arms, whose trials `execute` trains.

    execute: runs rows with seeds under options and returns their results (see `sweeps.driver.execute`).
    options: options of the sweep.
    """

    def __init__(self, tuning: Tuning, execute: Execute, options: ExecutionOptions, ledger: Ledger) -> None:
        self.tuning, self.spec, self.execute, self.ledger = tuning, tuning.spec, execute, ledger
        self.options = replace(
            options,
            name=f"{options.name}:search",
            train_only=True,
            sweep={**(options.sweep or {}), "scheduler": {"kind": "fifo", "rungs": [] if self.spec.stop is None else self.spec.stop.rungs}},
        )
        self.results: dict[tuple[str, int], Result] = {}

    def run(self, arms: Sequence[Arm]) -> None:
        """Trains the trials, rung by rung. Finished trials are scored too."""
        if (stop := self.spec.stop) is not None:
            for rung in stop.rungs:
                self._train(arms, rung)
                self._check_validated([trial for arm in arms for trial in arm.going], rung)
                for arm in arms:
                    weaker = self._ranked(arm, rung)[max(1, math.ceil(len(arm.going) / stop.reduction_factor)) :]
                    arm.ended |= {trial.number: rung for trial in arm.going[1:] if trial.number in weaker and self._reached(trial, rung)}
        self._train(arms)

    def _train(self, arms: Sequence[Arm], rung: int | None = None) -> None:
        until = {trial.row.id: arm.ended[trial.number] for arm in arms for trial in arm.trials if trial.number in arm.ended}
        if rung is not None:
            until |= {trial.row.id: rung for arm in arms for trial in arm.going}
        finishing = {trial.row.id for arm in arms for trial in arm.going if rung is None}
        rows = [_validated(trial.row) if trial.row.id in finishing else trial.row for arm in arms for trial in arm.trials]
        for result in self.execute(rows, self.spec.seeds.search, replace(self.options, until=until)):
            self.results[result.id, result.seed] = result

    def _ranked(self, arm: Arm, rung: int) -> list[int]:
        """Returns the numbers of active trials with a value at the rung, the best first; the earlier on ties."""
        sign = -1.0 if self.spec.select in LARGER_IS_BETTER else 1.0
        found = [(sign * known, trial.number) for trial in arm.going if (known := self.at_rung(trial, rung)) is not None]
        return [number for _, number in sorted(found)]

    def keys(self, trial: Trial) -> dict[int, str]:
        return {seed: str(self.results[trial.row.id, seed].view.keys.train) for seed in self.spec.seeds.search}

    def statuses(self, trial: Trial) -> list[str]:
        return [self.results[trial.row.id, seed].outcome.status for seed in self.spec.seeds.search]

    def _reached(self, trial: Trial, rung: int) -> bool:
        """Returns whether the trial was still training at the rung. A rung does not end a shorter training."""
        return all(self._steps(key) >= rung for key in self.keys(trial).values())

    def _steps(self, key: str) -> int:
        return int((self.ledger.read_train(key) or {}).get("steps") or 0)

    def _check_validated(self, trials: Sequence[Trial], rung: int) -> None:
        """Raises UserError for trials that passed the rung without a validation, in a search without it: nobody knows if it ends them."""
        raise_all(
            f"{trial.row.id}: an earlier search trained it past update {rung} without a validation there; expected rungs "
            "at which its runs were validated (tune.stop.rungs), or another results folder"
            for trial in trials
            if any(
                status != "diverged" and self._steps(key) >= rung and self.spec.select not in self._reports(key).get(rung, {})
                for key, status in zip(self.keys(trial).values(), self.statuses(trial), strict=True)
            )
        )

    def _reports(self, key: str) -> Mapping[int, Record]:
        """Returns update -> the metrics reported there."""
        return {report["step"]: report for report in self.ledger.history(key)} | self.ledger.read_rungs(key)

    def at_rung(self, trial: Trial, rung: int) -> float | None:
        """Returns the metric's mean over the search seeds at a rung, or at an earlier good end of training; None without a value."""
        found, select = [], self.spec.select
        for key, status in zip(self.keys(trial).values(), self.statuses(trial), strict=True):
            ended = status == "done" and self._steps(key) < rung
            found.append(self._last(key, trial, select) if ended else number(self._reports(key).get(rung, {}).get(select)))
        return mean(found)

    def final(self, trial: Trial, metric: str | None = None) -> float | None:
        """Returns the mean of a metric over the search seeds for the weights that decoding uses; None if a run did not end well.

        metric: of the validations during training; None: the one by which the search chooses.
        """
        if any(status != "done" for status in self.statuses(trial)):
            return None
        return mean([self._last(key, trial, metric or self.spec.select) for key in self.keys(trial).values()])

    def scores(self, trial: Trial) -> dict[str, float]:
        """Returns metric -> its mean over the search seeds, on the validation set, for a trial that ended well."""
        scored = [self.results[trial.row.id, seed].view.scores.get(VALID) or {} for seed in self.spec.seeds.search]
        found = {"nll": self.final(trial, "valid/nll"), "bleu": mean([each.get("bleu") for each in scored])}
        found["chrf"] = mean([(each.get("chrf") or {}).get("score") for each in scored])
        found |= {name: mean([figures_of(each).get(name) for each in scored]) for name in figures_of(scored[0])}
        return {name: value for name, value in found.items() if value is not None}

    def _last(self, key: str, trial: Trial, metric: str) -> float | None:
        """Returns the value of the best weights if the run decodes with them, else the last value."""
        values = {report["step"]: v for report in self.ledger.history(key) if (v := number(report.get(metric))) is not None}
        best = trial.row.run_spec.decode.checkpoint == "best"
        return values.get((self.ledger.read_train(key) or {}).get("best_step") if best else max(values, default=None))


def _validated(row: Row) -> Row:
    """Returns the row with a scoring on the validation set."""
    return replace(row, also={VALID: row.run_spec.score.model_copy(update={"test": VALID})})


def mean(values: Sequence[float | None]) -> float | None:
    """Returns the mean; None if a value is missing."""
    known = [value for value in values if value is not None]
    return fmean(known) if len(known) == len(values) else None


def cost(ledger: Ledger, keys: Iterable[str]) -> tuple[int, float]:
    """Returns updates and device-seconds of the runs with these train keys."""
    records = [ledger.read_train(key) or {} for key in keys]
    devices = [int(record.get("world_size") or 1) for record in records]
    seconds = sum(float(record.get("seconds") or 0.0) * n for record, n in zip(records, devices, strict=True))
    return sum(int(record.get("steps") or 0) for record in records), seconds
