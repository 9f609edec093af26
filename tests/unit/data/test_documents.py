"""Documents: the rule that cuts sentences, CSV files, sentence ends in ids, truncation, and errors of one line."""

import csv
import gzip

import pytest

from orchestrator.data.prepare import manifest, prepare
from orchestrator.data.sentences import MARK_ID, sentences_of, split
from orchestrator.data.subword import EOS
from orchestrator.data.text import csv_rows
from orchestrator.errors import UserError
from orchestrator.specs import corpora
from orchestrator.specs.positions import Document
from orchestrator.specs.schema import DataSpec, Subword, Truncate

ARTICLE = 'He met Dr. Who in the U.S. Senate at 3.5 p.m. today. "Why?" she asked. "No idea." Then it rained! (It did.) J. R. left.'


def test_the_rule():
    first = "He met Dr. Who in the U.S. Senate at 3.5 p.m. today."
    assert split(ARTICLE) == [first, '"Why?" she asked.', '"No idea."', "Then it rained!", "(It did.)", "J. R. left."]
    assert split("One.\n\n two two\nthree.") == ["One.", "two two", "three."]
    assert split("  ") == [] and split("no end") == ["no end"]
    assert split("Wait... What?") == ["Wait...", "What?"]


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    folder = tmp_path / "docs"
    folder.mkdir()
    with gzip.open(folder / "all.csv.gz", "wt", encoding="utf-8", newline="") as file:
        out = csv.writer(file)
        out.writerow(["id", "article", "highlights"])
        for i in range(40):
            out.writerow([i, f"The cat number{i % 7} sat, on a mat. It saw {i % 5} dogs. They ran.", f"Cat {i % 7} sat .\nDogs ran ."])
    spans = {"train": [0, 30], "valid": [30, 34], "test": [34, 40]}
    entry = {"description": "d", "licence": "l", "src": "en", "tgt": "en", "documents": {}, "folders": ["docs"]}
    entry["splits"] = {name: {"src": "all.csv", "tgt": ["all.csv"], "records": span} for name, span in spans.items()}
    entry |= {"csv": {"src": "article", "tgt": "highlights"}, "sources": [{"kind": "user", "obtain": "make it"}]}
    parse = corpora.parse_entry
    monkeypatch.setattr(corpora, "entry_file", lambda name: corpora.FOLDER / "toy-smoke.yaml")
    monkeypatch.setattr(corpora, "parse_entry", lambda document, name: parse(Document("docs.yaml", entry), name))
    return tmp_path, entry


def spec(kind="word", size=60, joint=True, **more):
    return DataSpec(corpus="docs", subword=Subword(kind=kind, size=size, joint=joint), **more)


@pytest.mark.parametrize(("kind", "size"), [("word", 60), ("bpe", 80), ("unigram", 60)])
@pytest.mark.parametrize(("joint", "tokenizer"), [(True, "none"), (False, "moses")])
def test_sentence_ends_are_ids(corpus, tmp_path, kind, size, joint, tokenizer):
    ready = prepare(spec(kind, size, joint, tokenizer=tokenizer), corpus[0], tmp_path / "cache")
    src, tgt = ready.pairs("train")[0]
    assert src.count(EOS) == 2 and src[-1] != EOS and MARK_ID not in src
    assert tgt.count(MARK_ID) == 1 and EOS not in tgt
    (source,) = ready.sources("test")[:1]
    assert source.count("<q>") == 2 and ready.pairs("test")[0][0] == ready.encode([source])[0]
    (reference,) = ready.references("test")[0][:1]
    back = ready.decode([ready.pairs("test")[0][1]])[0]
    assert sentences_of(back) == [s.replace(" .", ".") if tokenizer == "moses" else s for s in sentences_of(reference)]


def test_truncation_comes_before_the_filters(corpus, tmp_path):
    whole = prepare(spec(), corpus[0], tmp_path / "cache")
    cut = prepare(spec(truncate=Truncate(src=6), max_length=9), corpus[0], tmp_path / "cache")
    assert len(cut.pairs("train")) == len(whole.pairs("train")) == 30
    assert cut.pairs("train").src_lengths.max() == cut.pairs("test").src_lengths.max() == 6
    assert cut.pairs("train")[0][1] == whole.pairs("train")[0][1]
    assert cut.encode(cut.sources("test"))[0] == cut.pairs("test")[0][0]
    found = [cut.cut(ids, limit) for ids, limit in (([5, 6, EOS, 7], 3), ([5, 6], 2), ([EOS, EOS], 1))]
    assert found == [[5, 6], [5, 6], [EOS]]


def test_an_ordinary_subword_is_no_sentence_end(tmp_path):
    """Without documents the most frequent subword has the id of the mark."""
    data = DataSpec(corpus="toy-smoke", subword={"kind": "word", "size": 200})
    whole, cut = (prepare(each, None, tmp_path) for each in (data, data.model_copy(update={"truncate": Truncate(tgt=2)})))
    assert cut.pairs("train").tgt_lengths.tolist() == [min(2, length) for length in whole.pairs("train").tgt_lengths]
    assert cut.encode_tokens([" ".join(cut.decode_tokens([[MARK_ID]]) * 3)], "tgt") == [[MARK_ID] * 2]


def test_the_manifest_knows_what_was_read(corpus):
    data_dir, entry = corpus
    first = manifest(spec(), data_dir)
    entry["splits"]["test"]["records"] = [35, 40]
    assert manifest(spec(), data_dir)["tests"] != first["tests"] and manifest(spec(), data_dir)["text"] == first["text"]
    assert "truncate" not in first["preparation"] and "truncate" in manifest(spec(truncate=Truncate(src=9)), data_dir)["preparation"]


@pytest.mark.parametrize(
    ("text", "columns", "records", "message"),
    [
        ("a,b\n1,2\n", ("a", "c"), None, "no column 'c'; its columns are a, b"),
        ("a,b\n1,2\n3\n", ("a", "b"), None, "record 2 .* lacks columns"),
        ("a,b,a\n1,2,3\n", ("a", "b"), None, "found 2 columns 'a'; expected one"),
        ("a,b\n1,2\n", ("a", "b"), (0, 3), "1 records; expected at least 3"),
        ("", ("a", "b"), None, "its columns are none"),
        (b"a,b\n\xff,2\n", ("a", "b"), None, "not UTF-8"),
    ],
)
def test_bad_files(tmp_path, text, columns, records, message):
    (tmp_path / "x.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(UserError, match=message):
        list(csv_rows(tmp_path / "x.csv", columns, records))


def test_a_split_of_a_csv_corpus_is_one_file(corpus):
    _, entry = corpus
    entry["splits"]["test"]["tgt"] = ["other.csv"]
    with pytest.raises(UserError, match="expected one CSV file"):
        corpora.load_entry("docs")
