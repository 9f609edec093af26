from unittest.mock import Mock

import pytest
import sacrebleu.utils
from sacrebleu import dataset, utils
from sacrebleu.dataset import base
from sacrebleu.dataset.plain_text import PlainTextDataset

from orchestrator.data import fetch
from orchestrator.errors import UserError
from orchestrator.specs import corpora, yaml_file
from orchestrator.specs.corpora import CorpusEntry, SacreBleu, load_entry, parse_entry
from orchestrator.specs.rows import resolve
from tests.unit.conftest import refused
from tests.unit.data import hub_server

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


def test_a_process_that_goes_on_sees_an_edited_entry(spec, tmp_path, monkeypatch):
    monkeypatch.setenv("NMT_SEARCH_SPACES", str(tmp_path))
    for test in ("test", "other"):
        splits = {split: {"src": "/a", "tgt": ["/b"]} for split in ("train", "valid", test, "test")}
        (tmp_path / "data").mkdir(exist_ok=True)
        (tmp_path / "data" / "own.yaml").write_text(f"{{src: a, tgt: b, splits: {splits}}}")
        assert resolve(spec(f"  r: {{data: {{corpus: own}}, score: {{test: {test}}}}}\n"))[0].run_spec.score.test == test


def test_an_unknown_corpus_names_the_nearest():
    with pytest.raises(UserError, match="did you mean multi30k-de-en"):
        load_entry("multi30k-de-en-raw")
    for odd in ("../spec", "", "a/b"):
        with pytest.raises(UserError, match="unknown corpus"):
            load_entry(odd)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("vocabulary: 100", "vocabulary: ten", "vocabulary: found 'ten'; expected a whole number"), ("src: a\n", "", "src: missing"),
        ("licence: l", "license: l", "license: unknown key"), ("kind: generated", "kind: generate", "generate"),
        ("tgt: b", "tgt: b\nfolders: [../up]", "folders"),
        ("sources:", "splits: {train: {src: x, tgt: [y]}}\nsources:", "neither splits"),
    ],
)  # fmt: skip
def test_faults_of_an_entry_name_file_line_and_key(old, new, expected):
    lines = refused(lambda: parse_entry(yaml_file.parse(TOY.replace(old, new), "x.yaml"), "x"))
    assert any(line.startswith("x.yaml:") and expected in line for line in lines), lines


def test_user_supplied_text_is_refused_with_its_layout(tmp_path):
    (line,) = refused(fetch.get, "nist-zh-en", tmp_path)
    assert "LDC" in line and "train.zh" in line
    assert list(tmp_path.iterdir()) == []


def test_without_a_network_the_error_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(sacrebleu.utils, "get_source_file", Mock(side_effect=SystemExit(1)))
    lines = refused(fetch.get, "wmt14-en-de", tmp_path)
    assert len(lines) == 2
    assert "(valid, test): sacrebleu could not deliver wmt13; is there a network?" in lines[1]


HUB_SPLITS = ("train", "validation", "test")
SPLITS = {"train": ["train.de", "train.en"], "valid": ["val.de", "val.en"], "test": ["test.de", "test.en"]}


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """Makes `load_entry` return a corpus with the given facts about each split, of a hub that delivers `count` pairs."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def use(count, **facts):
        pairs = {split: [(f"{split} eins\nzwei {i}", f"{split} one two {i}") for i in range(count)] for split in HUB_SPLITS}
        served.files = {f"default/{split}/0000.parquet": hub_server.parquet_of(rows) for split, rows in pairs.items()}
        source = {"kind": "huggingface", "id": "me/x"}
        source["splits"] = {"train": "train", "valid": "validation", "test": "test"}
        splits = {name: {"src": src, "tgt": [tgt]} | facts for name, (src, tgt) in SPLITS.items()}
        entry = CorpusEntry(name="fake", src="de", tgt="en", folders=["fake"], splits=splits, sources=[source])
        monkeypatch.setattr(fetch, "load_entry", lambda name: entry)

    with hub_server.serving() as served:
        monkeypatch.setenv("HF_ENDPOINT", served.url)
        yield use


def test_text_that_is_not_the_entrys_is_refused_and_leaves_no_file(tmp_path, hub):
    folder = tmp_path / "fake"
    for facts, said in (({"pairs": 29000}, "found 2 pairs, expected 29,000"), ({"sha256": ["a" * 64] * 2}, f"expected {'a' * 16}..")):
        hub(2, **facts)
        lines = refused(fetch.get, "fake", tmp_path)
        assert [line.partition(": ")[0] for line in lines] == [f"fake ({split})" for split in SPLITS]
        assert f"{folder / 'train.de'}: found" in lines[0] and said in lines[0]
        assert list(folder.glob("[!.]*")) == []
    hub(2, pairs=2)
    told: list[str] = []
    assert fetch.get("fake", tmp_path, told.append) == [folder / name for names in SPLITS.values() for name in names]
    assert (folder / "val.de").read_text() == "".join(f"validation eins zwei {i}\n" for i in range(2))
    assert told[0] == "fake: train from huggingface" and fetch.get("fake", tmp_path) == [], "a second call fetches nothing"
    (folder / "val.en").write_text("one\n")
    with pytest.raises(
        UserError, match=r"fake \(valid\): .*val.en: found 1 pairs, expected 2; remove it, then get it with: nmt-ablate data get"
    ):
        fetch.get("fake", tmp_path)
    assert len(list(folder.glob("[!.p]*"))) == 6, "files that were there stay"


def test_a_download_that_the_server_cut_short_is_not_taken(tmp_path, monkeypatch, hub):
    for module in (base, utils):
        monkeypatch.setattr(module, "SACREBLEU_DIR", str(tmp_path / "sacrebleu"))
    hub(3897, pairs=3897)
    entry = fetch.load_entry("fake")
    entry.sources.insert(0, SacreBleu(kind="sacrebleu", langpair="de-en", splits={"test": "cut"}))
    entry.sources[1].splits.pop("test")
    text = b"eins zwei\n" * 3897
    with hub_server.serving(hub_server.TextServer(lambda path: text, more=1500)) as server:
        urls = [f"{server.url}/test.{side}" for side in ("de", "en")]
        files = {"de-en": ["cut.test.de", "cut.test.en"]}
        monkeypatch.setitem(dataset.DATASETS, "cut", PlainTextDataset("cut", data=urls, langpairs=files))
        with pytest.raises(UserError, match=r"fake \(test\): sacrebleu could not .*IncompleteRead\(38970 bytes read, 1500 more expected\)"):
            fetch.get("fake", tmp_path)
        assert not list((tmp_path / "fake").glob("*test*"))
        server.more = 0
        assert [path.name for path in fetch.get("fake", tmp_path)] == SPLITS["test"]
    for path in [*(tmp_path / "fake").glob("test*"), *(tmp_path / "sacrebleu/cut").glob("cut.*")]:
        path.unlink() if path.parent.name == "fake" else path.write_bytes(text[:-1500])  # as a killed process leaves it
    with pytest.raises(UserError, match=r"test.de: found 3,747 pairs, expected 3,897$"):
        fetch.get("fake", tmp_path)
