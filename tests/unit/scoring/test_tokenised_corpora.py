"""A corpus that is tokenised and escaped already: not tokenised again, scored as running text where the metric is of running text."""

import pytest

from orchestrator.data.prepare import manifest, prepare
from orchestrator.errors import UserError
from orchestrator.ledger.keys import keys_of, split_key, training_key
from orchestrator.scoring.bleu import multi_bleu
from orchestrator.scoring.scores import sacre_bleu, score
from orchestrator.specs import corpora
from orchestrator.specs.schema import DataSpec, RunSpec, ScoreSpec, Subword, TrainSpec

MOSES = DataSpec(corpus="talks", tokenizer="moses", lowercase=True, subword=Subword(kind="word", size=200))
PLAIN = MOSES.model_copy(update={"tokenizer": "none"})
ESCAPED = "tokenised-escaped"


def keys(data: DataSpec, about: dict):
    return keys_of(RunSpec(data=data, train=TrainSpec(max_steps=1)), about, None)


def test_tokens_are_taken_as_they_are(talks, token_lines, tmp_path):
    ready = prepare(MOSES, talks(token_lines, ESCAPED), tmp_path / "cache")
    assert ready.tokenise(ready.references("test")[0], "tgt") == token_lines
    assert ready.decode_tokens(ready.encode(ready.sources("test")), "src") == ready.sources("test")
    assert sorted(ready.sources("test")) == sorted(token_lines)
    assert ready.stats["splits"]["test"]["tokens"][1] == sum(len(line.split()) for line in token_lines)
    assert not any("& apos" in line for line in ready.tokenise(ready.sources("valid"), "src"))
    other = prepare(MOSES, talks([line.lower() for line in token_lines]), tmp_path / "cache")
    assert "& apos ;" in other.tokenise(other.references("test")[0], "tgt")[0], "undeclared, it is text that holds `&apos;`"


def test_running_text_is_tokenised_and_escaped_for_the_model(talks, raw_lines, token_lines, tmp_path):
    for data in (MOSES, PLAIN):  # without a tokeniser the model has seen the same tokens
        ready = prepare(data, talks(token_lines, ESCAPED), tmp_path / "cache")
        assert ready.decode_tokens(ready.encode_text(raw_lines), "src") == token_lines
        assert ready.decode(ready.encode(token_lines)) == [line.lower().replace("r&d", "r & d") for line in raw_lines]


def test_every_figure_is_of_the_right_text(talks, raw_lines, token_lines, tmp_path):
    """Tokens under multi-bleu, running text under sacreBLEU, mteval and chrF: as if the corpus were raw."""
    made = token_lines[:3] + [line.replace("a ", "the ") for line in token_lines[3:]]
    ready = prepare(MOSES, talks(token_lines, ESCAPED), tmp_path / "cache")
    text = ready.decode(ready.encode(made, "tgt"))
    found = score(text, made, ready, "test", ScoreSpec())
    expected = sacre_bleu(text, [[line.lower() for line in raw_lines]])["score"]
    assert found["tokenised"]["score"] == pytest.approx(multi_bleu(made, [token_lines])["score"])
    assert found["sacrebleu"]["score"] == found["mteval"]["score"] == pytest.approx(expected) and 50 < expected < 100
    assert abs(sacre_bleu(made, [token_lines])["score"] - expected) > 0.5, "of the tokens themselves it is another figure"


def test_raw_references_of_the_users_own(talks, raw_lines, token_lines, tmp_path):
    data_dir = talks(token_lines, ESCAPED, raw=raw_lines)
    ready = prepare(MOSES, data_dir, tmp_path / "cache")
    assert ready.reference_text("test") == [raw_lines] and ready.references("test") == [token_lines]
    assert score(raw_lines, token_lines, ready, "test", ScoreSpec())["bleu"] == pytest.approx(100)
    with_raw, scored_on_raw = manifest(MOSES, data_dir), keys(MOSES, manifest(MOSES, data_dir))
    (data_dir / "talks" / "test.raw").write_text("one line\n")
    with pytest.raises(UserError, match=r"test: 1 lines of raw references 0; expected 6"):
        prepare(MOSES, data_dir, tmp_path / "cache")
    (data_dir / "talks" / "test.raw").unlink()
    without = manifest(MOSES, data_dir)
    assert without != with_raw
    own = keys(MOSES, without)
    assert (own.train, own.decode) == (scored_on_raw.train, scored_on_raw.decode) and own.score != scored_on_raw.score


def test_keys_change_where_something_else_comes_out(talks, token_lines):
    """With Moses the training; without a tokeniser the tokens are the same, and only what is written as text is another."""
    for data, train_is_the_same in ((MOSES, False), (PLAIN, True)):
        raw, tokens = (manifest(data, talks(token_lines, text)) for text in (None, ESCAPED))
        assert (training_key(raw) == training_key(tokens)) is train_is_the_same
        assert split_key(raw, "test") != split_key(tokens, "test") and keys(data, raw).score != keys(data, tokens).score
    assert manifest(MOSES, talks(token_lines, "raw")) == manifest(MOSES, talks(token_lines)), "what entries said before they could say it"


def test_entries_that_contradict_themselves(talks, token_lines):
    talks(token_lines, "tokenized")
    with pytest.raises(UserError, match=r"text: found 'tokenized'; expected one of .*did you mean tokenised"):
        corpora.load_entry("talks")
    talks(token_lines, "raw", raw=token_lines)
    with pytest.raises(UserError, match="split test: raw references are of tokenised corpora; expected text: tokenised"):
        corpora.load_entry("talks")
