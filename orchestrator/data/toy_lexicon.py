"""The words of the toy languages: pronounceable stems, their meanings, affixes and function words.

Side A (source) is head-final with case and gender; side B (target) is head-initial with articles, noun classes and auxiliaries.
All words are a function of `ToyParams` by string-seeded `random.Random` and integer arithmetic, so they are equal on every platform.
"""

from bisect import bisect_right
from itertools import accumulate, count
from random import Random
from typing import Generic, NamedTuple, TypeVar

from orchestrator.specs.corpora import ToyParams

T = TypeVar("T")
UNIT = 10**9


class Noun(NamedTuple):
    """A noun or a name. gender: 0-2 on side A; targets: (stem, class 0-1) on side B, by topic of the clause."""

    stem: str
    gender: int
    targets: tuple[tuple[str, int], tuple[str, int]]
    animate: bool


class Adjective(NamedTuple):
    """An adjective or adverb. targets: stems on side B for inanimate and animate nouns."""

    stem: str
    targets: tuple[str, str]


class Verb(NamedTuple):
    """A verb. targets: stems on side B for inanimate and animate objects; topic (0-1): selects noun meanings in the clause."""

    stem: str
    targets: tuple[str, str]
    topic: int


class Zipf(Generic[T]):
    """Draws items with probability proportional to 1 / (rank + 2)."""

    def __init__(self, items: list[T]) -> None:
        self.items = items
        self.bounds = list(accumulate(UNIT // (rank + 2) for rank in range(len(items))))

    def draw(self, rng: Random) -> T:
        return self.items[bisect_right(self.bounds, int(rng.random() * self.bounds[-1]))]


class Language:
    """Phonology of one side and the words used so far."""

    def __init__(self, onsets: str, vowels: str, codas: str) -> None:
        self.onsets, self.vowels, self.codas = onsets, vowels, codas
        self.taken: set[str] = set()

    def word(self, rng: Random, syllables: int) -> str:
        """Makes a new word, which is longer once the short ones are used up."""
        for tries in count():
            letters = [rng.choice(part) for _ in range(syllables + tries // 8) for part in (self.onsets, self.vowels)]
            found = "".join(letters) + rng.choice(self.codas)
            if found not in self.taken:
                break
        self.taken.add(found)
        return found


class Lexicon:
    """All words of both sides."""

    def __init__(self, params: ToyParams) -> None:
        rng = self.rng = Random(f"toy-lexicon/{params.seed}/{params.vocabulary}")
        a = self.a = Language("bdgklmnprstvz", "aeiou", "klmnrst")
        b = self.b = Language("bcdfghjlmnpqsvwy", "aeioy", "bcdfglnpsx")
        self.ambiguity = params.ambiguity

        def closed(side: Language, number: int) -> list[str]:
            return [side.word(rng, 1) for _ in range(number)]

        # side A: case suffix by gender, number and case (nominative, accusative, dative); nominative singular is bare
        endings = [v + c for v in "aeiou" for c in ("", "n", "sh")]
        rng.shuffle(endings)
        supply = iter(endings)
        self.case_a = [[["" if (n, c) == (0, 0) else "i" * n + next(supply) for c in range(3)] for n in range(2)] for _ in range(2)]
        self.case_a.append(self.case_a[0])
        self.adjective_a = [["ev", "iv"], ["ov", "uv"], ["av", "iv"]]
        self.verb_a = {(t, n): tense + number for t, tense in enumerate(("", "ad", "ur")) for n, number in enumerate(("o", "on"))}
        self.pronoun_a = {(t, n): tense + number for t, tense in enumerate(("", "ad", "ur")) for n, number in enumerate(("im", "imun"))}
        self.determiner_a = [closed(a, 2) for _ in range(3)]
        self.not_a, self.question_a, self.that_a, self.and_a, self.relative_a = closed(a, 5)
        self.post_a, self.conjunction_a, self.numeral_a = closed(a, 8), closed(a, 5), closed(a, 6)
        # side B
        self.plural_b = ["ee", "oy"]
        self.adjective_b = [["", "es"], ["ia", "ias"]]
        self.verb_b = {(0, 0): "u", (0, 1): "ux", (1, 0): "ado", (1, 1): "adox", (2, 0): "ar", (2, 1): "ar"}
        self.definite_b, self.indefinite_b = [closed(b, 2) for _ in range(2)], [closed(b, 2) for _ in range(2)]
        self.future_b, self.pronoun_b, self.relative_b = closed(b, 2), closed(b, 2), closed(b, 2)
        self.not_b, self.nothing_b, self.that_b, self.and_b, self.to_b = closed(b, 5)
        self.pre_b, self.conjunction_b, self.numeral_b = closed(b, 8), closed(b, 5), closed(b, 6)
        self._open(params)

    def _open(self, params: ToyParams) -> None:
        """Makes the open classes, frequent words first; these are shorter."""
        size, rng = params.vocabulary, self.rng
        self.nouns = Zipf([self._noun(rank) for rank in range(size * 42 // 100)])
        self.names = Zipf([self._name(rank) for rank in range(size * 8 // 100)])
        self.adjectives = Zipf([Adjective(*self._pair(rank)) for rank in range(size * 16 // 100)])
        self.adverbs = Zipf([Adjective(*self._pair(rank, ambiguous=False)) for rank in range(size * 8 // 100)])
        self.intransitive = Zipf([self._verb(rank) for rank in range(size * 8 // 100)])
        self.ditransitive = Zipf([self._verb(rank) for rank in range(size * 2 // 100 + 1)])
        self.saying = Zipf([self._verb(rank, ambiguous=False) for rank in range(size * 2 // 100 + 1)])
        self.transitive = Zipf([self._verb(rank) for rank in range(size - size * 86 // 100 - 2)])
        self.idioms: dict[tuple[Verb, Noun], str] = {}
        for rank in range(max(4, size // 40)):
            pair = rng.choice(self.transitive.items), rng.choice(self.nouns.items)
            if pair not in self.idioms:
                self.idioms[pair] = self.b.word(rng, _syllables(rank))
        self.idiom_pairs = Zipf(list(self.idioms))

    def _pair(self, rank: int, ambiguous: bool = True) -> tuple[str, tuple[str, str]]:
        first = self.b.word(self.rng, _syllables(rank))
        twice = self.rng.random() < self.ambiguity and ambiguous
        return self.a.word(self.rng, _syllables(rank)), (first, self.b.word(self.rng, _syllables(rank)) if twice else first)

    def _noun(self, rank: int) -> Noun:
        stem, (first, second) = self._pair(rank)
        one = first, self.rng.randrange(2)
        two = one if first == second else (second, self.rng.randrange(2))
        return Noun(stem, self.rng.randrange(3), (one, two), self.rng.random() < 0.5)

    def _name(self, rank: int) -> Noun:
        stem = self.a.word(self.rng, 2).capitalize()
        target = stem, self.rng.randrange(2)
        return Noun(stem, 0, (target, target), animate=True)

    def _verb(self, rank: int, ambiguous: bool = True) -> Verb:
        return Verb(*self._pair(rank, ambiguous), self.rng.randrange(2))


def _syllables(rank: int) -> int:
    return 1 if rank < 60 else 2 if rank < 2000 else 3
