"""BLEU from sufficient statistics of each sentence, so that exchanging sentences costs a sum instead of a new count of n-grams.

Shapes: N sentences, 10 statistics per sentence (STATISTICS); `...` any leading axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sacrebleu.metrics.bleu import BLEU

from orchestrator.errors import UserError
from orchestrator.scoring.bleu import MAX_ORDER, as_multi_bleu, multi_bleu_metric
from orchestrator.scoring.lines import check_counts, lower_ascii
from orchestrator.scoring.scores import References
from orchestrator.specs.bleu_tokenizer import tokenizer_of
from orchestrator.specs.schema import ScoreSpec

Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

STATISTICS = 2 + 2 * MAX_ORDER
"""Hypothesis length, closest reference length, clipped matches of order 1 to 4, n-grams of order 1 to 4. Additive over sentences."""


def statistics(
    hypotheses_text: Sequence[str], hypotheses_tokens: Sequence[str], prepared: References, split: str, spec: ScoreSpec
) -> Counts:
    """Statistics [N, 10] for the metric of `spec`; arguments as for `scores.score`.

    `corpus_bleu` of their sum equals the `bleu` of `scores.score`. Raises ValueError if the numbers of lines differ and UserError for
    metric rouge.
    """
    if spec.metric == "rouge":
        raise UserError("score.metric rouge: no paired test of ROUGE is here; expected a metric of BLEU")
    if spec.metric == "multi-bleu":
        streams = [prepared.tokenise(list(stream), "tgt") for stream in prepared.references(split)]
        lines, *streams = (as_multi_bleu(stream, spec.lowercase, spec.split_compounds) for stream in (hypotheses_tokens, *streams))
        return _sentence_statistics(multi_bleu_metric(), lines, streams)
    lines, *streams = (list(stream) for stream in (hypotheses_text, *prepared.reference_text(split)))
    if spec.metric == "mteval" and spec.lowercase:  # mteval lowercases only A-Z, sacreBLEU all of Unicode
        lines, *streams = ([lower_ascii(line) for line in stream] for stream in (lines, *streams))
    lowercase = spec.lowercase and spec.metric == "sacrebleu"
    metric = BLEU(lowercase=lowercase, tokenize=tokenizer_of(spec, prepared.target_language), force=True)
    return _sentence_statistics(metric, lines, streams)


def corpus_bleu(sums: npt.NDArray[Any], spec: ScoreSpec) -> Floats:
    """BLEU in percent [...] from sums of statistics [..., 10], by the definition of `spec.metric`.

    multi-bleu gives 0 if a precision is 0. sacrebleu and mteval count 2^-k matches for the k-th precision without a match (smooth:exp).
    """
    hypothesis, reference = sums[..., 0].astype(np.float64), sums[..., 1].astype(np.float64)
    matches, totals = sums[..., 2 : 2 + MAX_ORDER].astype(np.float64), sums[..., 2 + MAX_ORDER :].astype(np.float64)
    if spec.metric != "multi-bleu":
        missed = (matches == 0) & (totals > 0)
        smoothed = np.where(missed, 0.5 ** np.cumsum(missed, axis=-1), matches)
        smoothed = np.where(matches.any(axis=-1, keepdims=True), smoothed, 0.0)
    else:
        smoothed = matches
    with np.errstate(divide="ignore", invalid="ignore"):
        precisions = np.where(totals > 0, smoothed / totals, 0.0)
        penalty = np.where(hypothesis > 0, np.minimum(1.0, np.exp(1.0 - reference / hypothesis)), 0.0)
        score: Floats = np.minimum(100.0 * penalty * np.exp(np.log(precisions).mean(axis=-1)), 100.0)
    return score


def _sentence_statistics(metric: BLEU, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Counts:
    check_counts(hypotheses, references)
    counts = np.zeros((len(hypotheses), STATISTICS), dtype=np.int64)
    for i, (line, *others) in enumerate(zip(hypotheses, *references, strict=True)):
        score = metric.corpus_score([line], [[other] for other in others])
        counts[i] = [score.sys_len, score.ref_len, *score.counts, *score.totals]
    return counts
