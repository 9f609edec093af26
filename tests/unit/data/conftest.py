from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.specs import corpora
from orchestrator.specs.corpora import CorpusEntry


def entry_of(name: str = "tiny", references: int = 1, **fields: object) -> CorpusEntry:
    """An entry whose files are train.a, train.b, ... in DIR/NAME."""

    def split(stem: str, count: int) -> dict[str, object]:
        return {"src": f"{stem}.a", "tgt": [f"{stem}.b"] if count == 1 else [f"{stem}.b{i}" for i in range(count)]}

    splits = {"train": split("train", 1), "valid": split("valid", 1), "test": split("test", references)}
    about = {"name": name, "description": "a test", "licence": "none", "src": "de", "tgt": "en", "folders": [name], "splits": splits}
    return CorpusEntry.model_validate(about | {"sources": [{"kind": "user", "obtain": "write it yourself"}]} | fields)


WORDS = "der die das hund katze haus baum sieht rennt schnell langsam gross klein rot blau und".split()  # noqa: SIM905


def sentences(count: int, start: int = 0) -> list[str]:
    """Distinct sentences of 3 to 8 words."""
    return [" ".join(WORDS[(n * 7 + i * (1 + n // 16)) % 16] for i in range(3 + n % 6)) + f" x{n}" for n in range(start, start + count)]


@pytest.fixture
def tiny(tmp_path, monkeypatch) -> Path:
    """A data directory with the corpus `tiny`: 60 + 6 + 6 pairs; the target is the source in upper case."""
    folder = tmp_path / "data" / "tiny"
    folder.mkdir(parents=True)
    for stem, start, count in (("train", 0, 60), ("valid", 60, 6), ("test", 66, 6)):
        lines = sentences(count, start)
        (folder / f"{stem}.a").write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        (folder / f"{stem}.b").write_text("".join(line.upper() + "\n" for line in lines), encoding="utf-8")
    use_entry(monkeypatch)(entry_of())
    return tmp_path / "data"


def use_entry(monkeypatch: pytest.MonkeyPatch) -> Callable[[CorpusEntry], None]:
    """Puts an entry into the catalogue. `load_entry` itself stays, since modules that are first imported meanwhile would keep another."""

    def use(entry: CorpusEntry) -> None:
        monkeypatch.setattr(corpora, "entry_file", lambda name: corpora.FOLDER / "toy-smoke.yaml")
        monkeypatch.setattr(corpora, "parse_entry", lambda document, name: entry)

    return use


@pytest.fixture
def catalogued(monkeypatch) -> Callable[[CorpusEntry], None]:
    return use_entry(monkeypatch)


@pytest.fixture
def tiny_entry() -> Callable[..., CorpusEntry]:
    return entry_of
