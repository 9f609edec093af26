"""References that are not written as their entry says, or without spaces, are said: by `data check`, before a run, and under a table."""

import importlib.util

import pytest

from orchestrator.data import expected_text
from orchestrator.data.check import check
from orchestrator.data.prepare import prepare
from orchestrator.specs.corpora import load_entry
from orchestrator.specs.schema import DataSpec, ScoreSpec, Subword
from orchestrator.sweeps.metric_compatibility import metric_warnings
from tests.unit.conftest import LINES

MOSES = DataSpec(corpus="talks", tokenizer="moses", subword=Subword(kind="word", size=200))
PLAIN = MOSES.model_copy(update={"tokenizer": "none"})
CHINESE = ["我昨天在公园里和朋友聊天。", "这本书,非常有意思。", "我们明天早上去北京。", "他是老师。"]
ROW = """\
source: {{paper: demo, table: talks}}
data: {{corpus: talks, subword: {{kind: word, size: 200}}, tokenizer: none}}
model: {{d_model: 16, d_ff: 32, num_heads: 2, encoder: {{num_layers: 1}}, decoder: {{num_layers: 1}}}}
train: {{max_steps: 1, validate_every: 1, checkpoint_every: 1}}
decode: {{beam_size: 1, max_ratio: 0.1, max_extra: 2}}
score: {{{score}}}
rows: {{base: {{}}}}
"""


def test_what_lines_look_like(raw_lines, token_lines):
    assert expected_text.appearance(raw_lines).form == "raw" and expected_text.appearance(token_lines).form == "tokenised-escaped"
    plain = [line.replace("&apos;", "'").replace("&quot;", '"').replace("&amp;", "&") for line in token_lines]
    found = expected_text.appearance(plain)
    assert found.form == "tokenised" and str(found).startswith("looks tokenised (line 1: he said : ")
    assert expected_text.appearance(["no stop here"] * 50) is None and expected_text.appearance([]) is None
    assert expected_text.appearance(["Fish &amp; chips, please."] * 9).form == "raw", "an escape alone makes no tokens"
    assert expected_text.unspaced(CHINESE) and not expected_text.unspaced(raw_lines)
    assert not expected_text.unspaced([" ".join(x) for x in CHINESE])


@pytest.mark.parametrize("metric", ["sacrebleu", "mteval", "multi-bleu"])
@pytest.mark.parametrize("data", [PLAIN, MOSES])
def test_tokenised_references_are_said_where_they_do_harm(talks, token_lines, tmp_path, data, metric):
    score, said = ScoreSpec(metric=metric), data == MOSES or metric != "multi-bleu"
    undeclared = prepare(data, talks(token_lines), tmp_path / "cache")
    expected = ["corpus talks: references of test: looks tokenised and escaped (line 1: he"] if said else []
    assert [line[:73] for line in metric_warnings(undeclared, data, score)] == expected
    lower, moses = data.model_copy(update={"lowercase": True}), talks(token_lines, "tokenised-escaped", raw=LINES)
    assert metric_warnings(prepare(data, moses, tmp_path / "cache"), data, score) == []
    ready, said = prepare(lower, moses, tmp_path / "cache"), ["references of test have capitals"] * (metric != "multi-bleu")
    assert metric_warnings(ready, lower, ScoreSpec(metric=metric, lowercase=True)) == []
    assert [line[14:46] for line in metric_warnings(ready, lower, score)] == said


def test_raw_text_in_place_of_tokens_is_said(talks, raw_lines, tmp_path):
    """What an IWSLT folder with raw files in it would give: no tokenisation at all."""
    ready = prepare(MOSES, talks(raw_lines, "tokenised-escaped"), tmp_path / "cache")
    (line,) = metric_warnings(ready, MOSES, ScoreSpec(metric="multi-bleu"))
    assert "looks like running text, and its entry says text: tokenised-escaped; it is not tokenised" in line


@pytest.mark.parametrize(
    ("target", "score", "by"),
    [("ja", {"tokenize": "13a"}, "13a"), ("en", {}, "13a"), ("zh", {"metric": "multi-bleu"}, "multi-bleu"), ("zh", {}, None)],
)
def test_text_without_spaces_is_said(talks, tmp_path, target, score, by):
    ready = prepare(PLAIN, talks(CHINESE, target=target), tmp_path / "cache")
    found = metric_warnings(ready, PLAIN, ScoreSpec(**score))
    assert len(found) == (by is not None)
    if by is not None:
        assert f"hardly any spaces, by which {by} tells words; expected metric sacrebleu with tokenize:" in found[0]


def test_data_check_says_it(talks, raw_lines, token_lines, cli):
    data_dir = talks(token_lines, target="jp")
    code, _, err = cli("data", "check", "talks", "--data-dir", data_dir)
    assert code == 0 and "warning: talks: tgt: 'jp' is no language code of ISO 639 or BCP 47; did you mean ja?" in err
    for file in ("train.src", "test.tgt"):
        assert f"{file}: looks tokenised and escaped (line 1: " in err
    assert "and the entry says text: raw; data.tokenizer moses would tokenise it twice" in err
    data_dir = talks(token_lines, "tokenised-escaped", raw=raw_lines)
    declared = check(load_entry("talks"), data_dir).warnings
    assert not [line for line in declared if "looks" in line]
    talks(token_lines, "tokenised-escaped", raw=token_lines)
    swapped = check(load_entry("talks"), data_dir).warnings
    assert [line for line in swapped if "test.raw: looks tokenised and escaped" in line]
    (data_dir / "talks" / "test.raw").unlink()
    assert [line for line in check(load_entry("talks"), data_dir).warnings if "test.raw: no such file; detokenised figures of test" in line]


def test_a_run_and_its_table_say_it(talks, token_lines, tmp_path, cli):
    data_dir, file = talks(token_lines), tmp_path / "talks.yaml"
    file.write_text(ROW.format(score="metric: sacrebleu"))
    where = ["--results", tmp_path / "results", "--cache-dir", tmp_path / "cache", "--data-dir", data_dir]
    code, _, err = cli("run", file, *where, "--no-tracking")
    said = "corpus talks: references of test: looks tokenised and escaped (line 1: "
    assert code == 0 and err.count(f"warning: {said}") == 1, err
    code, out, _ = cli("table", file, "--format", "json", "--results", tmp_path / "results", "--cache-dir", tmp_path / "none")
    assert code == 0 and f"base: {said}" in out, "from the record; the corpus is not at hand"


def test_a_missing_mecab_is_said_before_training(talks, tmp_path, cli, monkeypatch):
    here = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "MeCab" else here(name, *rest))
    data_dir, file = talks(CHINESE, target="ja"), tmp_path / "talks.yaml"
    file.write_text(ROW.format(score=""))
    where = ["--results", tmp_path / "results", "--cache-dir", tmp_path / "cache", "--data-dir", data_dir, "--no-tracking"]
    code, _, err = cli("run", file, *where)
    lines = [line for line in err.splitlines() if "score.tokenize" in line]
    assert code == 2 and len(lines) == 1 and "demo/talks/base: score.tokenize: found ja-mecab, the default" in lines[0]
    assert not list((tmp_path / "results").glob("*/train.json"))
    assert cli("plan", file, "--data-dir", data_dir)[0] == 0, "what needs no MeCab goes on without"
    code, _, err = cli("run", file, *where, "--set", "score.tokenize=mecab")
    assert code == 2 and "score.tokenize: found 'mecab'; expected one of 13a, char, intl, ja-mecab, ko-mecab, none, zh" in err
    searched = "also: {words: {tokenize: ja-mecab}}\ntune: {space: {batch.size: {choice: [64, 99]}}}\nrows:"
    file.write_text(ROW.format(score="tokenize: char").replace("rows:", searched))
    code, _, err = cli("sweep", file, *where, "--engine", "local", "--tune")
    assert code == 2 and "found ja-mecab, which" in err and not list((tmp_path / "results").glob("*/train.json"))
