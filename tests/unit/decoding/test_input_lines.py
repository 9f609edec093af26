"""Lines that are not UTF-8 are named, lines that are too long are cut and told: in `translate` and in an exported folder alike."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import pytest

from orchestrator.decoding import translate
from orchestrator.decoding.beam import Hypothesis
from orchestrator.errors import UserError


class Codec:
    def encode(self, lines: list[str], side: str = "src") -> list[list[int]]:
        self.longest = max(map(len, lines))
        return [[5] * (len(line) // 2) for line in lines]

    def decode(self, ids_list: list[list[int]], side: str = "tgt") -> list[str]:
        return [str(len(ids)) for ids in ids_list]


@pytest.fixture
def echo(monkeypatch: pytest.MonkeyPatch) -> Codec:
    """A model whose translation is its source."""
    monkeypatch.setattr(translate, "decode_corpus", lambda model, ids, decode: [[Hypothesis(list(i), 0.0, 0.0)] for i in ids])
    return Codec()


def test_a_very_long_line_is_cut_and_told(echo: Codec) -> None:
    told: list[str] = []
    lines = ["ab" * 3, "ab" * 500_000, "ab" * translate.MAX_SUBWORDS]
    out = translate.translate_lines(None, echo, lines, Any, told.append)
    assert out == ["3", str(translate.MAX_SUBWORDS), str(translate.MAX_SUBWORDS)]
    assert echo.longest == translate.MAX_CHARACTERS  # what takes lines apart need not see the rest
    assert told == [f"stdin:2: found a line of 1000000 characters; its first {translate.MAX_SUBWORDS} subwords are translated"]


def test_lines_are_those_of_the_text() -> None:
    assert translate.lines_of(b"") == [] and translate.lines_of(b"a\n\nb") == ["a", "", "b"] and translate.lines_of(b"a\n") == ["a"]
    with pytest.raises(UserError, match=r"^stdin:2: found byte 0xff at offset 3 of the line; expected UTF-8$"):
        translate.lines_of(b"good\nbad\xff\n\xfe")


def test_an_exported_script_says_it_in_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from orchestrator.lifecycle import loader

    monkeypatch.setattr(loader, "Translator", lambda folder: None)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff\n")))
    with pytest.raises(SystemExit) as end:
        loader.main(Path("folder"))
    assert end.value.code == 2
    assert capsys.readouterr().err == "error: stdin:1: found byte 0xff at offset 0 of the line; expected UTF-8\n"
