"""95 % intervals of the mean scores of single rows, for figures; differences between rows have their own in `report.effects`.

Two seeds or more: over seeds, with the variance that `report.effects` pools. One seed: over sentences, by the bootstrap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress

from orchestrator.analysis.base import AnalysisContext, Subject
from orchestrator.data.prepare import prepare
from orchestrator.data.store import Prepared
from orchestrator.errors import UserError
from orchestrator.report.effects import Effects
from orchestrator.report.find import Finder
from orchestrator.report.noise_floor import sentence_error
from orchestrator.scoring.significance.estimator import LEVEL, quantile
from orchestrator.scoring.significance.reader import StatisticsReader
from orchestrator.specs.schema import DataSpec
from orchestrator.sweeps.plan import Data

SEEDS, SENTENCES = "seeds", "sentences"


class Intervals:
    """Half-widths of the intervals of an analysis's rows."""

    def __init__(self, context: AnalysisContext, subjects: Sequence[Subject]) -> None:
        finder = Finder(context.ledger, Data(context.data_dir, context.cache_dir))
        self.outcomes = {s.row.id: finder.outcomes(s.row, [s.spec.seed]) for s in subjects}

        def prepared(data: DataSpec) -> Prepared | None:
            with suppress(UserError):  # its text is missing
                return prepare(data, context.data_dir, context.cache_dir)
            return None

        self.effects = Effects([s.row for s in subjects], self.outcomes, StatisticsReader(context.ledger, prepared))

    def half(self, row: str) -> tuple[float | None, str | None]:
        """(half-width, what it is over). None where a row has no statistics of sentences: no translations, or no text of its corpus."""
        arm = self.effects.arms.get(row)
        if arm is None:
            return None, None
        spread = self.effects.spread(row)
        if spread is None or arm.k == 1:
            return round(quantile(1 - LEVEL / 2, math.inf) * sentence_error(arm), 4), SENTENCES
        return round(quantile(1 - LEVEL / 2, spread.df) * math.sqrt(spread.variance / arm.k), 4), SEEDS

    def notes(self, found: Sequence[str | None]) -> list[str]:
        """What the bars are over, from the second values of `half`, and that some rows have none."""
        notes = [f"bars: 95 % interval over {name}" for name in (SEEDS, SENTENCES) if name in found]
        if SENTENCES in found:
            notes.append("an interval over sentences does not say what other seeds would give")
        if None in found:
            notes.append(
                "rows without an interval: their corpus is not prepared here (--data-dir, --cache-dir) or translations are missing"
            )
        return notes
