"""A corpus and a table of one's own, in a working folder outside of the checkout."""

from pathlib import Path

import pytest

from orchestrator.data import own_corpus
from orchestrator.data.prepare import manifest
from orchestrator.errors import UserError
from orchestrator.paths import SEARCH_SPACES
from orchestrator.specs import index
from orchestrator.specs.corpora import load_entry
from orchestrator.specs.rows import resolve
from tests.unit.conftest import refused

LINES = {"ja": "これは {} 番目の文です。", "en": "This is sentence number {}."}
SIZES = {"train": 40, "valid": 5, "test": 6}


@pytest.fixture
def texts(tmp_path, monkeypatch) -> dict[str, list[Path]]:
    """Parallel files with names as people have them, below the working folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my texts").mkdir()
    found: dict[str, list[Path]] = {}
    for split, size in SIZES.items():
        for language, line in LINES.items():
            path = tmp_path / "my texts" / f"{split} ({language})"
            path.write_text("".join(line.format(f"{split} {i}") + "\n" for i in range(size)), encoding="utf-8")
            found.setdefault(split, []).append(path)
    return found


def test_added_files_train_without_a_data_directory(texts: dict[str, list[Path]], tmp_path, capsys) -> None:
    path, report = own_corpus.add("talks", "ja", "en", texts)
    assert path == tmp_path / "search_spaces" / "data" / "talks.yaml" and {n: s["pairs"] for n, s in report.splits.items()} == SIZES
    assert own_corpus.add("talks", "ja", "en", texts)[0] == path, "the same call again changes nothing"
    table = own_corpus.write_table("mine/first", "talks", None)
    assert "joint: false" in table.read_text() and "sacreBLEU's 13a" in table.read_text()
    rows = resolve("mine/first")
    assert [row.id for row in rows] == ["mine/first/baseline", "mine/first/linear", "mine/first/hierarchical"]
    found = manifest(rows[0].spec.data, None)
    assert found is not None and found["languages"] == ["ja", "en"]
    assert resolve("dou2018/table1/row5", profile="mini", sets=["data.corpus=talks"])[0].spec.data.corpus == "talks"
    table.write_text(table.read_text().replace("# claims", "claims").replace("#   - {row", "  - {row"))
    assert [claim.row for claim in index.find("mine/first").table.head.claims] == ["linear"], "the example of a claim"
    assert not capsys.readouterr().err and resolve("mine/first", profile="smoke")
    assert "found talks; the profile trains on toy-smoke instead; --set data.corpus=talks keeps it" in capsys.readouterr().err


def test_what_add_refuses(texts: dict[str, list[Path]], tmp_path) -> None:
    lines = refused(own_corpus.add, "multi30k-de-en", "jp", "en", texts)
    assert lines[0].startswith("--src-lang: 'jp' is no language code of ISO 639 or BCP 47; did you mean ja?")
    assert "a corpus of the product" in lines[1]
    own_corpus.add("talks", "ja", "en", texts)
    with pytest.raises(UserError, match="is there already, with other content"):
        own_corpus.add("talks", "en", "ja", texts)
    copied = {split: [path.rename(path.with_name(f"{path.name} copy")) for path in pair] for split, pair in texts.items()}
    assert own_corpus.add("talks", "ja", "en", copied)[1].problems == []
    assert load_entry("talks").splits["test"].src == str(copied["test"][0])
    texts = copied
    own_corpus.write_table("mine/first", "talks", None)
    with pytest.raises(UserError, match="is there already; expected another address"):
        own_corpus.write_table("mine/first", "talks", None)
    for taken in ("Dou2018/table1", "quickstart/fusion", "data/first"):
        with pytest.raises(UserError, match=f"{taken}: is taken"):
            own_corpus.write_table(taken, "talks", None)
    odd = texts | {"test": [tmp_path / "a\nb", tmp_path / "b"]}
    assert r"a\nb: found a path with unprintable characters" in refused(own_corpus.add, "odd", "ja", "en", odd)[0]
    texts["test"][0].unlink()
    assert load_entry("talks").missing_message(["test"], None) == f"corpus talks: no such file: {texts['test'][0]}[.gz]"


def test_pairs_given_again_are_joined(texts: dict[str, list[Path]], tmp_path, cli) -> None:
    (tmp_path / "more.ja").write_text("猫\n犬", encoding="utf-8")
    (tmp_path / "more.en").write_text("cat\r\ndog\r\n", encoding="utf-8")
    files = [argument for split, (src, tgt) in texts.items() for argument in (f"--{split}", str(src), str(tgt))]
    call = ["data", "add", "talks", "--src-lang", "ja", "--tgt-lang", "en", *files]
    more = ["--train", str(tmp_path / "more.ja"), str(tmp_path / "more.en")]
    for _ in range(2):
        code, _, err = cli(*call, *more)
        assert code == 0 and "train: written to search_spaces/data/joined/" in err, err
    split = load_entry("talks").splits["train"]
    for file, given, last in zip(split.files, texts["train"], ("猫\n犬\n", "cat\ndog\n"), strict=True):
        assert Path(file).read_text(encoding="utf-8") == given.read_text(encoding="utf-8") + last
    assert split.pairs == SIZES["train"] + 2 and load_entry("talks").splits["valid"].files == [str(path) for path in texts["valid"]]


def test_a_bad_pair_among_several_and_a_second_test_set_are_refused(texts: dict[str, list[Path]], tmp_path, cli) -> None:
    files = {split: [f"--{split}", *map(str, pair)] for split, pair in texts.items()}
    call = ["data", "add", "talks", "--src-lang", "ja", "--tgt-lang", "en", *files["train"], *files["valid"], *files["test"]]
    crossed = ["--train", str(texts["valid"][0]), str(texts["test"][1])]
    for more, said in (
        (crossed, "must have the same number"),
        (["--train", "nothing", "none"], "nothing[.gz]: no such file"),
        (files["test"], "--test: found twice; expected one value"),
        (files["valid"] + ["--src-lang", "en"], "--src-lang: found twice"),
    ):
        code, _, err = cli(*call, *more)
        assert code == 2 and said in err and err.count("\n") == 1, err
    assert cli(*call[:2], "multi30k-de-en", *call[3:], *files["train"])[0] == 2 and not list(tmp_path.glob("search_spaces/data/joined/*"))


def test_an_address_finds_tables_of_the_working_folder(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("fusion.yaml").write_text(
        "extends: search_spaces/quickstart.yaml\nsource: {paper: mine, table: fusion}\nrows: {a: {}, b: {init_from: a}}\n"
    )
    Path("compose.yaml").write_text("services: {web: {image: x}}\n")
    assert index.find("mine/fusion/b").row == "b" and "mine/fusion" in index.tables()[0]
    assert [row.spec.data.corpus for row in resolve("mine/fusion") if row.spec is not None] == ["toy-quickstart"] * 2
    with pytest.raises(UserError, match=r"no such table .*; did you mean mine/fusion"):
        index.find("mine/fusio/a")
    Path("search_spaces/mine").mkdir(parents=True)
    Path("search_spaces/mine/typo.yaml").write_text("source: {paper: mine, tabel: typo}\nrows: {a: {}}\n")
    assert "typo.yaml:1: source.tabel: unknown key; expected one of paper, table" in "\n".join(refused(index.find, "mine/typo/a"))


def test_files_of_the_product_and_those_that_are_missing(tmp_path, monkeypatch, cli) -> None:
    monkeypatch.chdir(tmp_path)
    own, head = Path("search_spaces/mine"), "source: {paper: mine, table: first}\nrows: {a: {}}\n"
    own.mkdir(parents=True)
    (own / "first.yaml").write_text("extends: ../quickstart.yaml\n" + head)
    (own / "bare.yaml").write_text("extends: quickstart.yaml\n" + head.replace("first", "bare"))
    (own / "tab.yaml").write_text("rows:\n\ta: {}\n")
    assert cli("plan", "mine/first", "--tune-with", "search_spaces/tune/mini.yaml")[0] == 0
    assert len(index.find("search_spaces/quickstart.yaml").table.rows) == 4
    place = f"no such file in search_spaces/tune or {SEARCH_SPACES}/tune; expected one of "
    for arguments, said in (
        (("plan", "mine/first", "--tune-with", "search_spaces/tune/min.yaml"), place),
        (("plan", "mine/bare"), "did you mean ../quickstart.yaml?"),
        (("plan", "mine/tab"), "error: search_spaces/mine/tab.yaml:2: found a tab; expected spaces"),
        (("run", "mine/first/a", "train.max_steps=9"), "did you mean --set train.max_steps=9?"),
        (("plan", "mine/first/a", "train.max_steps=9"), "did you mean --set train.max_steps=9?"),
        (("plan", "mine/first/a", "--set", "lr=9"), "did you mean optim.schedule.lr?"),
    ):
        code, _, err = cli(*arguments)
        assert code == 2 and said in err and err.count("error:") == 1, err
