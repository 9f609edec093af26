"""Options of the probing analysis."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from orchestrator.analysis import probing_classifier as classifier
from orchestrator.analysis.base import Context, choice, numbers
from orchestrator.analysis.options import whole
from orchestrator.analysis.timing import device_of
from orchestrator.data.senteval import TASKS, Task
from orchestrator.errors import UserError
from orchestrator.specs.positions import nearest, shown

OPTIONS = {
    "tasks": "all",
    "classifier": "mlp",
    "nhid": "50,100,200",
    "dropout": "0,0.1,0.2",
    "l2": "1e-5,1e-4,1e-3,1e-2",
    "limit": "all",
    "seed": "1111",
    "device": "auto",
    "data": "",
    "derive": "",
    "language": "en",
}
"""tasks: by either name. data: folder of files in the format of SentEval; derive: file of plain sentences; language: of these."""


LEAST_VALID = 200
"""Instances of va from which settings are compared on it: among twelve, the best of fewer is the luckiest."""


@dataclass(frozen=True)
class How:
    """The options. limit: instances a split at most."""

    tasks: list[Task]
    nhid: list[int]
    dropout: list[float]
    l2: list[float]
    limit: int | None
    seed: int
    device: torch.device

    def search(self, task: Task, valid: int) -> tuple[list[classifier.Setting], list[float]]:
        """(settings of the first stage, weight decays), the first of each alone where va has few of `valid` instances.

        WordContent is linear whatever was asked for, as in the toolkit.
        """
        found = list(classifier.settings([0] if task.name == "WordContent" else self.nhid, self.dropout, self.l2))
        return (found, self.l2) if valid >= LEAST_VALID else (found[:1], self.l2[:1])


def how_of(context: Context) -> How:
    """UserError naming the option that is wrong."""
    options = context.options
    hidden = [0] if choice("classifier", options["classifier"], ("mlp", "logreg")) == "logreg" else numbers("nhid", options["nhid"])
    limit = None if options["limit"] == "all" else whole(context, "limit", least=1)
    device = device_of(choice("device", options["device"], ("auto", "cpu", "cuda")))
    dropout, l2 = (_rates(name, options[name]) for name in ("dropout", "l2"))
    return How(_tasks(options["tasks"]), hidden, dropout, l2, limit, whole(context, "seed"), device)


def _tasks(text: str) -> list[Task]:
    """`Length,WC`, by the toolkit's names or the paper's; always in the paper's order."""
    known = {name.lower(): task for task in TASKS.values() for name in (task.name, task.column)}
    parts = [part.strip() for part in text.split(",")] if text != "all" else list(TASKS)
    for part in parts:
        if part.lower() not in known:
            raise UserError(f"--option tasks={shown(text)}: found '{shown(part, 40)}'; {nearest(part, TASKS)}")
    chosen = {known[part.lower()].name for part in parts}
    return [task for task in TASKS.values() if task.name in chosen]


def _rates(name: str, text: str) -> list[float]:
    """`0,0.1` -> [0.0, 0.1], each at least 0 and below 1."""
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        found = []
    if not found or not all(0.0 <= value < 1.0 for value in found):
        raise UserError(f"--option {name}={shown(text)}: expected numbers from 0 to below 1, as in {name}={OPTIONS[name]}")
    return found
