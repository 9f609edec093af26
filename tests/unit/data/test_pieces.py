"""Text that is in subwords already is refused, or joined where the corpus declares it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.data.check import check
from orchestrator.data.prepare import prepare
from orchestrator.data.text import CorpusText
from orchestrator.errors import UserError
from orchestrator.specs.corpora import CorpusEntry
from orchestrator.specs.schema import DataSpec, Subword
from orchestrator.specs.text_form import MARKS, Pieces, join

CUT: dict[Pieces, Callable[[str], str]] = {
    "bpe": lambda line: " ".join(f"{word[:2]}@@ {word[2:]}" if len(word) > 2 else word for word in line.split()),
    "sentencepiece": lambda line: " ".join(f"\u2581{word[:2]} {word[2:]}" if len(word) > 2 else f"\u2581{word}" for word in line.split()),
    "opennmt": lambda line: " ".join(f"{word[:2]}\uffed {word[2:]}" if len(word) > 2 else word for word in line.split()),
}
DATA = DataSpec(corpus="tiny", tokenizer="none", subword=Subword(kind="word", size=60, joint=False))


@pytest.fixture
def cut(tiny: Path) -> Callable[[Pieces], Path]:
    """Cuts all files of `tiny`."""

    def of(pieces: Pieces) -> Path:
        for path in (tiny / "tiny").iterdir():
            path.write_text("".join(CUT[pieces](line) + "\n" for line in path.read_text().splitlines()))
        return tiny

    return of


@pytest.mark.parametrize("pieces", MARKS)
def test_pieces_are_refused_or_joined(pieces: Pieces, tiny: Path, cut: Callable[[Pieces], Path], tmp_path, tiny_entry, catalogued) -> None:
    plain = prepare(DATA, tiny, tmp_path / "cache")
    cut(pieces)
    with pytest.raises(UserError, match=rf"train.a: line 1: 60 of 60 lines are cut into subwords .* pieces: {pieces} in") as raised:
        prepare(DATA, tiny, tmp_path / "cache")
    assert len(raised.value.lines) == 1
    assert "cut into subwords" in check(tiny_entry(), tiny).problems[0]
    catalogued(tiny_entry(pieces=pieces))
    joined = prepare(DATA, tiny, tmp_path / "cache")
    assert joined.manifest["pieces"] == pieces and "pieces" not in plain.manifest and joined.key != plain.key
    assert joined.stats == plain.stats and joined.references("test") == plain.references("test")
    other: Pieces = "opennmt" if pieces == "bpe" else "bpe"
    with pytest.raises(UserError, match="cut into subwords"):
        next(CorpusText(tiny_entry(pieces=other), tiny).rows("test"))


def test_marks_that_are_no_pieces_stay(tiny: Path, tiny_entry: Callable[..., CorpusEntry]) -> None:
    path = tiny / "tiny" / "train.a"
    path.write_text("@@ -1 +1 @@ is of a diff, and a@@b of nothing\n" * 60)
    assert next(CorpusText(tiny_entry(), tiny).rows("train"))[0].startswith("@@ -1")
    assert join("a@@ b c@@", "bpe") == "ab c" and join("▁a b ▁c", "sentencepiece") == "ab c" and join("a ￭b c￭ d", "opennmt") == "ab cd"


def test_data_add_declares_pieces(cut: Callable[[Pieces], Path], monkeypatch, cli) -> None:
    folder = cut("bpe") / "tiny"
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    files = [word for split in ("train", "valid", "test") for word in (f"--{split}", f"{split}.a", f"{split}.b")]
    call = ["data", "add", "cut", "--src-lang", "de", "--tgt-lang", "en", *files]
    code, _, err = cli(*call)
    assert code == 2 and "data add --pieces bpe" in err
    assert cli(*call, "--pieces", "bpe", "--text", "tokenised")[0] == 0
    assert "text: tokenised\npieces: bpe\n" in (folder / "search_spaces" / "data" / "cut.yaml").read_text()
