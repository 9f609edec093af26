"""Probing tasks for the source side of the toy languages, with sentences from a separate random stream that occur in no corpus.

Length and BigramShift need the words alone. Tense and SubjNumber come from the ending of the main verb, which is last. The grammar lacks
what the other tasks need: trees, cases of nouns, word frequencies in context, and coordinate clauses.
"""

from __future__ import annotations

from random import Random

import pandas as pd

from orchestrator.data import toy
from orchestrator.data.senteval import SPLITS, split_up
from orchestrator.data.toy import FUTURE, PLURAL, Grammar
from orchestrator.data.toy_lexicon import Lexicon
from orchestrator.specs.corpora import ToyParams

SENTENCES = 600
"""Number of sentences drawn, before repeated ones and those of the corpus are dropped."""
BINS = 6
TENSES = ("PRES", "PAST")
NUMBERS = ("NN", "NNS")


def generate(params: ToyParams, count: int = SENTENCES) -> dict[str, pd.DataFrame]:
    """Returns {task: instances} of about `count` sentences, split 80:10:10. A task for which the language is too small is absent."""
    lexicon = Lexicon(params)
    grammar = Grammar(params, lexicon, Random(f"toy-text/{params.seed}/probing"))
    known = {source for pairs in toy.generate(params).values() for source, _ in pairs}
    drawn = (grammar.sentence()[0] for _ in range(count))
    sentences = [sentence for sentence in dict.fromkeys(drawn) if sentence not in known]
    Random(f"probing/{params.seed}").shuffle(sentences)  # later drawn sentences are rarer
    bins = pd.qcut([len(sentence.split()) for sentence in sentences], BINS, duplicates="drop")
    labelled = {"BigramShift": bigram_shift(sentences, params.seed), **verbs(lexicon, sentences)}
    made = {"Length": split_up(sentences, [str(each) for each in bins])}
    made |= {name: split_up([text for text, _ in pairs], [label for _, label in pairs]) for name, pairs in labelled.items()}
    return {name: one for name, one in made.items() if one["label"].nunique() > 1 and one["split"].nunique() == len(SPLITS)}


def bigram_shift(sentences: list[str], seed: int) -> list[tuple[str, str]]:
    """Exchanges two neighbouring words in every other sentence (label I, else O), but neither the first word nor punctuation."""
    rng = Random(f"probing/bigram-shift/{seed}")
    found: list[tuple[str, str]] = []
    for sentence in sentences:
        words = sentence.split()
        places = [i for i in range(1, len(words) - 1) if words[i] != words[i + 1] and (words[i] + words[i + 1]).isalnum()]
        if places and (inverted := len(found) % 2 == 1):
            i = rng.choice(places)
            words[i : i + 2] = words[i + 1], words[i]
        if places:
            found.append((" ".join(words), "I" if inverted else "O"))
    return found


def verbs(lexicon: Lexicon, sentences: list[str]) -> dict[str, list[tuple[str, str]]]:
    """Labels tense and subject number by the ending of the main verb. Future tense and ambiguous verbs are left out."""
    readings = _readings(lexicon)
    found: dict[str, list[tuple[str, str]]] = {"Tense": [], "SubjNumber": []}
    for sentence in sentences:
        words = sentence.split()
        both = readings.get(words[-3 if words[-1] == "?" else -2], set())  # in a question a particle follows the verb
        tenses, numbers = {tense for tense, _ in both}, {number for _, number in both}
        if len(tenses) == 1 and FUTURE not in tenses:
            found["Tense"].append((sentence, TENSES[tenses.pop()]))
        if len(numbers) == 1:
            found["SubjNumber"].append((sentence, NUMBERS[numbers.pop() == PLURAL]))
    return found


def _readings(lexicon: Lexicon) -> dict[str, set[tuple[int, int]]]:
    """Maps each verb form to the (tense, number) pairs it may have."""
    classes = (lexicon.intransitive, lexicon.transitive, lexicon.ditransitive, lexicon.saying)
    found: dict[str, set[tuple[int, int]]] = {}
    for stem in {verb.stem for verbs in classes for verb in verbs.items}:
        for endings in (lexicon.verb_a, lexicon.pronoun_a):
            for reading, ending in endings.items():
                found.setdefault(stem + ending, set()).add(reading)
    return found
