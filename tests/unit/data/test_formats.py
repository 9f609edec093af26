"""Files that hold both sides of a corpus, compressed files, and what `data add` says of those that it cannot read."""

import bz2
import gzip
import json
import lzma
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from orchestrator.data import formats
from orchestrator.data.corpus import read_lines
from orchestrator.data.formats import Columns
from orchestrator.errors import UserError
from orchestrator.specs.corpora import load_entry
from tests.unit.conftest import refused

PAIRS = [(f"Satz {i} mit „ä“, Komma\tund Nummer".replace("\t", " "), f'sentence {i} with "ä", comma') for i in range(30)]
DE_EN = Columns(("de", "en"))
PACK = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: pa.Codec("zstd").compress(data, asbytes=True),
}


def tmx(pairs: list[tuple[str, str]], head: str = '<!DOCTYPE tmx SYSTEM "tmx14.dtd">') -> str:
    units = (
        f'<tu><tuv xml:lang="fr"><seg>-</seg></tuv><tuv xml:lang="DE-de"><seg>{a}</seg></tuv>'
        f'<tuv xml:lang="en"><seg>\n {b.replace("&", "&amp;")}<ph>code</ph></seg></tuv></tu>'
        for a, b in pairs
    )
    return f'<?xml version="1.0"?>{head}<tmx version="1.4"><header/><body>{"".join(units)}</body></tmx>'


def write(path: Path, pairs: list[tuple[str, str]]) -> Path:
    kind = formats.format_of(path.name)
    if kind == "parquet":
        parquet.write_table(pa.table({"id": range(len(pairs)), "translation": [{"en": b, "de": a} for a, b in pairs]}), path)
        return path
    text = {
        "tsv": "".join(f"{a}\t{b}\n" for a, b in pairs),
        "jsonl": "".join(json.dumps({"src": a, "tgt": b, "score": 1}) + "\n" for a, b in pairs),
        "tmx": tmx(pairs),
    }[str(kind)].encode()
    path.write_bytes(PACK[path.suffix](text) if path.suffix in PACK else text)
    return path


@pytest.mark.parametrize("name", ["t.tsv", "t.TSV.gz", "t.jsonl.xz", "t.tmx.zst", "t.de-en.tmx", "t.parquet"])
def test_each_format_gives_the_pairs(name: str, tmp_path) -> None:
    assert list(formats.rows(write(tmp_path / name, PAIRS), DE_EN)) == PAIRS


def test_columns_are_chosen_by_name_and_number(tmp_path, capsys) -> None:
    path = tmp_path / "t.tsv"
    path.write_text("7\tein Satz\t9\ta sentence\tone sentence\n", encoding="utf-8")
    assert list(formats.rows(path, Columns(("de", "en"), ("2", "4", "5")))) == [("ein Satz", "a sentence", "one sentence")]
    path.write_text("text_1\ttext_2\na\tb\n", encoding="utf-8")
    assert list(formats.rows(path, Columns(("de", "en"), ("text_2", "text_1")))) == [("b", "a")]
    assert list(formats.rows(path, Columns(("de", "en"), ("1", "2")))) == [("text_1", "text_2"), ("a", "b")], "told that it is text"
    path.write_text('"a"\tb\n"c d"\t"e"\n', encoding="utf-8")
    assert (
        list(formats.rows(path, DE_EN)) == [('"a"', "b"), ('"c d"', '"e"')]
        and "every line of column 1 is in quotes" in capsys.readouterr().err
    )
    path.write_text("id\ten\tde\n1\ta\tb\n", encoding="utf-8")
    assert list(formats.rows(path, DE_EN)) == [("b", "a")] and not capsys.readouterr().err, "a header names the columns"


BOMB = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 10))
FAULTS = {
    "t.tsv": ("a\tb\nonly one\n", "line 2: found 1 columns (only one); expected 2"),
    "w.tsv": ("id\tein Satz\ta sentence\n", "found the columns id, ein Satz, a sentence; expected de, en, or name yours by --columns"),
    "x.tsv": (
        "source_text\tSource text\na\tb\n",
        "found source_text and Source text in the first line; expected text, names of columns by",
    ),
    "u.tsv": ("a\tb\nc\xff\td\n", "line 2 is not UTF-8: byte 0xff"),
    "t.jsonl": ('{"de": "a", "en": "b"}\n{"de": "a", "en": null}\n', "line 2: column en: found null; expected text"),
    "u.jsonl": ('{"de": "a", "en": "b"}\n{"de": 3}\n', "line 2: column de: found int 3; expected text"),
    "x.jsonl": ('{"de": "half \\ud83d", "en": "b"}\n', "line 1: column de: found str half"),
    "v.jsonl": ("{", "line 1: no JSON: "),
    "w.jsonl": ('{"deu": "a", "eng": "b"}\n', "found the columns deu, eng; expected de, en, or name yours by --columns"),
    "t.parquet": ("PAR1 and more", "damaged Parquet file"),
    "t.tmx": (tmx(PAIRS)[:-90], "line 30: no XML: unclosed token"),
    "u.tmx": (tmx([("&a9;", "x")], f'<!DOCTYPE tmx [<!ENTITY a0 "x">{BOMB}]>'), "no XML: limit on input amplification factor"),
    "v.tmx": (tmx(PAIRS).replace("DE-de", "nl"), "found the languages en, fr, nl; expected units with de and en"),
    "w.tmx": (tmx(PAIRS).replace('"1.0"', '"1.0" encoding="Shift_JIS"', 1), "; expected UTF-8 or UTF-16"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_one_line_with_its_place(name: str, tmp_path) -> None:
    content, expected = FAULTS[name]
    (tmp_path / name).write_bytes(content.encode("latin-1" if "\xff" in content else "utf-8"))
    (line,) = refused(lambda: list(formats.rows(tmp_path / name, DE_EN)))
    assert line.startswith(f"{tmp_path / name}: ") and expected in line


def test_a_code_with_a_region_takes_no_other_region(tmp_path) -> None:
    units = [("pt-BR", "do Brasil", "zh-TW", "a"), ("pt", "sem lugar", "zh-CN", "b"), ("pt-PT", "de Portugal", "zh", "c")]
    side = '<tuv xml:lang="{}"><seg>{}</seg></tuv>'
    text = "".join(f"<tu>{side.format(one, a)}{side.format(two, b)}</tu>" for one, a, two, b in units)
    (tmp_path / "t.tmx").write_text(f"<tmx><body>{text}</body></tmx>")
    read = lambda *codes: list(formats.rows(tmp_path / "t.tmx", Columns(codes)))  # noqa: E731
    assert read("pt-PT", "zh") == [("sem lugar", "b"), ("de Portugal", "c")]
    assert read("pt", "zh-TW") == [("do Brasil", "a"), ("de Portugal", "c")]


@pytest.mark.parametrize("suffix", PACK)
def test_compressed_lines_are_read_and_cut_ones_named(suffix: str, tmp_path) -> None:
    path = tmp_path / f"t{suffix}"
    packed = PACK[suffix]("\ufeffein Satz\nzwei\n".encode() * 50 + bytes(range(1, 10)))
    path.write_bytes(packed)
    assert read_lines(path)[:2] == ["ein Satz", "zwei"]
    path.write_bytes(packed[:-6])
    with pytest.raises(UserError, match=r"t\.\w+: damaged (gzip|bzip2|xz|zstd) data: "):
        read_lines(path)


def test_one_command_takes_all_kinds_of_files(tmp_path, monkeypatch, cli) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "a.tsv.zst", PAIRS[:9])
    write(tmp_path / "b.tmx", PAIRS[9:14])
    write(tmp_path / "c.parquet", PAIRS[14:20])
    for side, name in enumerate(("d.de", "d.en", "d.en2")):
        (tmp_path / name).write_text("".join(f"{pair[min(side, 1)]}{'!' * (side > 1)}\n" for pair in PAIRS[20:]), encoding="utf-8")
    call = ["data", "add", "talks", "--src-lang", "de", "--tgt-lang", "en", "--train", "a.tsv.zst", "--train", "b.tmx"]
    assert cli(*call, "--valid", "c.parquet", "--test", "d.de", "d.en", "d.en2")[0] == 0
    splits = load_entry("talks").splits
    assert [line for side in splits["train"].files for line in read_lines(Path(side))] == [p[i] for i in (0, 1) for p in PAIRS[:14]]
    assert splits["valid"].pairs == 6 and splits["test"].files == [str(tmp_path / name) for name in ("d.de", "d.en", "d.en2")]
    for arguments, said in (
        (["--valid", "c.parquet", "a.tsv.zst"], "c.parquet: holds both sides; expected it alone after its option"),
        (["--valid", "d.de"], "d.de: found one file of lines; expected SRC TGT, or one file with both sides"),
        (["--valid", "d.de", "d.en", "--columns", "1"], "--columns 1: expected two names or numbers, SRC,TGT"),
        (["--valid", "hub:wmt/wmt16"], "hub:wmt/wmt16: expected hub:ID[@REVISION][:CONFIG]:SPLIT"),
        (["--valid", "sacrebleu:wmt99"], "wmt99: no test set of sacreBLEU; "),
        (["--valid", "d.de", "d.en", "--valid", "d.de", "d.en", "d.en2"], "valid: pair 11: found 2 references, expected 1"),
    ):
        code, _, err = cli(*call[:2], "other", *call[3:], *arguments, "--test", "d.de", "d.en")
        assert code == 2 and said in err and err.count("\n") == 1, err
    assert len(list((tmp_path / "search_spaces/data/joined").iterdir())) == 4, "a refused call leaves no files"
