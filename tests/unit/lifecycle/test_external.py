"""Translations of other systems: added, compared, carried, refused."""

import json
import re
import shutil
from pathlib import Path

import pytest

import orchestrator.api as nmt
from orchestrator.data.prepare import prepare
from orchestrator.specs.rows import resolve

TABLE = """\
source: {paper: demo, table: small}
data: {corpus: toy-smoke, subword: {kind: word, size: 200}, vocab: {src: 200, tgt: 200}}
train: {max_steps: 4}
claims:
  - {row: good, effect: 20.0}
rows:
  base: {}
  good: {kind: external, compare_with: poor, note: made elsewhere}
  poor: {kind: external, label: poor system}
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def table(spec) -> Path:
    return spec(text=TABLE, name="mine.yaml")


@pytest.fixture
def references(table: Path, cache: Path) -> list[str]:
    (base, *_) = resolve(table)
    return prepare(base.spec.data, None, cache).reference_text("test")[0]


@pytest.fixture
def add(table: Path, cache: Path, cli, tmp_path):
    """`add(text, row, *options)`: `results add` of a file with this text."""

    def run(text: str | bytes, row: str, *options: object) -> tuple[int, str, str]:
        file = tmp_path / "system.txt"
        file.write_bytes(text.encode() if isinstance(text, str) else text)
        places = ("--results", tmp_path / "results", "--cache-dir", cache)
        return cli("results", "add", file, "--row", f"{table}#{row}", *places, *options)

    return run


def damaged(references: list[str], every: int, seed: int) -> list[str]:
    """The references, of which each `every`-th has its words turned round."""
    return [" ".join(line.split()[::-1]) if (i + seed) % every == 0 else line for i, line in enumerate(references)]


def text_of(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


@pytest.mark.slow
def test_two_seeds_have_an_interval_and_a_verdict_and_travel(add, cli, table: Path, cache: Path, references: list[str], tmp_path) -> None:
    for seed in (1, 2):
        assert add(text_of(damaged(references, 5 + seed, seed)), "good", "--seed", seed, "--system", "fairseq 0.12.2")[0] == 0
        code, out, _ = add(text_of(damaged(references, 2, seed)), "poor", "--seed", seed, "--json")
        assert code == 0 and json.loads(out)["status"] == "added" and json.loads(out)["signature"].startswith("BLEU|nrefs:1")
    assert cli("results", "import", tmp_path / "results", "--results", tmp_path / "new")[0] == 0
    assert cli("results", "export", tmp_path / "packed", "--results", tmp_path / "results")[0] == 0
    tables = []
    for results in ("results", "new", "packed"):  # without the corpus
        places = ("--results", tmp_path / results, "--cache-dir", tmp_path / "none")
        code, out, _ = cli("verdict", table, *places, "--json")
        (record,) = map(json.loads, out.splitlines())
        answer = record["effect"]["other_seeds_and_sentences"]
        assert code == 0 and record["against"] == "demo/small/poor" and record["effect"]["seeds"] == [2, 2]
        assert 0 < answer["low"] < record["effect"]["delta"] < answer["high"]
        tables.append(cli("table", table, *places, "--format", "md")[1])
    assert tables[0] == tables[1] == tables[2] and "external: fairseq 0.12.2 |" in tables[0] and "good: made elsewhere" in tables[0]
    assert "standard deviation" in tables[0] and "moderated" not in tables[0], "each system has its own variance"
    code, out, _ = cli("plan", table, "--results", tmp_path / "results", "--json")
    assert code == 0 and [row["id"] for row in json.loads(out)["rows"]] == ["demo/small/base"]
    kept = sorted(path.name for path in (tmp_path / "results").iterdir())
    assert cli("gc", "--results", tmp_path / "results", "--delete")[0] == 0
    assert sorted(path.name for path in (tmp_path / "results").iterdir()) == kept
    where = {"results": tmp_path / "results", "cache_dir": cache}
    compared = nmt.compare(f"{table}#good", f"{table}#poor", **where)
    assert (compared.delta, len(nmt.hypotheses(f"{table}#good", **where))) == (pytest.approx(record["effect"]["delta"]), 40)
    assert "good: found a row of kind external; expected one of kind run" in cli("translate", f"{table}#good")[2]
    code, _, err = cli("run", f"{table}#good", "--results", tmp_path / "results", "--no-tracking")
    assert code == 2 and "no row of kind run" in err


def test_other_translations_are_refused_until_the_earlier_ones_are_removed(add, references: list[str], tmp_path) -> None:
    first, second = (text_of(damaged(references, every, 1)) for every in (2, 3))
    assert add(first, "good", "--seed", 1)[0] == 0
    code, out, _ = add(first, "good", "--seed", 1, "--json")
    assert code == 0 and json.loads(out)["status"] == "known"
    assert add(first, "good", "--seed", 1, "--system", "fairseq 1")[0] == add(first, "good", "--seed", 1)[0] == 0
    assert '"system": "fairseq 1"' in next((tmp_path / "results").glob("*/train.json")).read_text(), "the last name that was given"
    code, _, err = add(second, "good", "--seed", 1)
    (run,) = (path for path in (tmp_path / "results").iterdir() if re.fullmatch("[0-9a-f]{16}", path.name))
    assert code == 2 and "demo/small/good seed 1 has other translations, of system.txt; remove " in err and run.name in err
    code, _, err = add(first, "good", "--seed", 2)
    assert code == 2 and "found the translations of seed 1 of demo/small/good; expected those of another training" in err
    shutil.rmtree(run)
    assert add(second, "good", "--seed", 1)[0] == 0 and next((run / "decode").glob("*.txt")).read_text() == second


def test_another_scoring_needs_the_file_again(add, cli, table: Path, references: list[str], tmp_path, cache: Path) -> None:
    text = text_of(damaged(references, 2, 1))
    assert add(text, "good", "--seed", 1)[0] == 0
    table.write_text(TABLE + "score: {lowercase: true}\n", encoding="utf-8")
    out = cli("table", table, "--results", tmp_path / "results", "--cache-dir", cache, "--format", "md")[1]
    assert "not scored this way: add the file again" in out
    code, out, _ = add(text, "good", "--seed", 1, "--json")
    assert code == 0 and json.loads(out)["status"] == "added" and "case:lc" in json.loads(out)["signature"]


@pytest.mark.parametrize(
    ("change", "options", "expected"),
    [
        (lambda lines: text_of(lines[1:]), ("--seed", 1), "found 39 translations; expected 40, as test set test has sentences"),
        (lambda lines: "", ("--seed", 1), "found no text"),
        (lambda lines: "\n" * len(lines), ("--seed", 1), "found no text"),
        (lambda lines: text_of(["wo@@ rd", *lines[1:]]), ("--seed", 1), "system.txt:1: found the subword mark '@@'"),
        (lambda lines: text_of([lines[0], "\u2581word", *lines[2:]]), ("--seed", 1), "system.txt:2: found the subword mark '\u2581'"),
        (lambda lines: text_of(lines).encode() + b"\xe4\n", ("--seed", 1), "line 41 is not UTF-8"),
    ],
)
def test_files_that_are_refused(change, options: tuple, expected: str, add, references: list[str], tmp_path) -> None:
    code, _, err = add(change(references), "good", *options)
    assert code == 2 and expected in err and err.count("\n") == 1
    assert not any((tmp_path / "results").glob("*/train.json"))


def test_rows_that_are_refused(add, references: list[str], cli, table: Path, cache: Path) -> None:
    source = prepare(resolve(table)[0].spec.data, None, cache).sources("test")
    assert "system.txt: is the source text of test set test" in add(text_of(source), "poor", "--seed", 1)[2]
    assert "system.txt: looks tokenised (line 1: " in add(text_of([f"{line} , no ." for line in references]), "poor", "--seed", 2)[2]
    code, _, err = add(text_of(references), "base", "--seed", 1)
    assert code == 2 and "mine.yaml:7: demo/small/base: found a row of kind run; expected one of kind external" in err
    table.write_text(TABLE.replace("label: poor system", "model: {d_ff: 8}"), encoding="utf-8")
    assert "found in a row of kind external" in cli("show", table)[2]
    table.write_text(TABLE + "  child: {init_from: poor}\n", encoding="utf-8")
    assert "a row of kind external; expected one of kind run" in cli("show", table)[2]
