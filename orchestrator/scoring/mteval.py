"""BLEU as NIST's `mteval-v13a.pl` reports it for plain (detokenised) text, in percent.

What that script does by default, from its own history notes and code (moses-smt/mosesdecoder, scripts/generic/mteval-v13a.pl):
* tokenisation "13a" (its own rules, the international ones off), which sacreBLEU re-implements;
* brevity penalty over the *closest* reference length, of two equally close ones the shorter. Versions before 13 took the *shortest*, so
  figures by 11b or 12 differ where there are several references; `brevity="shortest"` gives those;
* precisions without a match are smoothed by 1/2, 1/4, ... of a match (sacreBLEU: `smooth:exp`); it can be seen only on tiny test sets;
* case is ignored unless `-c` is given: A-Z only. Whether it is ignored here is the caller's `lowercase`.
With closest lengths and mixed case the figure is sacreBLEU's 13a figure; the signature says which script it stands for.

`tokenize` other than 13a: the same counting on the words of another tokenisation of sacreBLEU's, as where the script reads Chinese that
was cut into characters before (WMT); the signature names it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from orchestrator.scoring.multi_bleu import check_counts, lower_ascii


@dataclass(frozen=True)
class Mteval:
    """score in percent; signature names all that the figure depends on."""

    score: float
    signature: str


def mteval(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    lowercase: bool = False,
    brevity: Literal["closest", "shortest"] = "closest",
    tokenize: str = "13a",
) -> Mteval:
    """`hypotheses`: one detokenised line a sentence; `references`: one list of such lines per reference stream.

    ValueError where the counts of lines differ or there is no reference stream.
    """
    import sacrebleu
    from sacrebleu.metrics.bleu import BLEU

    check_counts(hypotheses, references)
    if lowercase:
        hypotheses = [lower_ascii(line) for line in hypotheses]
        references = [[lower_ascii(line) for line in stream] for stream in references]
    metric = BLEU(tokenize=tokenize, smooth_method="exp", force=True)
    score = metric.corpus_score(list(hypotheses), [list(stream) for stream in references]) if hypotheses else None
    value = 0.0 if score is None else score.score
    if score is not None and brevity == "shortest":
        shortest = sum(min(len(metric.tokenizer(line.rstrip()).split()) for line in lines) for lines in zip(*references, strict=True))
        value = BLEU.compute_bleu(list(score.counts), list(score.totals), score.sys_len, shortest, smooth_method="exp").score
    signature = "|".join(
        (
            "mteval-v13a",
            f"nrefs:{len(references)}",
            f"case:{'lc' if lowercase else 'mixed'}",
            f"tok:{metric.tokenizer_signature}",
            "smooth:exp",
            f"bp:{brevity}",
            f"sacrebleu:{sacrebleu.__version__}",
        )
    )
    return Mteval(min(value, 100.0), signature)
