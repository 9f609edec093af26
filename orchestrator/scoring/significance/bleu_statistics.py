"""The statistics of each sentence from which BLEU follows, so that exchanging sentences costs a sum instead of a new count of n-grams."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from sacrebleu.metrics.bleu import BLEU

from orchestrator.errors import UserError
from orchestrator.ledger.statistics import STATISTICS
from orchestrator.scoring.bleu import as_multi_bleu, check_counts, lower_ascii, multi_bleu_metric
from orchestrator.scoring.scores import References
from orchestrator.specs.bleu_tokenizer import tokenizer_of
from orchestrator.specs.schema import ScoreSpec

Counts = npt.NDArray[np.int64]


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


def _sentence_statistics(metric: BLEU, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Counts:
    check_counts(hypotheses, references)
    counts = np.zeros((len(hypotheses), STATISTICS), dtype=np.int64)
    for i, (line, *others) in enumerate(zip(hypotheses, *references, strict=True)):
        score = metric.corpus_score([line], [[other] for other in others])
        counts[i] = [score.sys_len, score.ref_len, *score.counts, *score.totals]
    return counts
