"""Differences and verdicts in words, which tables, notes and pages share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from orchestrator.scoring.significance.verdicts import CONTRADICTED, REPRODUCED, SAME, UNDERPOWERED


def judged(found: Mapping[str, Any]) -> str:
    """A difference and its verdict: `+0.10 (-0.20 to +0.40), underpowered (mini)`. found: {"effect", "verdict"}, as a row has them.

    Of a matched control that is the baseline, only this.
    """
    if found.get("is_baseline"):
        return "the control is the baseline"
    word = found.get("verdict", {})
    parts = [interval(found.get("effect") or {}), named_verdict(word["word"], word.get("setting", "")) if word else ""]
    return ", ".join(part for part in parts if part)


def interval(effect: Mapping[str, Any]) -> str:
    """A difference with its 95 % interval over other seeds and sentences, `+0.42 (-0.10 to +0.94)`; without one for a single seed."""
    if "delta" not in effect:
        return ""
    answer = effect.get("other_seeds_and_sentences")
    return f"{effect['delta']:+.2f}" + ("" if answer is None else f" ({answer['low']:+.2f} to {answer['high']:+.2f})")


def verdict(ours: Mapping[str, Any]) -> str:
    """`same direction (mini)`, `underpowered (mini): 80 % power finds 0.84; 5 seeds would find +0.45`; empty without a verdict."""
    found = ours.get("verdict")
    if found is None:
        return ""
    return named_verdict(found["word"], found.get("setting", "")) + (f": {found['reason']}" if found["word"] == UNDERPOWERED else "")


def named_verdict(word: str, setting: str) -> str:
    """The word of a verdict, with the setting where it differs from the paper's."""
    return f"{word} ({setting})" if setting and word in (REPRODUCED, SAME, CONTRADICTED, UNDERPOWERED) else word
