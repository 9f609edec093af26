"""The text processing of a corpus: lines to token ids and back. An exported folder holds a copy of this module."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from orchestrator.data import subword
from orchestrator.data.sentences import MARKS, DocumentSegmenter
from orchestrator.data.tokenize import Tokenizer
from orchestrator.specs.text_form import Form, NormalForm, Pieces, normalised

SIDES = ("src", "tgt")
Side = str
"""One of SIDES."""


class TextProcessor:
    """Converts lines to token ids and back with the text processing of the training data.

    folder: of the vocabularies. config: section `text` of an exported `config.json`.
    """

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        self.folder, self.config = folder, config
        self.documents: bool = config["documents"]  # texts of several sentences (data.sentences)
        self.form: Form = config["form"]  # form of the corpus lines
        self.normal_form: NormalForm | None = config.get("normal_form")
        self.pieces: Pieces | None = config.get("pieces")  # in the corpus lines

    def tokenise(self, lines: list[str], side: Side) -> list[str]:
        """Corpus lines with the tokenisation and case of the spec."""
        return self._tokenizers[side].tokenise(lines)

    def tokenise_text(self, lines: Sequence[str], side: Side) -> list[str]:
        """The same for running text, whatever the form of the corpus."""
        return self._tokenizers[side].tokenise_text(normalised(lines, self.normal_form))

    def encode(self, lines: list[str], side: Side = "src") -> list[list[int]]:
        """Encodes corpus lines to ids, without BOS and the last EOS, truncated as the spec says."""
        return self.encode_tokens(self.tokenise(lines, side), side)

    def encode_text(self, lines: Sequence[str], side: Side = "src") -> list[list[int]]:
        return self.encode_tokens(self.tokenise_text(lines, side), side)

    def encode_tokens(self, lines: list[str], side: Side = "src") -> list[list[int]]:
        """Encodes lines from `tokenise` to ids, truncated as the spec says."""
        limit = (self.config.get("truncate") or {}).get(side)
        return [self.cut(ids, limit) for ids in self.segmenters[side].encode(lines)]

    def cut(self, ids: list[int], limit: int | None) -> list[int]:
        """The first `limit` ids; in documents without sentence ends at the end, because the source's own EOS follows."""
        if limit is None or len(ids) <= limit:
            return ids
        ids = ids[:limit]
        while self.documents and len(ids) > 1 and ids[-1] in MARKS:
            ids = ids[:-1]
        return ids

    def decode(self, ids_list: list[list[int]], side: Side = "tgt") -> list[str]:
        """Decodes ids to detokenised lines; PAD, BOS and EOS are skipped."""
        return self._tokenizers[side].detokenise(self.decode_tokens(ids_list, side))

    def decode_tokens(self, ids_list: list[list[int]], side: Side = "tgt") -> list[str]:
        """Decodes ids to tokenised lines. Line feeds, which are pieces of models of bytes, become spaces."""
        return [line.replace("\n", " ") for line in self.segmenters[side].decode([[int(i) for i in ids] for ids in ids_list])]

    def vocabulary(self, name: str) -> list[Path]:
        """The files of a segmenter (`joint`, `src` or `tgt`)."""
        return [self.folder / f"{name}.vocab"]

    @cached_property
    def _tokenizers(self) -> dict[Side, Tokenizer]:
        kind, lowercase = self.config["tokenizer"], self.config["lowercase"]
        made = [Tokenizer(name, kind, lowercase, documents=self.documents, form=self.form) for name in self.config["languages"]]
        return dict(zip(SIDES, made, strict=True))

    @cached_property
    def segmenters(self) -> dict[Side, subword.Segmenter]:
        loaded = {name: subword.load(self.vocabulary(name)[0], self.config["subword"]) for name in self.config["vocabularies"]}
        found = {side: loaded.get("joint") or loaded[side] for side in SIDES}
        return {side: DocumentSegmenter(segmenter, side) if self.documents else segmenter for side, segmenter in found.items()}
