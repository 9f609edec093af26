"""The page on a corpus, and its filtered copy: every rule finds its pairs and no others, and rules are part of the key."""

import json
import re
from pathlib import Path

import pytest

from orchestrator.data import own_corpus
from orchestrator.data.oddities import Watch
from orchestrator.data.prepare import manifest
from orchestrator.data.rules import Filter
from orchestrator.data.text import CorpusText
from orchestrator.ledger.keys import training_key
from orchestrator.specs.corpora import Rules, load_entry
from orchestrator.specs.schema import DataSpec
from tests.unit.data.test_oddities import WORDS, Pairs, pairs  # noqa: F401

BAD = {
    "max_ratio": ("ein hund läuft über die straße und sieht einen ball t1.", "a dog."),
    "max_characters": (" ".join(WORDS["a"] * 12) + " t2.", " ".join(WORDS["b"] * 12) + " t2."),
    "copies": ("der hund t3.", "der hund t3."),
    "other_language": ("der hund läuft über die straße t5.", "einen großen ball sieht der hund t5."),
}
FAULTS = (*BAD, "duplicates", "leaks")
VALUES = {"max_ratio": "=3.5", "max_characters": "=400"}


@pytest.fixture
def noisy(pairs: Pairs, tmp_path, monkeypatch, cli) -> Pairs:  # noqa: F811
    """The corpus `noisy`: 300 sound training pairs, then one of each fault, a repeated pair, and a test source but for its case."""
    monkeypatch.chdir(tmp_path)
    leak = pairs["test"][0][0].upper().replace(".", "!"), "a dog runs over the street and sees a ball."
    whole = pairs | {"train": [*pairs["train"], *BAD.values(), pairs["train"][7], (leak[0], leak[1] + " " * 3)]}
    whole["test"][0] = whole["test"][0][0].replace(" ", "\u2028", 1), whole["test"][0][1]
    for split, rows in whole.items():
        for side, lines in zip(("de", "en"), zip(*rows, strict=True), strict=True):
            Path(f"{split}.{side}").write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    files = [word for split in whole for word in (f"--{split}", f"{split}.de", f"{split}.en")]
    assert cli("data", "add", "noisy", "--src-lang", "de", "--tgt-lang", "en", *files)[0] == 0
    return whole


@pytest.mark.parametrize("rule", FAULTS)
def test_a_rule_removes_its_pairs_alone(noisy: Pairs, rule: str, cli) -> None:
    code, _, err = cli("data", "clean", "noisy", "--to", "clean", "--rule", rule + VALUES.get(rule, ""))
    assert code == 0 and f"clean: pairs removed: 1 by {rule}\n" in err, err
    kept = [pair for number, pair in enumerate(noisy["train"]) if number != 300 + FAULTS.index(rule)]
    entry = load_entry("clean")
    text = CorpusText(entry, None)
    assert list(text.rows("train")) == kept and list(text.rows("test")) == noisy["test"]
    assert entry.cleaned is not None and list(entry.cleaned.model_dump(exclude_defaults=True)) == [rule]
    first = "# noisy without the training pairs that `cleaned` names, by nmt-ablate data clean.\n"
    assert Path("search_spaces/data/clean.yaml").read_text().startswith(first)


@pytest.mark.usefixtures("noisy")
def test_the_rules_are_in_the_key(cli) -> None:
    for name, option in (("a", ["copies"]), ("b", ["copies"]), ("c", ["copies", "max_characters=5000"])):
        assert cli("data", "clean", "noisy", "--to", name, *(f"--rule={each}" for each in option))[0] == 0
    found = {name: manifest(DataSpec(corpus=name), None) or {} for name in ("a", "b", "c", "noisy")}
    assert found["a"]["text"] == found["c"]["text"] and found["a"]["cleaned"] == {"copies": True} and "cleaned" not in found["noisy"]
    files = {split: [Path(f"{split}.de"), Path(f"{split}.en")] for split in ("train", "valid", "test")}
    own_corpus.add("raw", "de", "en", files, {"test": [Path("test.en")]}, text="tokenised")
    assert load_entry("raw").raw_references("test", None) == [Path("test.en").resolve()]
    assert training_key(found["a"]) == training_key(found["b"]) != training_key(found["c"])


@pytest.mark.usefixtures("noisy")
def test_the_page_has_every_fault(cli) -> None:
    code, _, err = cli("data", "report", "noisy", "--cache-dir", "cache", "--to", "page.html")
    assert code == 0 and "written: page.html" in err, err
    page = Path("page.html").read_text(encoding="utf-8")
    for rule in FAULTS:
        row = re.search(f'<tr><td><a href="#{rule}">.*</tr>', page)
        assert row and re.findall(r'number">(.*?)<', row[0])[0] == "1" and f'<h3 id="{rule}">' in page, rule
    assert "<td>einen großen ball sieht der hund t5.</td>" in page and "line 304" in page and "<td>0 + 1</td>" in page
    assert "1 sources of test (1.7%) are in train too up to punctuation and case" in page
    charts = [json.loads(spec) for spec in re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.DOTALL)]
    assert [chart["encoding"]["x"]["title"].split()[0] for chart in charts] == ["characters", "characters", "target"]
    shares = [sum(point["y"] for point in chart["data"]["values"] if point["split"] == "test") for chart in charts]
    assert all(97 <= share <= 100.1 for share in shares), shares


@pytest.mark.usefixtures("noisy")
def test_what_is_refused(cli) -> None:
    for call, expected in (
        (["clean", "noisy", "--to", "x"], "Missing option '--rule'"),
        (["clean", "noisy", "--to", "x", "--rule", "max_ratio=0.5"], "--rule:1: max_ratio: found 0.5; expected "),
        (["clean", "noisy", "--to", "x", "--rule", "leaks", "--rule", "copy"], "--rule:2: copy: unknown key; expected one of "),
        (["clean", "noisy", "--to", "x/y", "--rule", "copies"], "x/y: no name of a corpus; "),
        (["clean", "noisy", "--to", "multi30k-de-en", "--rule", "copies"], "the name of a corpus of the product; expected another"),
        (["clean", "noisy", "--to", "noisy", "--rule", "copies"], "is there already, with other content; expected another name"),
        (["clean", "nosy", "--to", "x", "--rule", "copies"], "unknown corpus 'nosy'; "),
        (["clean", "noisy", "--to", "x", "--rule", "max_characters=1"], "noisy without what the rules leave out: found no pairs"),
        (["clean", "toy-smoke", "--to", "x", "--rule", "copies"], "toy-smoke: found a generated corpus; expected sentence pairs in files"),
        (["report", "nosy"], "unknown corpus 'nosy'; "),
        (["report", "noisy", "--to", "train.de/x.html"], "--to"),
    ):
        before = sorted(Path("search_spaces").rglob("*.*"))
        code, _, err = cli("data", *call)
        assert code == 2 and expected in err and err.count("\n") == 1, (call, err)
        assert sorted(Path("search_spaces").rglob("*.*")) == before, "nothing is left of what was begun"


@pytest.mark.usefixtures("noisy")
def test_a_script_that_no_side_has_is_another_language() -> None:
    rules = Filter(Rules(other_language=True), Watch(CorpusText(load_entry("noisy"), None), ["valid", "test"]))
    assert list(rules.faults(("der hund läuft t4.", "собака бежит по улице t4."))) == ["other_language"]
    assert not rules.faults(("der hund läuft t4.", "1234567890 1234567890 ..."))
