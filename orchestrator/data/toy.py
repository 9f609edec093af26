"""The built-in corpus: seeded sentence pairs of two artificial languages.

Side A: subject - object - verb, relative clauses before the noun, postpositions, dropped pronouns, subordinate clause first.
Side B: subject - verb - object, adjectives after the noun, articles, auxiliaries, two-part negation, verb first in questions.
Side B is a function of side A: nothing in the translation depends on information that the source lacks.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from orchestrator.data.toy_lexicon import Lexicon, Noun, Verb
from orchestrator.specs.corpora import ToyParams

GENERATOR_VERSION = 1
"""Increased when equal parameters give different text."""

SPLITS = ("valid", "test", "train")
"""Splits in order of generation. A split excludes the sources of earlier ones."""

Token = tuple[str, int]
"""A word and the node it expresses. Tokens with equal nodes are aligned."""
Aligned = tuple[list[Token], list[Token]]

NOMINATIVE, ACCUSATIVE, DATIVE = range(3)
SINGULAR, PLURAL = range(2)
FUTURE = 2


def manifest(params: ToyParams) -> dict[str, Any]:
    """Everything that determines the text."""
    return {"generator": GENERATOR_VERSION, "parameters": params.model_dump(mode="json")}


def generate(params: ToyParams) -> dict[str, list[tuple[str, str]]]:
    """Generates {"train": [(source, target), ..], "valid": .., "test": ..}. No source is in two splits, or twice in valid or test.

    A training set is a prefix of any longer one with otherwise equal parameters.
    """
    return {split: [(_text(a), _text(b)) for a, b in pairs] for split, pairs in aligned(params).items()}


def aligned(params: ToyParams) -> dict[str, list[Aligned]]:
    """Like `generate`, but as tokens, each with its grammar node."""
    lexicon = Lexicon(params)
    used: set[str] = set()
    found: dict[str, list[Aligned]] = {}
    for split in SPLITS:
        grammar, pairs = Grammar(params, lexicon, Random(f"toy-text/{params.seed}/{split}")), found.setdefault(split, [])
        while len(pairs) < getattr(params, split):
            pair = grammar.sentence()
            source = _text(pair[0])
            if source not in used:
                pairs.append(pair)
                if split != "train":
                    used.add(source)
    return found


def _text(tokens: list[Token]) -> str:
    return " ".join(word for word, _ in tokens)


@dataclass
class Phrase:
    """A phrase or clause on both sides; of a noun phrase also the features for agreement."""

    a: list[Token]
    b: list[Token]
    number: int = SINGULAR
    animate: bool = False


class Grammar:
    """Draws sentences from one random stream."""

    def __init__(self, params: ToyParams, lexicon: Lexicon, rng: Random) -> None:
        self.params, self.lexicon, self.rng = params, lexicon, rng
        self.node = 0

    def sentence(self) -> Aligned:
        """Tokens of both sides with final punctuation; the parameters bound their lengths."""
        while True:
            self.node = 0
            clause = self._sentence()
            low, high = self.params.min_words, self.params.max_words
            if low <= len(clause.a) <= high and low <= len(clause.b) <= high:
                return clause.a, clause.b

    def _new(self) -> int:
        self.node += 1
        return self.node

    def _maybe(self, factor: float = 1.0) -> bool:
        return self.rng.random() < factor * self.params.complexity

    def _sentence(self) -> Phrase:
        words, mark = self.lexicon, self._new()
        if self.rng.random() < 0.1:
            asked, node = self._clause(question=True), self._new()
            return Phrase([*asked.a, (words.question_a, node), ("?", mark)], [*asked.b, ("?", mark)])
        main = self._clause()
        if self._maybe(0.5):
            sub, node, comma, which = self._clause(), self._new(), self._new(), self.rng.randrange(5)
            a = [*sub.a, (words.conjunction_a[which], node), (",", comma), *main.a]
            main = Phrase(a, [*main.b, (",", comma), (words.conjunction_b[which], node), *sub.b])
        return Phrase([*main.a, (".", mark)], [*main.b, (".", mark)])

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
        stem = verb.targets[objects[0].animate if objects else 0]
        group_a, group_b = self._verb(verb.stem, stem, subject)
        a = [*subject.a]
        b_tail = [*objects[0].b] if objects else []
        if len(objects) == 2:
            a += objects[1].a
            b_tail += [(words.to_b, objects[1].b[0][1]), *objects[1].b]
        if self._maybe(0.8):
            adjunct = self._adjunct(verb, depth)
            a, b_tail = a + adjunct.a, b_tail + adjunct.b
        a += objects[0].a if objects else []
        if self._maybe(0.6):
            adverb, node = words.adverbs.draw(rng), self._new()
            a, group_b = [*a, (adverb.stem, node)], [*group_b, (adverb.targets[0], node)]
        a += group_a
        return Phrase(a, [*group_b, *subject.b, *b_tail] if question else [*subject.b, *group_b, *b_tail])

    def _said(self, verb: Verb) -> Phrase:
        """A: subject [clause] that verb. B: subject verb that clause."""
        subject, inner, node = self._subject(verb, 1), self._clause(depth=1), self._new()
        group_a, group_b = self._verb(verb.stem, verb.targets[0], subject)
        a = [*subject.a, *inner.a, (self.lexicon.that_a, node), *group_a]
        return Phrase(a, [*subject.b, *group_b, (self.lexicon.that_b, node), *inner.b])

    def _idiom(self, question: bool) -> Phrase:
        """A verb and its bare singular object, which side B expresses by one word that occurs nowhere else."""
        verb, noun = self.lexicon.idiom_pairs.draw(self.rng)
        subject, node = self._subject(verb, 0), self._new()
        group_a, group_b = self._verb(verb.stem, self.lexicon.idioms[verb, noun], subject)
        bare = noun.stem + self.lexicon.case_a[noun.gender][SINGULAR][ACCUSATIVE]
        b = [*group_b, *subject.b] if question else [*subject.b, *group_b]
        return Phrase([*subject.a, (bare, node), *group_a], b)

    def _subject(self, verb: Verb, depth: int) -> Phrase:
        """A noun phrase or a dropped pronoun, which is a word on side B but only the verb's ending on side A."""
        if depth < 2 and self.rng.random() < 0.15:
            number = self.rng.randrange(2)
            return Phrase([], [(self.lexicon.pronoun_b[number], -1)], number, True)
        return self._noun_phrase(NOMINATIVE, verb, depth)

    def _verb(self, stem_a: str, stem_b: str, subject: Phrase) -> tuple[list[Token], list[Token]]:
        """Inflects the verb for tense, agreement and negation. A pronoun dropped on side A is aligned to the verb."""
        words, rng, node = self.lexicon, self.rng, self._new()
        tense = (0, 0, 1, 1, 2)[rng.randrange(5)]
        dropped = not subject.a
        if dropped:
            subject.b = [(word, node) for word, _ in subject.b]
        endings = words.pronoun_a if dropped else words.verb_a
        a: list[Token] = [(stem_a + endings[tense, subject.number], node)]
        b: list[Token] = [(stem_b + words.verb_b[tense, subject.number], node)]
        if tense == FUTURE:
            b = [(words.future_b[subject.number], node), *b]
        if rng.random() < 0.12:
            negation = self._new()
            a, b = [(words.not_a, negation), *a], [(words.not_b, negation), *b, (words.nothing_b, negation)]
        return a, b

    def _adjunct(self, verb: Verb, depth: int) -> Phrase:
        phrase, node, which = self._noun_phrase(DATIVE, verb, depth + 1), self._new(), self.rng.randrange(8)
        return Phrase([*phrase.a, (self.lexicon.post_a[which], node)], [(self.lexicon.pre_b[which], node), *phrase.b])

    def _noun_phrase(self, case: int, verb: Verb, depth: int, other_than: Verb | None = None) -> Phrase:
        first = self._simple(case, verb, depth, other_than)
        if depth > 0 or not self._maybe(0.25):
            return first
        node, second = self._new(), self._simple(case, verb, depth + 1, None)
        a = [*first.a, *second.a, (self.lexicon.and_a, node)]
        return Phrase(a, [*first.b, (self.lexicon.and_b, node), *second.b], PLURAL, first.animate)

    def _simple(self, case: int, verb: Verb, depth: int, other_than: Verb | None) -> Phrase:
        """A noun with its modifiers. other_than: a verb with which a bare noun must not form an idiom."""
        words, rng = self.lexicon, self.rng
        if rng.random() < 0.12:
            return self._name(case)
        noun, node = words.nouns.draw(rng), self._new()
        number = PLURAL if rng.random() < 0.3 else SINGULAR
        definite = rng.random() < 0.6 or (other_than, noun) in words.idioms
        target, gender_b = noun.targets[verb.topic]
        a: list[Token] = [(noun.stem + words.case_a[noun.gender][number][case], node)]
        b: list[Token] = [(target + (words.plural_b[gender_b] if number else ""), node)]
        for _ in range(self._maybe() + self._maybe(0.3)):
            adjective, where = words.adjectives.draw(rng), self._new()
            a = [(adjective.stem + words.adjective_a[noun.gender][number], where), *a]
            b = [*b, (adjective.targets[noun.animate] + words.adjective_b[gender_b][number], where)]
        if number == PLURAL and rng.random() < 0.2:
            which, where = rng.randrange(6), self._new()
            a, b = [(words.numeral_a[which], where), *a], [(words.numeral_b[which], where), *b]
        article = (words.definite_b if definite else words.indefinite_b)[gender_b][number]
        if definite:
            where = self._new()
            a, b = [(words.determiner_a[noun.gender][number], where), *a], [(article, where), *b]
        else:
            b = [(article, node), *b]
        if depth < 2 and self._maybe(0.3):
            clause = self._relative(noun, number, gender_b, depth + 1)
            a, b = [*clause.a, *a], [*b, *clause.b]
        return Phrase(a, b, number, noun.animate)

    def _name(self, case: int) -> Phrase:
        name, node = self.lexicon.names.draw(self.rng), self._new()
        stem, _ = name.targets[0]
        return Phrase([(stem + self.lexicon.case_a[0][SINGULAR][case], node)], [(stem, node)], SINGULAR, True)

    def _relative(self, noun: Noun, number: int, gender_b: int, depth: int) -> Phrase:
        """A relative clause whose subject is the noun. A: object verb RELATIVE noun. B: noun RELATIVE verb object."""
        words, rng = self.lexicon, self.rng
        verb = words.transitive.draw(rng)
        phrase = self._noun_phrase(ACCUSATIVE, verb, depth + 1, other_than=verb)
        head = Phrase([("", 0)], [], number, noun.animate)
        group_a, group_b = self._verb(verb.stem, verb.targets[phrase.animate], head)
        node = self._new()
        return Phrase([*phrase.a, *group_a, (words.relative_a, node)], [(words.relative_b[gender_b], node), *group_b, *phrase.b])
