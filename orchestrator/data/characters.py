"""Characters of a corpus: those of held-out text that the training text lacks."""

from collections import Counter
from collections.abc import Sequence

MAX_UNKNOWN = 0.01  # share of unknown tokens or characters above which a warning is given


class Characters:
    """Characters of each column. Keys: split, name of the column, side (0: source, 1: references)."""

    def __init__(self) -> None:
        self.counts: dict[tuple[str, str, int], Counter[str]] = {}

    def add(self, split: str, where: Sequence[str], row: Sequence[str]) -> None:
        for i, (column, line) in enumerate(zip(where, row, strict=True)):
            self.counts.setdefault((split, column, min(i, 1)), Counter()).update(line)

    def findings(self) -> tuple[dict[str, list[float]], list[str]]:
        """Held-out split -> share of the characters of each column that its side of train lacks; and warnings."""
        shares, lines = dict[str, list[float]](), list[str]()
        for (split, column, side), counts in self.counts.items():
            if split != "train":
                known = next((train for (name, _, other), train in self.counts.items() if (name, other) == ("train", side)), Counter())
                lacking = Counter({letter: count for letter, count in counts.items() if letter not in known})
                shares.setdefault(split, []).append(share := lacking.total() / max(1, counts.total()))
                if share > MAX_UNKNOWN:
                    most = ", ".join(f"U+{ord(letter):04X}" for letter, _ in lacking.most_common(3))
                    lines.append(f"{column}: {share:.1%} of the characters do not occur in train, most often {most}")
        return shares, lines
