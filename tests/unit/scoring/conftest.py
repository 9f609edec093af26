"""A catalogue of the test's own with one corpus, `talks`, in files of a temporary directory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from sacremoses import MosesTokenizer

from orchestrator.specs import check, corpora

LINES = [
    'He said: "we\'re late", and left.',
    "It's the director's fault, isn't it?",
    "Don't ask, he won't tell you.",
    "The dog's owner, a tall man, waits.",
    "R&D costs more, they say.",
    "A man, a boat and a river.",
]
ENTRY = """\
description: a test
licence: none
src: en
tgt: {target}
{text}
folders: [talks]
splits:
  train: {{src: train.src, tgt: [train.tgt]}}
  valid: {{src: valid.src, tgt: [valid.tgt]}}
  test: {{src: test.src, tgt: [test.tgt]{raw}}}
sources: [{{kind: user, obtain: write it yourself}}]
"""


def escaped_tokens(lines: list[str]) -> list[str]:
    """As fairseq's prepare-iwslt14.sh leaves text: Moses' tokens, escaped, in lower case."""
    moses = MosesTokenizer("en")
    return [moses.tokenize(line, return_str=True, escape=True).lower() for line in lines]


@pytest.fixture
def raw_lines() -> list[str]:
    return list(LINES)


@pytest.fixture
def token_lines() -> list[str]:
    return escaped_tokens(LINES)


@pytest.fixture
def talks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """`talks(lines, text=.., target=.., raw=..)` writes the corpus and its entry -> the data directory."""
    folder = tmp_path / "catalogue"
    folder.mkdir()
    monkeypatch.setattr(corpora, "FOLDER", folder)
    monkeypatch.setattr(check, "corpus_names", corpora.list_entries)
    monkeypatch.setattr(check, "_splits", lambda corpus: ("valid", "test"))

    def make(lines: list[str], text: str | None = None, target: str = "en", raw: list[str] | None = None) -> Path:
        names = ", raw: [test.raw]" if raw is not None else ""
        entry = ENTRY.format(target=target, text="" if text is None else f"text: {text}", raw=names)
        (folder / "talks.yaml").write_text(entry, encoding="utf-8")
        files = tmp_path / "data" / "talks"
        files.mkdir(parents=True, exist_ok=True)
        for name, content in [("train", lines * 10), ("valid", lines[:-1]), ("test", lines)]:
            for side, text_of_side in (("src", content[1:] + content[:1]), ("tgt", content)):
                (files / f"{name}.{side}").write_text("".join(line + "\n" for line in text_of_side), encoding="utf-8")
        if raw is not None:
            (files / "test.raw").write_text("".join(line + "\n" for line in raw), encoding="utf-8")
        return tmp_path / "data"

    return make
