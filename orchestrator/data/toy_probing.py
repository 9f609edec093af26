"""Probing tasks for the source side of the toy languages, with sentences from a separate random stream that occur in no corpus.

Length, WordContent and BigramShift are derived from the words alone, Tense and SubjNumber from the ending of the main verb, which is last.
Not available: Depth and TopConstituents (the grammar stores no tree), ObjNumber (numbers and cases share noun endings), OddManOut (there
are no contextual word frequencies to match) and CoordinationInversion (the grammar does not coordinate clauses).
"""

from __future__ import annotations

from random import Random

from orchestrator.data import probing_derived, toy
from orchestrator.data.senteval import Part, ProbingSet, split_up
from orchestrator.data.toy_grammar import FUTURE, PLURAL, Grammar
from orchestrator.data.toy_lexicon import Lexicon
from orchestrator.specs.corpora import ToyParams

SENTENCES = 600
"""Number of sentences drawn, before repeated ones and those of the corpus are dropped."""
NOT_MADE = ("Depth", "TopConstituents", "ObjNumber", "OddManOut", "CoordinationInversion")
TENSES = ("PRES", "PAST")
NUMBERS = ("NN", "NNS")


def generate(params: ToyParams, count: int = SENTENCES) -> dict[str, ProbingSet]:
    """Returns {task: instances} of about `count` sentences, split 80:10:10. A task for which the language is too small is absent."""
    lexicon = Lexicon(params)
    grammar = Grammar(params, lexicon, Random(f"toy-text/{params.seed}/probing"))
    known = {source for pairs in toy.generate(params).values() for source, _ in pairs}
    drawn = (" ".join(word for word, _ in grammar.sentence()[0]) for _ in range(count))
    sentences = [sentence for sentence in dict.fromkeys(drawn) if sentence not in known]
    made = probing_derived.derive(sentences, params.seed)
    tense, number = verbs(lexicon, sentences)
    return made | {"Tense": split_up(tense.sentences, tense.labels), "SubjNumber": split_up(number.sentences, number.labels)}


def verbs(lexicon: Lexicon, sentences: list[str]) -> tuple[Part, Part]:
    """Labels tense and subject number by the ending of the main verb. Future tense and ambiguous verbs are left out."""
    readings = _readings(lexicon)
    tense, number = Part(), Part()
    for sentence in sentences:
        words = sentence.split()
        found = readings.get(words[-3 if words[-1] == "?" else -2], set())  # in a question a particle follows the verb
        if len(tenses := {t for t, _ in found}) == 1 and FUTURE not in tenses:
            tense.sentences.append(sentence)
            tense.labels.append(TENSES[tenses.pop()])
        if len(numbers := {n for _, n in found}) == 1:
            number.sentences.append(sentence)
            number.labels.append(NUMBERS[numbers.pop() == PLURAL])
    return tense, number


def _readings(lexicon: Lexicon) -> dict[str, set[tuple[int, int]]]:
    """Maps each verb form to the (tense, number) pairs it may have."""
    classes = (lexicon.intransitive, lexicon.transitive, lexicon.ditransitive, lexicon.saying)
    found: dict[str, set[tuple[int, int]]] = {}
    for stem in {verb.stem for verbs in classes for verb in verbs.items}:
        for endings in (lexicon.verb_a, lexicon.pronoun_a):
            for reading, ending in endings.items():
                found.setdefault(stem + ending, set()).add(reading)
    return found
