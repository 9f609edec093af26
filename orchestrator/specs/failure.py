"""`failed` as an outcome: what a row states beforehand (`failed_below: 5`) of runs that come to nothing, so that tables show them.

The ledger keeps what happened (`diverged`, or `done` with its score); the rule is the row's and is applied where results are read.
"""

from __future__ import annotations

FAILED = "failed"


def stated_failure(failed_below: float | None, status: str, reason: str, bleu: float | None) -> str | None:
    """Why a run counts as failed: it diverged, or its BLEU on the row's test set is under the bound. None where it does not count so.

    failed_below: the row's bound in BLEU, None for rows without the rule. status, reason: of the training. bleu: None while not scored.
    """
    if failed_below is None:
        return None
    if status == "diverged":
        return f"diverged: {reason}" if reason else "diverged"
    if status == "done" and bleu is not None and bleu < failed_below:
        return f"BLEU {bleu:.2f} is under {failed_below:g}"
    return None
