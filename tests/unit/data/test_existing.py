"""Subword models and dictionaries that others made, against the output of the tools that made them."""

import io
import json
import sys
from itertools import chain
from pathlib import Path

import pytest
import sentencepiece
import tokenizers

from orchestrator.data import existing, subword
from orchestrator.data.prepare import manifest, prepare
from orchestrator.data.text_processor import TextProcessor
from orchestrator.errors import UserError
from orchestrator.ledger.keys import training_key
from orchestrator.specs.schema import DataSpec, Subword
from tests.unit.data.conftest import sentences

CODES = "#version: 0.2\nu n\nh un\ne r</w>\nhun d</w>\ne n</w>\nü b\nüb er</w>\nä u\näu f\näuf t</w>\nt r\ntr a\ntra ß\ns traß\n"
LINE = "der hund läuft nun über\u00a0die  hundestraße neu"
CUT = "d@@ er hund l@@ äuft n@@ u@@ n üb@@ e@@ r@@ \u00a0@@ d@@ i@@ e hun@@ d@@ e@@ straß@@ e n@@ e@@ u"
"""Codes that subword-nmt 0.3.8 learned, and what its apply-bpe makes of a line."""


def segmenters(folder: Path, **options: object) -> list[subword.Segmenter]:
    spec = Subword.model_validate(options)
    return existing.segmenters(spec, existing.files(spec, folder), [folder / "src", folder / "tgt"])


@pytest.fixture
def folder(tmp_path) -> Path:
    """Training text of two sides, codes, a dictionary, and a sentencepiece model without PAD and with the usual ids."""
    for side, start in (("src", 0), ("tgt", 100)):
        (tmp_path / side).write_text("".join(f"{line}\n" for line in [*sentences(60, start), LINE]), encoding="utf-8")
    (tmp_path / "codes").write_text(CODES, encoding="utf-8")
    (tmp_path / "dict.txt").write_text("hund 9\nd@@ 7\ner 7\n@@ 1\n", encoding="utf-8")
    model = io.BytesIO()
    lines = iter((tmp_path / "src").read_text(encoding="utf-8").splitlines())
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=lines, model_writer=model, vocab_size=50, num_threads=1, minloglevel=3)
    (tmp_path / "sp.model").write_bytes(model.getvalue())
    return tmp_path


def test_codes_cut_as_subword_nmt_does(folder: Path) -> None:
    codes = segmenters(folder, model=["codes"])[0]
    assert isinstance(codes, subword.Codes) and codes.cut(LINE) == CUT.split(" ")
    (ids,) = codes.encode([LINE])
    assert min(ids) > 3 and codes.decode([[2, *ids, 3]]) == [LINE.replace("  ", " ")]
    codes.save(folder / "x.vocab")
    assert subword.load(folder / "x.vocab", "bpe").encode([LINE]) == [ids]
    few = segmenters(folder, model=["codes"], dictionary=["dict.txt"])[0]
    assert few.size == 8 and few.encode(["der hund und"]) == [[5, 6, 4, 1, 1]]


def tokenizer_json(folder: Path):
    """Learns byte-level BPE with a template, truncation and special tokens, as models of Hugging Face have them."""
    made = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>"))
    made.pre_tokenizer, made.decoder = tokenizers.pre_tokenizers.Metaspace(), tokenizers.decoders.Metaspace()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=90, special_tokens=["<s>", "</s>", "<unk>"], show_progress=False)
    made.train_from_iterator((folder / "src").read_text(encoding="utf-8").splitlines(), trainer)
    made.post_processor = tokenizers.processors.TemplateProcessing(single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)])
    made.enable_truncation(3)
    made.save(str(folder / "tokenizer.json"))
    made.no_truncation()
    return made


@pytest.mark.parametrize(("joint", "models"), [(True, 1), (False, 1), (False, 2)])
@pytest.mark.parametrize("name", ["sp.model", "tokenizer.json"])
def test_a_model_keeps_its_pieces(name: str, joint: bool, models: int, folder: Path) -> None:
    lines = sentences(20)
    if name == "sp.model":
        own = sentencepiece.SentencePieceProcessor(model_file=str(folder / name))
        assert own.unk_id() == 0 and own.pad_id() == -1
        lengths, text = [len(line) for line in own.encode(lines)], own.decode(own.encode(lines))
    else:
        lengths, text = [len(line.ids) - 2 for line in tokenizer_json(folder).encode_batch(lines)], lines
        (folder / name).write_text("\n " + (folder / name).read_text(encoding="utf-8"), encoding="utf-8")
    for segmenter in segmenters(folder, model=[name] * models, joint=joint):
        ids = segmenter.encode(lines)
        assert [len(line) for line in ids] == lengths and min(chain.from_iterable(ids)) > 3
        assert segmenter.decode([[2, *line, 3, 0] for line in ids]) == text
        segmenter.save(folder / "x.vocab")
        assert subword.load(folder / "x.vocab", "bpe").encode(lines) == ids
        assert not set(segmenter.encode(["ж <s> </s>"])[0]) & {0, 2, 3} and segmenter.encode(["ж"])[0][-1] == subword.UNK


def test_without_its_library_a_tokenizer_is_refused(folder: Path, monkeypatch) -> None:
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(UserError, match=r"found .*; expected a tokenizer\.json of Hugging Face"):
        segmenters(folder, model=["tokenizer.json"])
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(UserError, match="needs the package tokenizers"):
        segmenters(folder, model=["tokenizer.json"])


def test_a_dictionary_alone_is_of_words(folder: Path) -> None:
    (folder / "dict.txt").write_text("hund 9\nder 7 #fairseq:overwrite\n")
    assert segmenters(folder, kind="word", dictionary=["dict.txt"])[0].encode(["der hund x"]) == [[5, 4, 1]]


def test_a_line_feed_among_the_pieces_of_bytes_ends_no_line(folder: Path) -> None:
    (folder / "joint.vocab").write_text(json.dumps(["a", "\n"]))
    about = {"languages": ["de", "en"], "tokenizer": "none", "lowercase": False, "documents": False, "form": "raw"}
    assert TextProcessor(folder, about | {"subword": "word", "vocabularies": ["joint"]}).decode([[4, 5, 4]]) == ["a   a"]


def test_what_is_no_model_is_refused(folder: Path) -> None:
    (folder / "empty").touch()
    for options, expected in (
        ({"model": ["none"]}, "data.subword.model: .*none: no such file"),
        ({"model": ["src"]}, "src: found none of these; expected a sentencepiece model, a tokenizer.json or codes of subword-nmt"),
        ({"model": ["empty"]}, "empty: found none of these"),
        ({"model": ["codes"], "dictionary": ["src"]}, "src: line 1: found .*; expected a piece and its count"),
        ({"model": ["sp.model"], "dictionary": ["dict.txt"]}, "has none of the pieces of the dictionary"),
    ):
        with pytest.raises(UserError, match=expected):
            segmenters(folder, **options)
    for bad in ({"dictionary": ["a"]}, {"model": ["a", "b"]}, {"model": ["a"], "kind": "word"}, {"model": []}):
        with pytest.raises(ValueError):
            Subword.model_validate(bad)


def test_the_content_of_a_model_is_in_the_key(folder: Path, tiny: Path, tmp_path) -> None:
    def spec(name: str, **more: object) -> DataSpec:
        return DataSpec.model_validate({"corpus": "tiny", "subword": {"model": [str(folder / name)], **more}})

    (folder / "copy").write_bytes((folder / "sp.model").read_bytes())
    keys = {name: training_key(manifest(spec(name), tiny) or {}) for name in ("sp.model", "copy", "codes")}
    assert keys["sp.model"] == keys["copy"] != keys["codes"]
    assert training_key(manifest(spec("copy", size=500), tiny) or {}) == keys["copy"], "the size of what is not learned does not count"
    prepared = prepare(spec("copy"), tiny, tmp_path / "cache")
    assert prepared.src_size == 51 and prepared.decode(prepared.encode(sentences(1), "src"), "src") == sentences(1)
    assert json.dumps(manifest(DataSpec(corpus="tiny"), tiny)).count("model") == 0, "learned vocabularies have their old key"
