"""Statistics of each sentence, from whose sums a corpus score follows: of BLEU, chrF, ROUGE-L and the nll of the references.

They stand in a run's score record, so that tables with intervals can be made from the ledger alone. Shapes: N sentences, S statistics;
`...` any leading axes.
"""

from __future__ import annotations

import base64
import functools
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sacrebleu.metrics.chrf import CHRF

from orchestrator.errors import UserError
from orchestrator.scoring.rouge import PRINCIPAL, rouge, without_marks
from orchestrator.scoring.scores import References
from orchestrator.scoring.significance.bleu_statistics import STATISTICS, corpus_bleu
from orchestrator.scoring.significance.bleu_statistics import statistics as bleu_statistics
from orchestrator.specs.bleu_tokenizer import rouge_tokenizer_of
from orchestrator.specs.schema import ScoreSpec

Numbers = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]

WIDTHS = {"bleu": STATISTICS, "chrf": 3 * CHRF.CHAR_ORDER, "rougeL": 2, "nll": 2}
"""Statistics per sentence. rougeL: F1 in percent and 1; nll: sum over the subwords of the reference with EOS, and their number."""
LOWER_IS_BETTER = ("nll",)
MOST_BYTES = 1 << 28
"""Of one unpacked array: a damaged or hostile record does not fill the memory."""
TITLES = {"bleu": "BLEU", "chrf": "chrF", "rougeL": "ROUGE-L", "nll": "test nll"}


def of_translation(
    hypotheses_text: Sequence[str],
    hypotheses_tokens: Sequence[str],
    prepared: References,
    split: str,
    spec: ScoreSpec,
    nll: str | None = None,
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
    return corpus_chrf if metric == "chrf" else _mean


def corpus_chrf(sums: Numbers) -> Floats:
    """chrF2 in percent [...] from sums [..., 18]: n-grams of hypothesis, of reference, common, for each order (Popovic 2015).

    Orders that hypothesis or reference lack are left out, as in sacreBLEU.
    """
    counts = sums.astype(np.float64).reshape(*sums.shape[:-1], CHRF.CHAR_ORDER, 3)
    hypothesis, reference, common = counts[..., 0], counts[..., 1], counts[..., 2]
    there = (hypothesis > 0) & (reference > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = np.where(there, common / hypothesis, 0.0).sum(-1) / there.sum(-1)
        recall = np.where(there, common / reference, 0.0).sum(-1) / there.sum(-1)
        score = 100 * (1 + CHRF.BETA**2) * precision * recall / (CHRF.BETA**2 * precision + recall)
    return np.nan_to_num(score)


def _mean(sums: Numbers) -> Floats:
    return np.asarray(sums[..., 0] / sums[..., 1], dtype=np.float64)


def packed(statistics: Mapping[str, Numbers]) -> dict[str, str]:
    """The statistics as text, for a score record."""
    return {name: pack(values) for name, values in statistics.items()}


def unpacked(record: Mapping[str, Any] | None) -> dict[str, Numbers]:
    """The statistics of a score record; empty if it has none. Raises UserError if they are damaged."""
    try:
        return {name: unpack(str(text), WIDTHS[name]) for name, text in ((record or {}).get("statistics") or {}).items() if name in WIDTHS}
    except ValueError as error:
        raise UserError(f"score {str((record or {}).get('key'))[:16]}: its statistics are damaged ({error})") from None


def pack(values: npt.ArrayLike) -> str:
    """base64 of zlib of the values as int32 or, where they are no whole numbers, float32 (little-endian, row by row), after the type."""
    kind = "<i4" if np.asarray(values).dtype.kind in "iu" else "<f4"
    return f"{kind}:" + base64.b64encode(zlib.compress(np.ascontiguousarray(values, dtype=kind).tobytes(), 9)).decode("ascii")


def unpack(text: str, width: int) -> Numbers:
    """The inverse of `pack`: [N, width]. Raises ValueError for other text."""
    kind, _, data = text.partition(":")
    if kind not in ("<i4", "<f4"):
        raise ValueError(f"found type {kind[:8]!r}; expected <i4 or <f4")
    try:
        raw = zlib.decompressobj().decompress(base64.b64decode(data, validate=True), MOST_BYTES)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    return np.frombuffer(raw, dtype=kind).reshape(-1, width)
