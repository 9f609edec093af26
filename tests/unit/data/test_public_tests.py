"""Test sets of sacreBLEU for rows of any corpus in their languages: `score.test: wmt14/full`, from a stand-in for its server."""

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from sacrebleu import dataset, utils
from sacrebleu.dataset import DATASETS, base
from sacrebleu.dataset.plain_text import PlainTextDataset

from orchestrator.data.prepare import manifest, prepare
from orchestrator.errors import UserError
from orchestrator.ledger.keys import keys_of, split_key, training_key
from orchestrator.specs.rows import resolve
from tests.unit.data.conftest import sentences
from tests.unit.data.hub_server import TextServer, serving

TEXT = {"de": "".join(f"ein Satz {i}\n" for i in range(5)), "en": "".join(f"a sentence {i}\n" for i in range(5))}
RUN = ["run", "mine.yaml#a", "--engine", "local", "--no-tracking", "--results", "results", "--cache-dir", "cache"]


@pytest.fixture
def public(tmp_path, monkeypatch, cli) -> Iterator[tuple[Path, TextServer]]:
    """sacreBLEU's folder of the set `news/full` (de-en), which is downloaded once, and a table of a corpus `speeches` that names it."""
    monkeypatch.chdir(tmp_path)
    for module in (base, utils):
        monkeypatch.setattr(module, "SACREBLEU_DIR", str(tmp_path / "sacrebleu"))
    for split, start, count in (("train", 0, 60), ("valid", 60, 6), ("test", 66, 6)):
        for side, make in (("de", str), ("en", str.upper)):
            Path(f"{split}.{side}").write_text("".join(make(line) + "\n" for line in sentences(count, start)), encoding="utf-8")
    files = [word for split in ("train", "valid", "test") for word in (f"--{split}", f"{split}.de", f"{split}.en")]
    assert cli("data", "add", "--src-lang", "de", "--tgt-lang", "eng", *files, "speeches")[0] == 0, "the name may stand last"
    Path("mine.yaml").write_text(
        "extends: search_spaces/quickstart.yaml\nsource: {paper: mine, table: news}\n"
        "data: {corpus: speeches, subword: {size: 100}}\nscore: {test: news/full}\ntrain: {max_steps: 2}\nrows:\n  a: {}\n"
    )
    with serving(TextServer(lambda path: TEXT[path.rpartition(".")[2]].encode())) as server:
        urls = [f"{server.url}/news.{side}" for side in ("de", "en")]
        sums = [hashlib.md5(TEXT[side].encode()).hexdigest() for side in ("de", "en")]
        text = {"de-en": ["news_full.news.de", "news_full.news.en"]}
        monkeypatch.setitem(dataset.DATASETS, "news/full", PlainTextDataset("news/full", data=urls, md5=sums, langpairs=text))
        yield tmp_path / "sacrebleu" / "news" / "full", server


def test_a_row_is_scored_on_it(public, cli) -> None:
    row = resolve("mine.yaml#a")[0]
    assert row.spec is not None and public[1].asked == 0, "a table is read without a download"
    prepared = prepare(row.spec.data, None, Path("cache"))
    assert prepared.sources("news/full") == TEXT["de"].splitlines() and prepared.reference_text("news/full") == [TEXT["en"].splitlines()]
    pairs = prepared.pairs("news/full")
    assert [pairs[i][0] for i in range(5)] == prepared.encode(TEXT["de"].splitlines()) and len(pairs) == 5
    ids = [i for line in prepared.encode(TEXT["en"].splitlines(), "tgt") for i in line]
    assert prepared.unknown("news/full")[1] == ids.count(1) / len(ids) > 0
    assert public[1].asked == 2
    err = cli("data", "prepare", "mine.yaml#a", "--cache-dir", "cache")[2]
    assert "speeches news/full: 0.00% of the source's and" not in err and "speeches news/full: " in err
    _, out, err = cli(*RUN, "--json")
    assert '"status":"done"' in out and public[1].asked == 2, err
    with pytest.raises(UserError, match="the prepared corpus has no split 'new'; it has train, valid, test"):
        prepared.sources("new")


@pytest.mark.usefixtures("public")
def test_it_is_in_the_keys_of_decoding_and_score_alone(monkeypatch) -> None:
    spec = resolve("mine.yaml#a")[0].spec
    found = manifest(spec.data, None)
    scores = [spec.score.model_copy(update={"test": test}) for test in ("test", "news/full")]
    keys = [keys_of(spec.model_copy(update={"score": score}), found, None) for score in scores]
    assert keys[0].train == keys[1].train and keys[0].decode != keys[1].decode and keys[0].score != keys[1].score
    before = split_key(found, "news/full")
    monkeypatch.setattr(DATASETS["news/full"], "md5", ["0" * 32, "1" * 32])
    assert split_key(found, "news/full") != before and training_key(found) == training_key(manifest(spec.data, None) or {})


def test_text_that_is_not_sacrebleus_is_refused(public, cli) -> None:
    spec = resolve("mine.yaml#a")[0].spec
    prepared = prepare(spec.data, None, Path("cache"))
    prepared.sources("news/full")
    archive = public[0] / "raw" / "news_full.news.en"
    archive.write_text("another\n" * 5)
    with pytest.raises(UserError, match=r"raw/news_full.news.en: found MD5 \w+; expected \w+; remove \S+/news/full, then it is downloaded"):
        prepare(spec.data, None, Path("cache")).sources("news/full")
    code, _, err = cli(*RUN)
    assert code == 2 and "expected" in err and not list(Path("results").glob("*/train.json")), err
    shutil.rmtree(public[0])
    assert prepare(spec.data, None, Path("cache")).sources("news/full") == TEXT["de"].splitlines()


@pytest.mark.usefixtures("public")
def test_what_is_refused() -> None:
    table = Path("mine.yaml").read_text()
    for old, new, expected in (
        ("news/full", "news/ful", "mine.yaml:4: score.test: found 'news/ful'; expected one of .*; did you mean news/full?"),
        ("news/full", "wmt24", "mine.yaml:4: score.test: found wmt24, which sacreBLEU has in .*; expected de-en, or .*valid, test"),
        ("speeches", "iwslt14-de-en", "score.test: found news/full, .* for tokens; expected one of valid, test"),
    ):
        Path("mine.yaml").write_text(table.replace(old, new))
        with pytest.raises(UserError, match=expected):
            resolve("mine.yaml#a")
