"""ROUGE of summaries (Lin 2004), computed by rouge-score: F1 of ROUGE-1, ROUGE-2 and summary-level ROUGE-L, in percent."""

import functools
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from sacrebleu.metrics.bleu import BLEU

from orchestrator.data.sentences import MARK, sentences_of
from orchestrator.scoring.bleu import check_counts
from orchestrator.specs.bleu_tokenizer import PORTER

ROUGE = ("rouge1", "rouge2", "rougeL")
PRINCIPAL = "rougeL"
_LIBRARY = {"rouge1": "rouge1", "rouge2": "rouge2", "rougeL": "rougeLsum"}


def rouge(hypotheses: Sequence[str], references: Sequence[Sequence[str]], tokenize: str = PORTER) -> dict[str, Any]:
    """Means over the summaries: {"rouge1", "rouge2", "rougeL", "signature"}. Each line is one summary with sentences joined by ` <q> `.
    rougeL is the library's rougeLsum, the union of longest common subsequences over sentences, as in ROUGE-1.5.5. Words are lowercased; the
    best of several references counts. tokenize: PORTER finds words of a-z and 0-9 and stems them (option -m); a tokeniser of sacreBLEU
    finds the words of other languages, which are not stemmed. Raises ValueError like `check_counts`.
    """
    check_counts(hypotheses, references)
    totals = dict.fromkeys(ROUGE, 0.0)
    for hypothesis, *others in zip(hypotheses, *references, strict=True):
        found = _scorer(tokenize).score_multi(["\n".join(sentences_of(other)) for other in others], "\n".join(sentences_of(hypothesis)))
        for name in ROUGE:
            totals[name] += found[_LIBRARY[name]].fmeasure
    means = {name: 100.0 * total / max(len(hypotheses), 1) for name, total in totals.items()}
    options = f"{'stem:porter' if tokenize == PORTER else f'stem:no|tok:{tokenize}'}|case:lc|L:sum|refs:{len(references)}"
    return means | {"signature": f"ROUGE-F1|{options}|library:rouge-score|version:{version('rouge-score')}"}


def principal(record: dict[str, Any]) -> float:
    """The main figure of a score record: ROUGE-L if the metric is ROUGE, else BLEU."""
    return float(record[PRINCIPAL] if record.get("metric") == "rouge" else record["bleu"])


def figures_of(record: dict[str, Any] | None) -> dict[str, float]:
    """The ROUGE figures of a score record; empty if it has none."""
    return {name: float(record[name]) for name in ROUGE if record is not None and record.get(name) is not None}


def without_marks(lines: Sequence[str]) -> list[str]:
    """Summaries as running text, without sentence marks."""
    return [" ".join(sentences_of(line)) if MARK in line else line for line in lines]


class _Words:
    """The lowercased tokens of a tokeniser of sacreBLEU that have a letter or a digit, for rouge-score."""

    def __init__(self, name: str) -> None:
        self._split = BLEU(tokenize=name).tokenizer

    def tokenize(self, text: str) -> list[str]:
        return [word for word in self._split(text.lower()).split() if any(map(str.isalnum, word))]


@functools.cache
def _scorer(tokenize: str) -> Any:
    from rouge_score.rouge_scorer import RougeScorer  # takes a second to import

    return RougeScorer(list(_LIBRARY.values()), use_stemmer=True, tokenizer=None if tokenize == PORTER else _Words(tokenize))
