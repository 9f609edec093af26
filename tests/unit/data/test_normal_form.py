"""Text in two Unicode normal forms is found, and read in one where the corpus declares it; unknown tokens are shown."""

from pathlib import Path
from unicodedata import normalize

import pytest

from orchestrator.data.check import check
from orchestrator.data.prepare import prepare
from orchestrator.specs.schema import DataSpec, ScoreSpec, Subword
from orchestrator.sweeps.metric_compatibility import metric_warnings

DATA = DataSpec(corpus="tiny", tokenizer="none", subword=Subword(kind="bpe", size=80, joint=False))


@pytest.fixture
def mixed(tiny: Path) -> Path:
    """`tiny` with umlauts, in NFC in train and in NFD in valid and test."""
    for path in (tiny / "tiny").iterdir():
        text = path.read_text().replace("u", "\u00fc").replace("U", "\u00dc")
        path.write_text(text if path.stem == "train" else normalize("NFD", text))
    return tiny


def test_mixed_forms_are_found_and_read_in_one(mixed: Path, tmp_path, tiny_entry, catalogued) -> None:
    report = check(tiny_entry(), mixed)
    said = [Path(line.partition(":")[0]).name for line in report.warnings if ": decomposed letters (not NFC), in " in line]
    assert said == ["valid.a", "valid.b", "test.a", "test.b"]
    assert any("test.a: " in line and "% of the characters do not occur in train" in line and "U+0308" in line for line in report.warnings)
    assert report.unknown["test"][0] > 0.01
    plain = prepare(DATA, mixed, tmp_path / "cache")
    assert plain.unknown("train") == [0, 0] and plain.unknown("test")[0] > 0.01
    assert any("of the tokens of test are unknown" in line for line in metric_warnings(plain, DATA, ScoreSpec()))
    entry = tiny_entry(normal_form="NFC")
    catalogued(entry)
    assert not [line for line in check(entry, mixed).warnings if "NFC" in line or "occur in train" in line]
    one = prepare(DATA, mixed, tmp_path / "cache")
    assert one.manifest["normal_form"] == "NFC" and "normal_form" not in plain.manifest and one.key != plain.key
    assert one.unknown("test") == [0, 0] and one.references("test") == [[normalize("NFC", line) for line in plain.references("test")[0]]]
    assert not [line for line in metric_warnings(one, DATA, ScoreSpec()) if "unknown" in line]
    assert one.encode_text(["h\u00fcnd"]) == one.encode_text([normalize("NFD", "h\u00fcnd")]), "as what is translated"
    for path in (mixed / "tiny").iterdir():
        path.write_text(normalize("NFD", path.read_text()))
    assert not [line for line in check(tiny_entry(), mixed).warnings if "NFC" in line], "wholly in one form"


def test_data_add_reads_nfc_and_commands_show_unknown_tokens(mixed: Path, monkeypatch, cli) -> None:
    monkeypatch.undo()
    monkeypatch.chdir(mixed / "tiny")
    files = [word for split in ("train", "valid", "test") for word in (f"--{split}", f"{split}.a", f"{split}.b")]
    code, _, err = cli("data", "add", "own", "--src-lang", "de", "--tgt-lang", "en", *files)
    assert code == 0 and "own test: 0.00% and 0.00% of the characters are not in train" in err, err
    file = mixed / "tiny" / "search_spaces" / "data" / "own.yaml"
    assert "normal_form: NFC\n" in file.read_text()
    file.write_text(file.read_text().replace("normal_form: NFC\n", ""))
    code, _, err = cli("data", "check", "own")
    assert code == 0 and "of the characters do not occur in train" in err
    table = "extends: search_spaces/quickstart.yaml\nsource: {paper: a, table: b}\n"
    Path("t.yaml").write_text(table + "data: {corpus: own, subword: {kind: bpe, size: 80, joint: false}}\nrows: {a: {}}\n")
    said = cli("data", "prepare", "t.yaml", "--cache-dir", "cache")[2]
    assert "own train: 0.00% of the source's and 0.00% of the target's tokens are unknown" in said
    assert "warning: own: over 1% unknown in test" in said
