"""Sufficient statistics of a score record: their text form, and the scores computed from their sums.

Shapes: N sentences, S statistics per sentence (WIDTHS); `...` any leading axes. All are additive over sentences.
"""

import base64
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

from orchestrator.specs.schema import ScoreSpec

Numbers = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]

MAX_ORDER = 4
STATISTICS = 2 + 2 * MAX_ORDER
"""Statistics of BLEU: hypothesis length, closest reference length, clipped matches of order 1 to 4, n-grams of order 1 to 4."""
CHAR_ORDER = 6
BETA = 2
"""Parameters of chrF2 (Popovic 2015)."""
WIDTHS = {"bleu": STATISTICS, "chrf": 3 * CHAR_ORDER, "rougeL": 2, "nll": 2}
"""Number of statistics per sentence. rougeL: F1 in percent and 1. nll: sum over the reference's subwords with EOS, and their number."""
MOST_BYTES = 1 << 28
"""Maximum size of one unpacked array, so that a damaged or hostile record cannot fill the memory."""


def corpus_bleu(sums: Numbers, spec: ScoreSpec) -> Floats:
    """BLEU in percent [...] from sums of statistics [..., 10], by the definition of `spec.metric`."""
    precisions, penalty = bleu_parts(sums, spec)
    with np.errstate(divide="ignore"):
        score: Floats = np.minimum(100.0 * penalty * np.exp(np.log(precisions).mean(axis=-1)), 100.0)
    return score


def bleu_parts(sums: Numbers, spec: ScoreSpec) -> tuple[Floats, Floats]:
    """(n-gram precisions [..., 4], brevity penalties [...]) of BLEU, both 0 to 1.

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
    return precisions, penalty


def corpus_chrf(sums: Numbers) -> Floats:
    """chrF2 in percent [...] from sums [..., 18]: n-grams of hypothesis, of reference, common, for each order (Popovic 2015).

    Orders that hypothesis or reference lack are left out, as in sacreBLEU.
    """
    counts = sums.astype(np.float64).reshape(*sums.shape[:-1], CHAR_ORDER, 3)
    hypothesis, reference, common = counts[..., 0], counts[..., 1], counts[..., 2]
    there = (hypothesis > 0) & (reference > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = np.where(there, common / hypothesis, 0.0).sum(-1) / there.sum(-1)
        recall = np.where(there, common / reference, 0.0).sum(-1) / there.sum(-1)
        score = 100 * (1 + BETA**2) * precision * recall / (BETA**2 * precision + recall)
    return np.nan_to_num(score)


def mean(sums: Numbers) -> Floats:
    return np.asarray(sums[..., 0] / sums[..., 1], dtype=np.float64)


def pack(values: npt.ArrayLike) -> str:
    """base64 of zlib of the values as int32 or, where they are no whole numbers, float32 (little-endian, row by row), after the type."""
    kind = "<i4" if np.asarray(values).dtype.kind in "iu" else "<f4"
    return f"{kind}:" + base64.b64encode(zlib.compress(np.ascontiguousarray(values, dtype=kind).tobytes(), 9)).decode("ascii")


def unpack(packed: str | Numbers, width: int) -> Numbers:
    """The inverse of `pack`: [N, width]. Raises ValueError for other text. An array, as records of packed runs have, is returned."""
    if isinstance(packed, np.ndarray):
        return packed.reshape(-1, width)
    kind, _, data = str(packed).partition(":")
    if kind not in ("<i4", "<f4"):
        raise ValueError(f"found type {kind[:8]!r}; expected <i4 or <f4")
    try:
        raw = zlib.decompressobj().decompress(base64.b64decode(data, validate=True), MOST_BYTES)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    return np.frombuffer(raw, dtype=kind).reshape(-1, width)
