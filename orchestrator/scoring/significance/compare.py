"""Paired tests between finished runs, with translations from the ledger and references from the prepared corpus.

Results are stored in RESULTS/significance/KEY16.json, so that a table can show them without the corpus. Mirrors are read too.
"""

from collections.abc import Callable
from pathlib import Path

from orchestrator.data.store import Prepared
from orchestrator.errors import UserError
from orchestrator.files.canonical import digest
from orchestrator.files.documents import read_or_tell, write_document
from orchestrator.ledger import superseded
from orchestrator.ledger.keys import Keys, short
from orchestrator.ledger.results import Ledger
from orchestrator.ledger.statistics import corpus_bleu
from orchestrator.scoring.significance.bleu_statistics import Counts, statistics
from orchestrator.scoring.significance.paired_tests import SAMPLES, SEED, Comparison, compare
from orchestrator.scoring.significance.sentence_statistics import unpacked
from orchestrator.specs.schema import DataSpec, RunSpec

FORMAT = 1
FOLDER = "significance"
TOLERANCE = 1e-6
"""Largest accepted difference between a stored BLEU and the BLEU of the summed sentence statistics."""


class Comparer:
    """Compares runs; memoises the statistics of each translation. `prepared` returns the corpus of a row, or None if it is absent."""

    def __init__(self, ledger: Ledger, prepared: Callable[[DataSpec], Prepared | None], samples: int = SAMPLES, seed: int = SEED) -> None:
        self.ledger, self.prepared, self.samples, self.seed = ledger, prepared, samples, seed
        self._statistics: dict[str, Counts] = {}

    def compare(self, spec: RunSpec, system: Keys, baseline: Keys) -> Comparison | None:
        """Compares two runs scored by `spec.score` on the corpus of `spec.data`.

        Returns None if neither the corpus nor a stored result exists. Raises UserError if a translation is missing or does not reproduce
        its score.
        """
        key = self._key(system, baseline)
        stored = self._stored(key)
        if stored is not None:
            return stored
        corpus = self.prepared(spec.data)
        if corpus is None:
            return None
        return compare(self._of(spec, system, corpus), self._of(spec, baseline, corpus), spec.score, self.samples, self.seed)

    def save(self, system: Keys, baseline: Keys, comparison: Comparison) -> Path:
        """Writes the result to the results folder and returns its path."""
        key = self._key(system, baseline)
        about = {"key": key, "system": system.as_dict(), "baseline": baseline.as_dict(), "samples": self.samples, "seed": self.seed}
        path = self.ledger.root / FOLDER / f"{short(key)}.json"
        write_document(path, about | {"comparison": comparison.to_json()}, key)
        return path

    def _key(self, system: Keys, baseline: Keys) -> str:
        about = {"format": FORMAT, "scores": [system.score, baseline.score], "samples": self.samples, "seed": self.seed}
        again = [superseded.generation(self.ledger.root, keys.train) for keys in (system, baseline)]
        return digest(about | ({"again": again} if any(again) else {}))

    def _stored(self, key: str) -> Comparison | None:
        for root in (self.ledger.root, *self.ledger.mirrors):
            try:
                found = read_or_tell(root / FOLDER / f"{short(key)}.json")
                if found is not None and found["key"] == key:
                    return Comparison.of(found["comparison"])
            except (OSError, ValueError, KeyError, TypeError):
                continue  # absent or damaged: it is computed again
        return None

    def _of(self, spec: RunSpec, keys: Keys, corpus: Prepared) -> Counts:
        assert keys.train is not None and keys.decode is not None and keys.score is not None
        if keys.score not in self._statistics:
            decoded, scored = self.ledger.read_decode(keys.train, keys.decode), self.ledger.read_score(keys.train, keys.score)
            found = unpacked(scored).get("bleu")
            if scored is None or (found is None and decoded is None):
                raise UserError(f"run {short(keys.train)}: its translations of {spec.score.test} are not in {self.ledger.root}")
            if decoded is not None:
                found = statistics(decoded["hypotheses"], decoded["tokens"], corpus, spec.score.test, spec.score)
            assert found is not None
            bleu = float(corpus_bleu(found.sum(axis=0), spec.score))
            if abs(bleu - scored["bleu"]) > TOLERANCE:
                raise UserError(
                    f"run {short(keys.train)}: found BLEU {bleu:.4f} of its translations; expected {scored['bleu']:.4f}, its score"
                )
            self._statistics[keys.score] = found
        return self._statistics[keys.score]
