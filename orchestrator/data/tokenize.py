"""Moses tokenisation and lowercasing as in the papers, and detokenisation."""

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Literal

from orchestrator.data.sentences import JOINT, sentences_of
from orchestrator.specs.text_form import ESCAPED, RAW, Form


class Tokenizer:
    """The tokeniser of one language of a spec. Tokens are joined by single spaces.

    documents: process each sentence of a line separately. form: form of the corpus lines. Lines of a tokenised corpus are not tokenised
    again (`&apos;s` would become `& apos ; s`); raw lines are not escaped (`'` stays `'`).
    """

    def __init__(
        self, language: str, kind: Literal["none", "moses"], lowercase: bool, *, documents: bool = False, form: Form = RAW
    ) -> None:
        self.language, self.kind, self.lowercase, self.documents, self.form = language, kind, lowercase, documents, form

    def tokenise(self, lines: Iterable[str]) -> list[str]:
        """Converts corpus lines to the lines used by the model and the tokenised scores."""
        return self.tokenise_text(lines) if self.form == RAW else self._cased(lines)

    def tokenise_text(self, lines: Iterable[str]) -> list[str]:
        """Like `tokenise`, for running text: tokens where the corpus has tokens. Lowercases after tokenisation, as Moses does."""
        if self.kind == "moses" or self.form != RAW:
            moses, escape = _moses(self.language)[0], self.form == ESCAPED
            lines = [self._each(line, lambda s: moses.tokenize(s, return_str=True, escape=escape)) for line in lines]
        return self._cased(lines)

    def detokenise(self, lines: Iterable[str]) -> list[str]:
        """Inverse of `tokenise`, except for case and the spacing that tokenisation loses."""
        if self.kind == "none" and self.form == RAW:
            return list(lines)
        moses, unescape = _moses(self.language)[1], self.form == ESCAPED
        return [self._each(line, lambda s: moses.detokenize(s.split(), return_str=True, unescape=unescape)) for line in lines]

    def _cased(self, lines: Iterable[str]) -> list[str]:
        return [line.lower() for line in lines] if self.lowercase else list(lines)

    def _each(self, line: str, function: Callable[[str], str]) -> str:
        return JOINT.join(function(sentence) for sentence in sentences_of(line)) if self.documents else function(line)


@lru_cache(maxsize=8)
def _moses(language: str) -> tuple[Any, Any]:
    from sacremoses import MosesDetokenizer, MosesTokenizer

    return MosesTokenizer(lang=language), MosesDetokenizer(lang=language)
