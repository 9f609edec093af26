"""One family, one verdict: the shipped results have the same interval, p and word from every command and option."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from orchestrator.api import compare

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
ROOT = Path(__file__).parents[2]
LOOKS = ROOT / "docs" / "results" / "ledger" / "looks.json"
SHIPPED = re.findall(r"^TABLES := (.*) \$", (ROOT / "Makefile").read_text(), re.MULTILINE)[0].split()


def said(record: dict[str, Any], verdict: dict[str, Any]) -> tuple[Any, ...]:
    answer = (record["effect"] or {}).get("other_seeds_and_sentences") or {}
    return verdict["word"], verdict["p"], verdict["look"], verdict["level"], answer.get("low"), answer.get("high")


@pytest.mark.parametrize("table", SHIPPED)
def test_every_command_says_the_same(table: str, cli: Any, tmp_path: Path) -> None:
    places = ("--profile", "mini", "--results", ROOT / "docs" / "results" / "ledger", "--cache-dir", tmp_path)
    before = LOOKS.read_bytes()
    out = cli("verdict", table, *places, "--controls", "params,flops", "--json")[1]
    records = [json.loads(line) for line in out.splitlines()]
    by_claim = {(each["row"], each["metric"]): said(each, {**each, "word": each["verdict"]}) for each in records if each["effect"]}
    rows = json.loads(cli("table", table, *places, "--format", "json")[1])["rows"]
    ours = {row["id"]: row["ours"] or {} for row in rows}
    usual = [each for each in records if each["source"] == "paper" and each["effect"]]
    for each in usual:
        of = ours[each["row"]]
        found = of if each["stated"] else of["nll"]
        assert said(found, found["verdict"]) == by_claim[each["row"], each["metric"]], each["row"]
    if usual:
        name = usual[0]["row"]
        alone = cli("verdict", f"{table}/{name.split('/', 2)[2]}", *places, "--json")[1]
        (one,) = [each for each in map(json.loads, alone.splitlines()) if each["source"] == "paper" and each["stated"]]
        assert said(one, {**one, "word": one["verdict"]}) == by_claim[name, one["metric"]], "one row of the table"
        asked = compare(name, usual[0]["against"], profile="mini", results=places[3], cache_dir=tmp_path)
        assert (asked.verdict, asked.p, asked.low, asked.high) == (one["verdict"], one["p"], *by_claim[name, one["metric"]][4:])
    assert LOOKS.read_bytes() == before, "the shipped looks are only read"
