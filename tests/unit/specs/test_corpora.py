import sys

import pytest

from orchestrator.data import fetch
from orchestrator.errors import UserError
from orchestrator.specs import corpora, yaml_file
from orchestrator.specs.corpora import load_entry, parse_entry

TOY = """description: d
licence: l
src: a
tgt: b
sources:
  - kind: generated
    parameters: {vocabulary: 100}
"""


@pytest.mark.parametrize("name", corpora.list_entries())
def test_every_entry_is_valid(name):
    entry = load_entry(name)
    assert entry.name == name and (entry.generated is not None or {"train", "valid", "test"} <= set(entry.splits))
    assert entry.description and entry.licence


def test_an_unknown_corpus_names_the_nearest():
    with pytest.raises(UserError, match="did you mean multi30k-de-en"):
        load_entry("multi30k-de-en-raw")
    for odd in ("../spec", "", "a/b"):
        with pytest.raises(UserError, match="unknown corpus"):
            load_entry(odd)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("licence: l", "license: l", "license: unknown key"),
        ("vocabulary: 100", "vocabulary: ten", "vocabulary: found 'ten'; expected a whole number"),
        ("kind: generated", "kind: generate", "generate"),
        ("src: a\n", "", "src: missing"),
        ("tgt: b", "tgt: b\nfolders: [../up]", "folders"),
        ("sources:", "splits: {train: {src: x, tgt: [y]}}\nsources:", "neither splits"),
    ],
)
def test_faults_of_an_entry_name_file_line_and_key(old, new, expected):
    with pytest.raises(UserError) as caught:
        parse_entry(yaml_file.parse(TOY.replace(old, new), "x.yaml"), "x")
    assert any(line.startswith("x.yaml:") and expected in line for line in caught.value.lines), caught.value.lines


def test_user_supplied_text_is_refused_with_its_layout(tmp_path):
    with pytest.raises(UserError) as caught:
        fetch.get("nist-zh-en", tmp_path)
    (line,) = caught.value.lines
    assert "LDC" in line and "train.zh" in line
    assert list(tmp_path.iterdir()) == []


def test_without_a_network_the_error_is_one_line(tmp_path, monkeypatch):
    import sacrebleu.utils

    def offline(*args):
        raise SystemExit(1)

    monkeypatch.setitem(sys.modules, "datasets", None)
    monkeypatch.setattr(sacrebleu.utils, "get_source_file", offline)
    with pytest.raises(UserError) as caught:
        fetch.get("wmt14-en-de", tmp_path)
    assert len(caught.value.lines) == 2
    assert "(valid, test): sacrebleu could not deliver it; is there a network?" in caught.value.lines[1]


class FakeHub:
    """Stands for the `datasets` module."""

    def load_dataset(self, name, config, split):
        assert name == "bentrevett/multi30k"
        return [{"de": f"{split} eins\nzwei", "en": f"{split} one two"}] * 3


def test_what_is_fetched_has_the_layout_of_the_entry(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", FakeHub())
    said: list[str] = []
    written = fetch.get("multi30k-de-en", tmp_path, said.append)
    folder = tmp_path / "multi30k"
    assert written == [folder / n for n in ("train.de", "train.en", "val.de", "val.en", "test_2016_flickr.de", "test_2016_flickr.en")]
    assert (folder / "val.de").read_text() == "validation eins zwei\n" * 3
    assert fetch.get("multi30k-de-en", tmp_path) == [], "a second call fetches nothing"
    assert said[0] == "multi30k-de-en: train from huggingface"
