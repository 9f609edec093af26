"""The noise floor of a recipe: the variance of scores over seeds of one row, from `nmt-ablate noise`, in RESULTS/noise/KEY16.json.

Rows of one spec family differ only in the model, its start and the seed. The spread of one row's seeds is therefore a good estimate for the
other rows. Plans use it to compute detectable effects; in tables it counts as one more row.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from orchestrator.files.canonical import digest
from orchestrator.ledger.keys import recorded
from orchestrator.ledger.results import Ledger
from orchestrator.ledger.statistics import WIDTHS
from orchestrator.report.effects import Effects, Outcomes
from orchestrator.scoring.significance.estimator import Arm, detectable, multiplicities, seeds_needed
from orchestrator.scoring.significance.mixed import Spread, degrees, own
from orchestrator.scoring.significance.sentence_statistics import StatisticsReader
from orchestrator.specs.row import Row
from orchestrator.specs.schema import RunSpec

FOLDER = "noise"
SECTIONS = ("data", "batch", "optim", "train", "decode", "score")


@dataclass(frozen=True)
class Floor:
    """The floor of one metric. same_family: False if it was measured with another recipe on the same test set."""

    row: str
    spread: Spread
    same_family: bool


def family(spec: RunSpec) -> dict[str, Any]:
    """Returns the part of a spec that all rows of a family share."""
    return {name: section for name, section in recorded(spec).items() if name in SECTIONS}


def measure(row: Row, outcomes: Outcomes, reader: StatisticsReader) -> dict[str, Any]:
    """Measures a floor from the finished seeds of `row`.

    Returns {"row", "seeds", "family", "metrics": {name: {"mean", "sd", "df", "sentences"}}}; sentences: a run's bootstrap standard error.
    """
    record: dict[str, Any] = {"row": row.id, "family": family(row.run_spec), "metrics": {}}
    for metric in WIDTHS:
        arm = Effects([row], outcomes, reader, metric).arms.get(row.id)
        if arm is None or (spread := own(arm.scores)) is None:
            continue
        found = {"mean": float(arm.scores.mean()), "sd": spread.sd, "sentences": sentence_error(arm)}
        record["metrics"][metric] = {name: round(v, 5) for name, v in found.items()} | {"df": round(spread.df)}
        record["seeds"] = arm.k
    return record


def save(ledger: Ledger, record: Mapping[str, Any]) -> None:
    """Writes the floor. It replaces a floor of the same family."""
    ledger.write_document(FOLDER, digest(record["family"]), record)


def load(ledger: Ledger, spec: RunSpec, metric: str) -> Floor | None:
    """Returns the floor of the spec's family, else a floor with the same corpus and test set. Of several, the one with the most seeds."""
    wanted = family(spec)
    found: list[Floor] = []
    for record in ledger.documents(FOLDER):
        stored, of = record["metrics"].get(metric), record["family"]
        if stored is not None and (of["data"]["corpus"], of["score"]) == (wanted["data"]["corpus"], wanted["score"]):
            found.append(Floor(record["row"], Spread(stored["sd"] ** 2, stored["df"]), of == wanted))
    return max(found, key=lambda floor: (floor.same_family, floor.spread.df), default=None)


def of_family(ledger: Ledger, table: Collection[str], spec: RunSpec, metric: str) -> Spread | None:
    """Returns the `floor` of `Effects`: a floor of the same family, but not of a row of the table, because its seeds already count."""
    found = load(ledger, spec, metric)
    return found.spread if found is not None and found.same_family and found.row not in table else None


def power(floor: Floor, rows: int, seeds: int, claims: Mapping[str, float]) -> dict[str, Any]:
    """Returns the power of a plan: {"floor", "sd", "df", "same_family", "seeds", "mde", "seeds_needed": {row: seeds or None}}.

    rows: number of rows of the table; claims: row -> claimed difference. The variance over sentences is unknown before the runs.
    """
    spread = Spread(floor.spread.variance, floor.spread.df, rows)
    mde = None if seeds < 2 else detectable(math.sqrt(2 * spread.variance / seeds), degrees(rows, seeds))
    needed = {row: seeds_needed(claim, spread) for row, claim in claims.items() if claim}
    about = {"floor": floor.row, "sd": round(floor.spread.sd, 4), "df": floor.spread.df, "same_family": floor.same_family, "seeds": seeds}
    return about | {"mde": None if mde is None else round(mde, 3), "seeds_needed": needed}


def sentence_error(arm: Arm) -> float:
    """Returns the bootstrap standard error of one run's score over sentences: the root of the mean variance over seeds."""
    size = arm.statistics.shape[1]
    return float(np.sqrt(arm.resampled(multiplicities(size), np.arange(size)).var(axis=1, ddof=1).mean()))
