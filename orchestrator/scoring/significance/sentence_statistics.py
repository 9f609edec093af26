"""Statistics per sentence whose sums give a corpus score: for BLEU, chrF, ROUGE-L and the nll of the references.

A run's score record holds them, so tables with intervals need only the ledger. Shapes: N sentences, S statistics; `...` any leading axes.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sacrebleu.metrics.chrf import CHRF

from orchestrator.errors import UserError
from orchestrator.ledger.keys import Keys
from orchestrator.ledger.results import Ledger
from orchestrator.ledger.statistics import STATISTICS, WIDTHS, Floats, Numbers, corpus_bleu, corpus_chrf, mean, pack, unpack
from orchestrator.scoring.bleu import check_counts, metric_and_form
from orchestrator.scoring.rouge import PRINCIPAL, rouge, without_marks
from orchestrator.scoring.scores import References
from orchestrator.specs.bleu_tokenizer import rouge_tokenizer_of, tokenizer_of
from orchestrator.specs.schema import ScoreSpec

LOWER_IS_BETTER = ("nll",)
TOLERANCE = 1e-6
"""Allowed difference of a recorded score to the score of its sentences' statistics."""
TITLES = {"bleu": "BLEU", "chrf": "chrF", "rouge1": "ROUGE-1", "rouge2": "ROUGE-2", "rougeL": "ROUGE-L", "nll": "test nll"}


def of_translation(
    hypotheses_text: Sequence[str],
    hypotheses_tokens: Sequence[str],
    prepared: References,
    split: str,
    spec: ScoreSpec,
    nll: str | Numbers | None = None,
) -> dict[str, Numbers]:
    """Metric -> statistics [N, S] of one translation of a test set; arguments as for `scores.score`.

    nll: of the references by `decoding.forced`, packed, if known. Raises ValueError if the numbers of lines differ.
    """
    text = prepared.reference_text(split)
    found: dict[str, Numbers] = {}
    if spec.metric == "rouge":
        by = rouge_tokenizer_of(spec, prepared.target_language)
        scores = [rouge([line], [[other] for other in others], by)[PRINCIPAL] for line, *others in zip(hypotheses_text, *text, strict=True)]
        found[PRINCIPAL] = np.array([[score, 1.0] for score in scores])
        hypotheses_text, text = without_marks(hypotheses_text), [without_marks(stream) for stream in text]
    else:
        found["bleu"] = bleu_statistics(hypotheses_text, hypotheses_tokens, prepared, split, spec)
    found["chrf"] = np.array(CHRF()._extract_corpus_statistics(list(hypotheses_text), [list(stream) for stream in text]))
    return found if nll is None else found | {"nll": unpack(nll, WIDTHS["nll"])}


def score_of(metric: str, spec: ScoreSpec) -> Callable[[Numbers], Floats]:
    """The function from sums of statistics [..., S] to scores [...]: percent, for nll nats per subword."""
    if metric == "bleu":
        return functools.partial(corpus_bleu, spec=spec)
    return corpus_chrf if metric == "chrf" else mean


def packed(statistics: Mapping[str, Numbers]) -> dict[str, str]:
    return {name: pack(values) for name, values in statistics.items()}


def unpacked(record: Mapping[str, Any] | None) -> dict[str, Numbers]:
    """The statistics of a score record; empty if it has none. Raises UserError if they are damaged."""
    try:
        return {name: unpack(text, WIDTHS[name]) for name, text in ((record or {}).get("statistics") or {}).items() if name in WIDTHS}
    except ValueError as error:
        raise UserError(f"score {str((record or {}).get('key'))[:16]}: its statistics are damaged ({error})") from None


def checked(record: Mapping[str, Any] | None) -> dict[str, Numbers]:
    """The statistics of a score record. Raises UserError if they are damaged, or if the record's scores are not theirs."""
    found, about = unpacked(record), dict(record or {})
    if found and "score" in about:
        spec, own = ScoreSpec.model_validate(about["score"]), about | {"chrf": (about.get("chrf") or {}).get("score")}
        for metric in (metric for metric in found if own.get(metric) is not None):
            computed = float(score_of(metric, spec)(found[metric].sum(axis=0)))
            if not abs(computed - own[metric]) < TOLERANCE:
                place = f"score {str(about.get('key'))[:16]}: {TITLES[metric]}"
                raise UserError(f"{place}: found {own[metric]:.4f}; expected {computed:.4f}, from the statistics of its sentences")
    return found


class StatisticsReader:
    """Sentence statistics of finished runs, from their score records; each is read once."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._known: dict[str, dict[str, Numbers]] = {}

    def of(self, keys: Keys) -> dict[str, Numbers]:
        """Metric -> statistics [N, S] of the run under `keys`. Empty if its record has none."""
        if keys.train is None or keys.score is None:
            return {}
        if keys.score not in self._known:
            self._known[keys.score] = checked(self.ledger.record(keys.train, "score", keys.score))
        return self._known[keys.score]


Counts = npt.NDArray[np.int64]


def bleu_statistics(
    hypotheses_text: Sequence[str], hypotheses_tokens: Sequence[str], prepared: References, split: str, spec: ScoreSpec
) -> Counts:
    """Statistics [N, 10] for the metric of `spec`; arguments as for `scores.score`.

    `corpus_bleu` of their sum equals `bleu` of `scores.score`. Raises ValueError if the line counts differ, UserError for metric rouge.
    """
    if spec.metric == "rouge":
        raise UserError("score.metric rouge: no paired test of ROUGE is here; expected a metric of BLEU")
    by = tokenizer_of(spec, prepared.target_language)
    metric, form = metric_and_form(spec.metric, lowercase=spec.lowercase, split_compounds=spec.split_compounds, tokenize=by)
    if spec.metric == "multi-bleu":
        lines, streams = hypotheses_tokens, [prepared.tokenise(list(stream), "tgt") for stream in prepared.references(split)]
    else:
        lines, streams = hypotheses_text, prepared.reference_text(split)
    check_counts(lines, streams)
    found = metric._extract_corpus_statistics(form(lines), [form(stream) for stream in streams])
    return np.array(found, dtype=np.int64).reshape(-1, STATISTICS)
