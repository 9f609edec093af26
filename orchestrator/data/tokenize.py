"""Moses tokenisation and lower-casing as the papers apply them, and the way back to running text."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Literal

from orchestrator.data.sentences import JOINT, sentences_of


class Tokenizer:
    """One language of one spec. Tokens are joined by single spaces; nothing is escaped (`'` stays `'`). `documents`: by sentence."""

    def __init__(self, language: str, kind: Literal["none", "moses"], lowercase: bool, *, documents: bool = False) -> None:
        self.language, self.kind, self.lowercase, self.documents = language, kind, lowercase, documents

    def tokenise(self, lines: Iterable[str]) -> list[str]:
        """Raw lines -> lines as the model and the tokenised figures see them. Lower-cased after tokenisation, as Moses does."""
        if self.kind == "moses":
            moses = _moses(self.language)[0]
            lines = [self._each(line, lambda s: moses.tokenize(s, return_str=True, escape=False)) for line in lines]
        return [line.lower() for line in lines] if self.lowercase else list(lines)

    def detokenise(self, lines: Iterable[str]) -> list[str]:
        """The way back, up to case and the spacing that tokenisation forgets."""
        if self.kind == "none":
            return list(lines)
        moses = _moses(self.language)[1]
        return [self._each(line, lambda s: moses.detokenize(s.split(), return_str=True, unescape=False)) for line in lines]

    def _each(self, line: str, function: Callable[[str], str]) -> str:
        return JOINT.join(function(sentence) for sentence in sentences_of(line)) if self.documents else function(line)


@lru_cache(maxsize=8)
def _moses(language: str) -> tuple[Any, Any]:
    from sacremoses import MosesDetokenizer, MosesTokenizer

    return MosesTokenizer(lang=language), MosesDetokenizer(lang=language)
