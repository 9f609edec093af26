"""Sentence statistics of finished runs, from their score records."""

from orchestrator.ledger.keys import Keys
from orchestrator.ledger.results import Ledger
from orchestrator.ledger.statistics import Numbers
from orchestrator.scoring.significance.sentence_statistics import unpacked


class StatisticsReader:
    """Reads and memoises."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._known: dict[str, dict[str, Numbers]] = {}

    def of(self, keys: Keys) -> dict[str, Numbers]:
        """Metric -> statistics [N, S] of the run under `keys`. Empty if its record has none."""
        if keys.train is None or keys.score is None:
            return {}
        if keys.score not in self._known:
            self._known[keys.score] = unpacked(self.ledger.read_score(keys.train, keys.score))
        return self._known[keys.score]
