"""Finds the pairs that `data clean` leaves out and `data report` shows: declared rules, one pair at a time."""

import hashlib
import math
from collections import Counter

from orchestrator.data.oddities import Watch, plain, trigrams
from orchestrator.specs.corpora import Rules

SHORTEST, MARGIN = 20, 0.5
"""Characters of a line whose language is guessed; mean log-ratio of its trigrams from which it counts as another language."""


class Filter:
    """Applies rules to the pairs of one split. watch: statistics of the corpus. Its held-out splits define what is usual on each side."""

    def __init__(self, rules: Rules, watch: Watch) -> None:
        self.rules, self.leaks, self.seen = rules, watch.forms, set[bytes]()
        held = [seen for split, seen in watch.seen.items() if split != "train"]
        src, tgt = (sum(sum(own.lengths[side]) for own in held) for side in (0, 1))
        self.ratio = tgt / max(1, src)
        usual = [sum((own.trigrams[side] for own in held), Counter[str]()) for side in (0, 1)]
        sizes = [counts.total() + len(counts) for counts in usual]
        both = usual[0].keys() | usual[1].keys()
        self.weights = {each: math.log((usual[0][each] + 1) / sizes[0]) - math.log((usual[1][each] + 1) / sizes[1]) for each in both}
        self.known = {each[1] for each in both}

    def faults(self, row: tuple[str, ...]) -> dict[str, float]:
        """Returns broken rule -> by how much, in the order of the rules. The first broken rule counts."""
        src, tgt = row[0].strip(), row[1].strip()
        longest, (low, high) = max(len(src), len(tgt)), sorted((len(src) * self.ratio, len(tgt)))
        digest = hashlib.blake2b(f"{src}\t{tgt}".encode(), digest_size=8).digest()
        rules, again = self.rules, digest in self.seen
        self.seen.add(digest)
        found: dict[str, float | bool] = {
            "max_characters": rules.max_characters is not None and longest > rules.max_characters and longest,
            "max_ratio": rules.max_ratio is not None and high > rules.max_ratio * low and high / max(1, low),
            "copies": rules.copies and src == tgt,
            "other_language": rules.other_language and max(self._otherness(src, -1), self._otherness(tgt, 1)),
            "duplicates": rules.duplicates and again,
            "leaks": rules.leaks and plain(src) in self.leaks,
        }
        return {rule: float(far) for rule, far in found.items() if far}

    def _otherness(self, line: str, sign: int) -> float:
        """Returns how much more usual the trigrams are on the other side; 0 below MARGIN. Unknown letters count 1. sign: -1 for sources."""
        own = [sign * self.weights.get(each, sign * (each[1].isalpha() and each[1] not in self.known)) for each in trigrams(line)]
        mean = sum(own) / max(1, len(own))
        return mean if len(line) >= SHORTEST and mean > MARGIN else 0.0
