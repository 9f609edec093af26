"""Claims of a table's file: what is read, and one line for each mistake."""

import pytest

from orchestrator.errors import UserError
from orchestrator.ledger.sweep_files import SweepFile, recorded_claims, with_claims
from orchestrator.specs import claims
from orchestrator.specs.index import find
from orchestrator.specs.rows import resolve
from tests.unit.conftest import refused

ROWS = """\
  base: {}
  fused: {model: {d_ff: 48}}
claims:
"""


def test_claims_are_read_with_the_addresses_of_their_rows(spec) -> None:
    stated = "  - {row: fused, effect: 0.8, seeds: 5}\n  - {row: fused, against: base, metric: nll, effect: 0, margin: 0.1}\n"
    path = spec(ROWS + stated)
    resolve(path)
    table = find(str(path)).table
    first, second = claims.of_table(table.address, table.head.claims)
    assert (first.row, first.against, first.effect, first.seeds, first.metric) == ("demo/small/fused", None, 0.8, 5, None)
    assert (second.against, second.metric, second.margin, second.seeds) == ("demo/small/base", "nll", 0.1, 2)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("  - {row: fusd, effect: 1}\n", "claims[0].row: found 'fusd': no such row; expected one of base, fused; did you mean fused?"),
        ("  - {row: fused, against: bas, effect: 1}\n", "no such row; expected one of base, fused; did you mean base?"),
        ("  - {effect: 1}\n", "row"),
        ("  - {row: fused, effect: 0}\n", "margin is missing; expected one, because effect is 0"),
        ("  - {row: fused, margin: 0.3}\n", "effect is missing; expected one, because there is a margin"),
        ("  - {row: fused, against: fused, effect: 1}\n", "the row itself"),
        ("  - {row: fused, effect: 1, seeds: 1}\n", "seeds"),
        ("  - {row: fused, effect: 1, metric: blue}\n", "bleu"),
        ("  - {row: fused, effect: 1, margins: 2}\n", "margin"),
        ("  [{row: fused, effect: 1}, {row: fused, effect: -1}]\n", "another claim on fused"),
    ],
)
def test_mistakes_are_named(spec, text: str, words: str) -> None:
    said = "\n".join(refused(resolve, spec(ROWS + text)))
    assert words in said and "spec.yaml:9" in said


def test_a_control_row_that_the_table_does_not_have(spec) -> None:
    with pytest.raises(UserError, match=r"spec.yaml:10: control_rows\[1\]: found 'bas': no such row; .*did you mean base"):
        resolve(spec(f"{ROWS}  []\ncontrol_rows: [base, bas]\n"))


def test_a_sweeps_file_keeps_every_version_of_a_claim(tmp_path) -> None:
    one, other = ({"table": "demo/small", "file_sha256": "a", "claims": [{"row": "fused", "effect": effect}]} for effect in (0.8, 0.2))
    first = with_claims([], [one], 10.0)
    assert with_claims(first, [one], 20.0) == first, "the first time counts"
    both = with_claims(first, [other], 30.0)
    assert [entry["recorded"] for entry in both] == [10.0, 30.0]
    SweepFile.of(tmp_path, "a").write({"rows": [], "claims": both})
    (tmp_path / "sweeps" / "b.json").write_text("{")
    found = recorded_claims([tmp_path], "demo/small")
    assert [(each["recorded"], each["claim"]["effect"]) for each in found] == [(10.0, 0.8), (30.0, 0.2)]
    assert recorded_claims([tmp_path], "demo/other") == []


def test_a_claim_without_changes_is_recorded_as_before() -> None:
    assert list(claims.Claim(row="a", effect=1.0).model_dump(mode="json")) == ["row", "effect", "against", "metric", "margin", "seeds"]
