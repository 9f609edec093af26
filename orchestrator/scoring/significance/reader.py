"""Sentence statistics of finished runs: from their score records, or counted from translations and corpus where a record has none."""

from collections.abc import Callable

from orchestrator.data.store import Prepared
from orchestrator.ledger.keys import Keys
from orchestrator.ledger.results import Ledger
from orchestrator.ledger.statistics import Numbers
from orchestrator.scoring.significance.sentence_statistics import of_translation, unpacked
from orchestrator.specs.schema import DataSpec, RunSpec


class StatisticsReader:
    """Reads and memoises. `prepared` returns the corpus of a row, or None if it is absent."""

    def __init__(self, ledger: Ledger, prepared: Callable[[DataSpec], Prepared | None]) -> None:
        self.ledger, self.prepared = ledger, prepared
        self._known: dict[str, dict[str, Numbers]] = {}

    def of(self, spec: RunSpec, keys: Keys) -> dict[str, Numbers]:
        """Metric -> statistics [N, S] of the run under `keys`, scored by `spec.score`. Empty if neither record nor corpus has them."""
        if keys.train is None or keys.score is None or keys.decode is None:
            return {}
        if keys.score not in self._known:
            self._known[keys.score] = unpacked(self.ledger.read_score(keys.train, keys.score)) or self._counted(spec, keys)
        return self._known[keys.score]

    def _counted(self, spec: RunSpec, keys: Keys) -> dict[str, Numbers]:
        """For records of earlier versions."""
        assert keys.train is not None and keys.decode is not None
        decoded, corpus = self.ledger.read_decode(keys.train, keys.decode), self.prepared(spec.data)
        if decoded is None or corpus is None:
            return {}
        return of_translation(decoded["hypotheses"], decoded["tokens"], corpus, spec.score.test, spec.score, decoded.get("nll"))
