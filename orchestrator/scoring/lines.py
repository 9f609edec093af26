"""Checks and transformations of the lines that are scored."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence

_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
_COMPOUND = re.compile(r"([^ \t\n\r\f\v])-([^ \t\n\r\f\v])")


def check_counts(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> None:
    """Raises ValueError if there is no reference stream, or if one differs from the hypotheses in its number of lines."""
    if not references:
        raise ValueError("no reference stream to score against")
    for number, stream in enumerate(references):
        if len(stream) != len(hypotheses):
            raise ValueError(f"{len(hypotheses)} hypotheses but {len(stream)} lines in reference stream {number}")


def lower_ascii(line: str) -> str:
    """Lowercases A-Z and nothing else, like `lc` of bytes (multi-bleu) and `tr` (mteval-v13a)."""
    return line.translate(_LOWER)


def split_hyphenated(line: str) -> str:
    """WMT14 En-De compound splitting: `rich-text` becomes `rich ##AT##-##AT## text`.

    Source: tensor2tensor's `get_ende_bleu.sh` (after Luong et al. 2015). As in that script, matches do not overlap: `a-b-c` becomes
    `a ##AT##-##AT## b-c`.
    """
    return _COMPOUND.sub(r"\1 ##AT##-##AT## \2", line)
