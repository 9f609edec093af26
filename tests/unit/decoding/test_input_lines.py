"""Lines that are not UTF-8 are named, lines that are too long are cut and told: in `translate` and in an exported folder alike."""

import io
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from models.transformer import build
from orchestrator.data.text_processor import TextProcessor
from orchestrator.decoding import translate
from orchestrator.decoding.beam import Hypothesis
from orchestrator.errors import UserError
from orchestrator.lifecycle import loader
from orchestrator.specs.schema import DecodeSpec


class Codec(TextProcessor):
    documents, pieces = False, None

    def __init__(self) -> None:
        """It has no vocabulary."""

    def encode_text(self, lines: Sequence[str], side: str = "src") -> list[list[int]]:
        self.longest = max(map(len, lines))
        return [[5] * (len(line) // 2) for line in lines]

    def decode(self, ids_list: list[list[int]], side: str = "tgt") -> list[str]:
        return [str(len(ids)) for ids in ids_list]


def test_a_very_long_line_is_cut_and_told(monkeypatch) -> None:
    """By a model whose translation is its source."""
    monkeypatch.setattr(translate, "decode_corpus", lambda model, ids, decode: [Hypothesis(list(i), 0.0, 0.0) for i in ids])
    echo, told = Codec(), list[str]()
    lines = ["ab" * 3, "ab" * 500_000, "ab" * translate.MAX_SUBWORDS]
    out = translate.translate_lines(None, echo, lines, Any, told.append)
    assert echo.longest == translate.MAX_CHARACTERS  # what takes lines apart need not see the rest
    assert out == ["3", str(translate.MAX_SUBWORDS), str(translate.MAX_SUBWORDS)]
    assert translate.translate_lines(None, echo, ["\r", "\t ", "\xa0", "\u200b", "\ufeff\u2028", "ab"], Any)[:5] == ["0"] * 5, "no words"
    assert told == [f"stdin:2: found a line of 1000000 characters; its first {translate.MAX_SUBWORDS} subwords are translated"]
    cut = ["ein Hund", "Hu@@ nd", "Frau &apos;s"]
    for echo.pieces, said in ((None, "2: found the subword mark '@@'"), ("bpe", "3: found the escape '&apos;'")):
        told.clear()
        assert translate.translate_lines(None, echo, cut, Any, told.append)[1] == ("2" if echo.pieces else "3")
        assert told == [f"stdin:{said}; expected running text"]


def test_a_line_longer_than_the_learned_positions_is_cut_where_its_end_has_a_place() -> None:
    sizes = {"d_model": 8, "d_ff": 8, "num_heads": 2} | {side: {"num_layers": 1} for side in ("encoder", "decoder")}
    model = build(sizes | {"positions": "learned", "max_positions": 12}, 20, 20, 1).eval()
    told, lines = list[str](), ["ab" * 12, "ab" * 11, "ab"]
    long, longest, short = translate.translate_lines(model, Codec(), lines, DecodeSpec(beam_size=1), told.append)
    assert told == ["stdin:1: found a line of 24 characters; its first 11 subwords are translated"]
    assert long == longest and short


def test_lines_are_those_of_the_text() -> None:
    data = "\ufeffein Satz\r\n\r\n\ufeffzwei\u2028Sätze\n".encode()
    assert translate.lines_of(data) == ["ein Satz", "", "\ufeffzwei\u2028Sätze"]
    assert (
        translate.lines_of(b"") == []
        and translate.lines_of(b"\n") == [""]
        and translate.lines_of(b"a\n\nb") == ["a", "", "b"]
        and translate.lines_of(b"a\n") == ["a"]
    )
    with pytest.raises(UserError, match=r"^stdin: line 2 is not UTF-8: byte 0xff at offset 3 of the line$"):
        translate.lines_of(b"good\nbad\xff\n\xfe")


def test_an_exported_script_says_it_in_one_line(monkeypatch, capsys) -> None:
    monkeypatch.setattr(loader, "load", lambda folder: SimpleNamespace(translate=lambda lines: lines))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff\n")))
    with pytest.raises(SystemExit) as end:
        loader.main(Path("folder"))
    said = "error: stdin: line 1 is not UTF-8: byte 0xff at offset 0 of the line\n"
    assert (end.value.code, capsys.readouterr().err) == (2, said)
