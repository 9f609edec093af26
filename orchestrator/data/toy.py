"""The built-in corpus: seeded sentence pairs of two artificial languages.

Side A: subject - object - verb, relative clauses before the noun, postpositions, dropped pronouns, subordinate clause first.
Side B: subject - verb - object, adjectives after the noun, articles, auxiliaries, two-part negation, verb first in questions.
Side B is a function of side A: nothing in the translation depends on information that the source lacks.
"""

from dataclasses import dataclass
from random import Random

from orchestrator.data.toy_lexicon import Lexicon, Noun, Verb
from orchestrator.errors import UserError
from orchestrator.specs.corpora import ToyParams

GENERATOR_VERSION = 1
"""Increased when equal parameters give different text."""

SPLITS = ("valid", "test", "train")
"""Splits in order of generation. A split excludes the sources of earlier ones."""

MOST_REJECTED = 100_000
"""Consecutive draws without a new sentence, after which the parameters count as impossible: a few seconds."""

NOMINATIVE, ACCUSATIVE, DATIVE = range(3)
SINGULAR, PLURAL = range(2)
FUTURE = 2


def generate(params: ToyParams) -> dict[str, list[tuple[str, str]]]:
    """Generates {"train": [(source, target), ..], "valid": .., "test": ..}. No source is in two splits, or twice in valid or test.

    A training set is a prefix of any longer one with otherwise equal parameters. UserError: the parameters allow too few sentences.
    """
    lexicon = Lexicon(params)
    used: set[str] = set()
    found: dict[str, list[tuple[str, str]]] = {}
    for split in SPLITS:
        grammar, pairs = Grammar(params, lexicon, Random(f"toy-text/{params.seed}/{split}")), found.setdefault(split, [])
        rejected = 0
        while len(pairs) < getattr(params, split):
            pair = grammar.sentence()
            if pair is None or pair[0] in used:
                rejected += 1
                if rejected == MOST_REJECTED:
                    raise _too_few(params, split, len(pairs))
                continue
            rejected = 0
            pairs.append(pair)
            if split != "train":
                used.add(pair[0])
    return found


def _too_few(params: ToyParams, split: str, number: int) -> UserError:
    values = ", ".join(f"{name} {value}" for name, value in params.model_dump().items())
    expected = "expected other lengths, a higher complexity, a larger vocabulary, or a smaller valid and test"
    return UserError(f"generated corpus: found {number} new sentences for {split} with {values}; {expected}")


@dataclass
class Phrase:
    """The words of a phrase or clause on both sides; of a noun phrase also the features for agreement."""

    a: list[str]
    b: list[str]
    number: int = SINGULAR
    animate: bool = False


class Grammar:
    """Draws sentences from one random stream."""

    def __init__(self, params: ToyParams, lexicon: Lexicon, rng: Random) -> None:
        self.params, self.lexicon, self.rng = params, lexicon, rng

    def sentence(self) -> tuple[str, str] | None:
        """Source and target with final punctuation; None: the draw is too short or too long for the parameters."""
        low, high = self.params.min_words, self.params.max_words
        clause = self._sentence()
        fits = low <= len(clause.a) <= high and low <= len(clause.b) <= high
        return (" ".join(clause.a), " ".join(clause.b)) if fits else None

    def _maybe(self, factor: float = 1.0) -> bool:
        return self.rng.random() < factor * self.params.complexity

    def _sentence(self) -> Phrase:
        words = self.lexicon
        if self.rng.random() < 0.1:
            asked = self._clause(question=True)
            return Phrase([*asked.a, words.question_a, "?"], [*asked.b, "?"])
        main = self._clause()
        if self._maybe(0.5):
            sub, which = self._clause(), self.rng.randrange(5)
            a = [*sub.a, words.conjunction_a[which], ",", *main.a]
            main = Phrase(a, [*main.b, ",", words.conjunction_b[which], *sub.b])
        return Phrase([*main.a, "."], [*main.b, "."])

    def _clause(self, question: bool = False, depth: int = 0) -> Phrase:
        """Draws a clause. `question` puts the verb of side B first."""
        words, rng = self.lexicon, self.rng
        kind = rng.random()
        if depth == 0 and not question and self._maybe(0.3):
            return self._said(words.saying.draw(rng))
        if rng.random() < self.params.idioms:
            return self._idiom(question)
        if kind < 0.3:
            verb, objects = words.intransitive.draw(rng), []
        elif kind < 0.88:
            verb = words.transitive.draw(rng)
            objects = [self._noun_phrase(ACCUSATIVE, verb, depth, other_than=verb)]
        else:
            verb = words.ditransitive.draw(rng)
            objects = [self._noun_phrase(ACCUSATIVE, verb, depth), self._noun_phrase(DATIVE, verb, depth)]
        subject = self._subject(verb, depth)
        group_a, group_b = self._verb(verb.stem, verb.targets[objects[0].animate if objects else 0], subject)
        a = [*subject.a]
        b_tail = [*objects[0].b] if objects else []
        if len(objects) == 2:
            a += objects[1].a
            b_tail += [words.to_b, *objects[1].b]
        if self._maybe(0.8):
            adjunct, which = self._noun_phrase(DATIVE, verb, depth + 1), rng.randrange(8)
            a += [*adjunct.a, words.post_a[which]]
            b_tail += [words.pre_b[which], *adjunct.b]
        a += objects[0].a if objects else []
        if self._maybe(0.6):
            adverb = words.adverbs.draw(rng)
            a.append(adverb.stem)
            group_b.append(adverb.targets[0])
        a += group_a
        return Phrase(a, [*group_b, *subject.b, *b_tail] if question else [*subject.b, *group_b, *b_tail])

    def _said(self, verb: Verb) -> Phrase:
        """A: subject [clause] that verb. B: subject verb that clause."""
        subject, inner = self._subject(verb, 1), self._clause(depth=1)
        group_a, group_b = self._verb(verb.stem, verb.targets[0], subject)
        a = [*subject.a, *inner.a, self.lexicon.that_a, *group_a]
        return Phrase(a, [*subject.b, *group_b, self.lexicon.that_b, *inner.b])

    def _idiom(self, question: bool) -> Phrase:
        """A verb and its bare singular object, which side B expresses by one word that occurs nowhere else."""
        verb, noun = self.lexicon.idiom_pairs.draw(self.rng)
        subject = self._subject(verb, 0)
        group_a, group_b = self._verb(verb.stem, self.lexicon.idioms[verb, noun], subject)
        bare = noun.stem + self.lexicon.case_a[noun.gender][SINGULAR][ACCUSATIVE]
        return Phrase([*subject.a, bare, *group_a], [*group_b, *subject.b] if question else [*subject.b, *group_b])

    def _subject(self, verb: Verb, depth: int) -> Phrase:
        """A noun phrase or a dropped pronoun, which is a word on side B but only the verb's ending on side A."""
        if depth < 2 and self.rng.random() < 0.15:
            number = self.rng.randrange(2)
            return Phrase([], [self.lexicon.pronoun_b[number]], number, True)
        return self._noun_phrase(NOMINATIVE, verb, depth)

    def _verb(self, stem_a: str, stem_b: str, subject: Phrase) -> tuple[list[str], list[str]]:
        """Inflects the verb for tense, agreement and negation."""
        words, rng = self.lexicon, self.rng
        tense = (0, 0, 1, 1, 2)[rng.randrange(5)]
        endings = words.verb_a if subject.a else words.pronoun_a
        a = [stem_a + endings[tense, subject.number]]
        b = [stem_b + words.verb_b[tense, subject.number]]
        if tense == FUTURE:
            b = [words.future_b[subject.number], *b]
        if rng.random() < 0.12:
            a, b = [words.not_a, *a], [words.not_b, *b, words.nothing_b]
        return a, b

    def _noun_phrase(self, case: int, verb: Verb, depth: int, other_than: Verb | None = None) -> Phrase:
        first = self._simple(case, verb, depth, other_than)
        if depth > 0 or not self._maybe(0.25):
            return first
        second = self._simple(case, verb, depth + 1, None)
        return Phrase([*first.a, *second.a, self.lexicon.and_a], [*first.b, self.lexicon.and_b, *second.b], PLURAL, first.animate)

    def _simple(self, case: int, verb: Verb, depth: int, other_than: Verb | None) -> Phrase:
        """A noun with its modifiers, or a name. other_than: a verb with which a bare noun must not form an idiom."""
        words, rng = self.lexicon, self.rng
        if rng.random() < 0.12:
            name = words.names.draw(rng).stem
            return Phrase([name + words.case_a[0][SINGULAR][case]], [name], SINGULAR, True)
        noun = words.nouns.draw(rng)
        number = PLURAL if rng.random() < 0.3 else SINGULAR
        definite = rng.random() < 0.6 or (other_than, noun) in words.idioms
        target, gender_b = noun.targets[verb.topic]
        a = [noun.stem + words.case_a[noun.gender][number][case]]
        b = [target + (words.plural_b[gender_b] if number else "")]
        for _ in range(self._maybe() + self._maybe(0.3)):
            adjective = words.adjectives.draw(rng)
            a = [adjective.stem + words.adjective_a[noun.gender][number], *a]
            b = [*b, adjective.targets[noun.animate] + words.adjective_b[gender_b][number]]
        if number == PLURAL and rng.random() < 0.2:
            which = rng.randrange(6)
            a, b = [words.numeral_a[which], *a], [words.numeral_b[which], *b]
        if definite:
            a = [words.determiner_a[noun.gender][number], *a]
        b = [(words.definite_b if definite else words.indefinite_b)[gender_b][number], *b]
        if depth < 2 and self._maybe(0.3):
            clause = self._relative(noun, number, gender_b, depth + 1)
            a, b = [*clause.a, *a], [*b, *clause.b]
        return Phrase(a, b, number, noun.animate)

    def _relative(self, noun: Noun, number: int, gender_b: int, depth: int) -> Phrase:
        """A relative clause whose subject is the noun. A: object verb RELATIVE noun. B: noun RELATIVE verb object."""
        words, rng = self.lexicon, self.rng
        verb = words.transitive.draw(rng)
        phrase = self._noun_phrase(ACCUSATIVE, verb, depth + 1, other_than=verb)
        group_a, group_b = self._verb(verb.stem, verb.targets[phrase.animate], Phrase([noun.stem], [], number))
        return Phrase([*phrase.a, *group_a, words.relative_a], [words.relative_b[gender_b], *group_b, *phrase.b])
