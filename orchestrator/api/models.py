"""Trained models of rows."""

from __future__ import annotations

from typing import Unpack

from orchestrator.api.targets import Target, Where, find
from orchestrator.lifecycle.loader import Translator
from orchestrator.lifecycle.translator import load_translator

__all__ = ["Translator", "load"]


def load(target: Target, seed: int = 1, **where: Unpack[Where]) -> Translator:
    """The trained model of one row; its `translate` takes a list of sentences and returns their translations.

    Raises UserError where the row was not trained with this seed, its weights are gone, or its corpus is absent.
    """
    found = find(target, where, seed)
    return load_translator(found.one(target), found.options)
