"""BLEU from what each sentence adds to it, so that a corpus with some sentences exchanged costs one sum and not another count of n-grams.

Shapes: N sentences, 10 statistics a sentence (STATISTICS); `...` any leading axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from orchestrator.errors import UserError
from orchestrator.scoring.multi_bleu import MAX_ORDER, check_counts, lower_ascii, multi_bleu
from orchestrator.scoring.scores import References
from orchestrator.specs.bleu_words import words_by
from orchestrator.specs.schema import ScoreSpec

Counts = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

STATISTICS = 2 + 2 * MAX_ORDER
"""Hypothesis length, closest reference length, matches of order 1 to 4 (clipped), n-grams of order 1 to 4. All add up over sentences."""


def statistics(
    hypotheses_text: Sequence[str], hypotheses_tokens: Sequence[str], prepared: References, split: str, spec: ScoreSpec
) -> Counts:
    """[N, 10] of the metric that `spec` asks for; arguments as for `evaluate.score`.

    `corpus_bleu` of their sum is the `bleu` that `evaluate.score` gives. ValueError where the counts of lines differ.
    """
    if spec.metric == "rouge":
        raise UserError("score.metric rouge: no paired test of ROUGE is here; expected a metric of BLEU")
    if spec.metric == "multi-bleu":
        tokenised = [prepared.tokenise(list(stream), "tgt") for stream in prepared.references(split)]
        return _tokenised(hypotheses_tokens, tokenised, spec)
    references = prepared.reference_text(split)
    lower = spec.metric == "mteval" and spec.lowercase  # mteval lowers A-Z alone, sacreBLEU all of Unicode
    lines = [lower_ascii(line) for line in hypotheses_text] if lower else hypotheses_text
    streams = [[lower_ascii(line) for line in stream] for stream in references] if lower else references
    by = words_by(spec, prepared.target_language)
    return _detokenised(lines, streams, lowercase=spec.lowercase and spec.metric == "sacrebleu", tokenize=by)


def corpus_bleu(sums: npt.NDArray[Any], spec: ScoreSpec) -> Floats:
    """[..., 10] sums of statistics -> [...] BLEU in percent, by the definition of `spec.metric`.

    multi-bleu: 0 where a precision is 0. sacrebleu and mteval: the k-th precision without a match counts 2^-k matches (smooth:exp).
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


def _tokenised(hypotheses: Sequence[str], references: Sequence[Sequence[str]], spec: ScoreSpec) -> Counts:
    check_counts(hypotheses, references)
    found = np.zeros((len(hypotheses), STATISTICS), dtype=np.int64)
    for i, (line, *others) in enumerate(zip(hypotheses, *references, strict=True)):
        one = multi_bleu([line], [[other] for other in others], lowercase=spec.lowercase, split_compounds=spec.split_compounds)
        totals = [max(0, one.hypothesis_length - n) for n in range(MAX_ORDER)]
        matches = [round(percent * total / 100) for percent, total in zip(one.precisions, totals, strict=True)]
        found[i] = [one.hypothesis_length, one.reference_length, *matches, *totals]
    return found


def _detokenised(hypotheses: Sequence[str], references: Sequence[Sequence[str]], *, lowercase: bool, tokenize: str) -> Counts:
    from sacrebleu.metrics.bleu import BLEU

    check_counts(hypotheses, references)
    metric = BLEU(lowercase=lowercase, tokenize=tokenize, force=True)
    found = np.zeros((len(hypotheses), STATISTICS), dtype=np.int64)
    for i, (line, *others) in enumerate(zip(hypotheses, *references, strict=True)):
        one = metric.corpus_score([line], [[other] for other in others])
        found[i] = [one.sys_len, one.ref_len, *one.counts, *one.totals]
    return found
