"""Tables of results in every format."""

import json
from dataclasses import replace

import pytest

from orchestrator.ledger.results import Ledger
from orchestrator.ledger.run_lock import RunLock
from orchestrator.ledger.sweep_files import SweepFile
from orchestrator.report.find import Finder
from orchestrator.report.formats import FORMATS, several
from orchestrator.report.table import Table, make
from orchestrator.specs.claims import Claim
from orchestrator.specs.rows import resolve
from orchestrator.sweeps.plan import Data, keys_for
from tests.unit.report.support import write_run

ROWS = (
    "  base: {label: Baseline, expect: {bleu: 27.64, params: 88.0M}}\n"
    "  fused: {label: 'a|b <script> & 100% $x_1', model: {d_ff: 48}, expect: {bleu: 28.09, delta: 0.45}}\n"
    "  cut: {model: {d_ff: 56}, expect: {bleu: 28}}\n"
    "  never: {model: {d_ff: 64}}\n"
    "  theirs: {kind: quoted, expect: {bleu: 20.73}}\n"
)


@pytest.fixture
def table(spec, tmp_path) -> Table:
    rows, ledger = resolve(spec(ROWS)), Ledger(tmp_path / "r")
    for name, seed, bleu in (("base", 1, 30.0), ("base", 2, 32.0), ("fused", 1, 33.5), ("fused", 2, None), ("cut", 1, None)):
        row = next(row for row in rows if row.id.endswith(f"/{name}"))
        write_run(ledger, row.at(seed), bleu=bleu, params=int(1000 + (bleu or 0)))
    return make("demo/small", rows, Finder(ledger, Data(None)), ["params", "bleu"])


@pytest.mark.parametrize("form", [*FORMATS, "json"])
def test_formats_say_what_did_not_run(table: Table, form: str) -> None:
    text = several([table], form)
    assert "27.64" in text and "31.0" in text
    if form != "json":
        assert "not run" in text and "stopped at step 4" in text and "quoted" in text


def test_markdown_is_one_table(table: Table) -> None:
    lines = [line for line in FORMATS["md"](table).splitlines() if line.startswith("|")]
    assert len(lines) == 2 + 5 and len({line.replace("\\|", "").count("|") for line in lines}) == 1
    assert r"a\|b \<script\> & 100% $x\_1" in lines[3]


def test_latex_is_escaped(table: Table) -> None:
    text = FORMATS["latex"](table)
    assert r"a\textbar{}b \textless{}script\textgreater{} \& 100\% \$x\_1" in text
    body = [line for line in text.splitlines() if line.endswith(r"\\")]
    top, *rest = (line.replace(r"\&", "") for line in body)
    assert len({line.count("&") for line in rest}) == 1
    assert top.count(r"\multicolumn{2}{c}") == 3, "params, BLEU and delta, the paper's and ours"
    assert r"\textbf{33.50}" in text and r"\label{tab:demo-small}" in text


def test_the_best_score_of_ours_is_bold_and_the_unit_stands_in_the_head(table: Table) -> None:
    md = FORMATS["md"](table)
    assert "| **33.50** " in md and md.count("**") == 2 * 2
    assert all("bold: the highest of ours" in text for text in (md, FORMATS["latex"](table)))
    assert "params (paper)" in md, "ours are below 100,000: the unit stays in the cells"
    for place, line in enumerate(table.rows):
        if line.ours and line.ours.params:
            table.rows[place] = replace(line, ours=replace(line.ours, params=line.ours.params * 1000 * (1 + place)))
    md, latex = FORMATS["md"](table), FORMATS["latex"](table)
    assert "params, M (paper)" in md and "params, M (ours)" in md and "| 88.0 " in md and "88.0M" not in md
    assert r"\multicolumn{2}{c}{params, M}" in latex and "88.0M" not in latex
    table.rows[0] = replace(table.rows[0], ours=replace(table.rows[0].ours, data="other"))
    assert FORMATS["md"](table).count("**") == 2 and "bold" not in FORMATS["md"](table), "rows of two corpora have no best"


def test_looking_changes_nothing(spec, tmp_path, cli) -> None:
    rows = "  base: {expect: {params: 9.9M, bleu: 27.64}}\n  wide: {model: {d_ff: 48}, expect: {params_added: +0.0M, bleu: 28.1}}\n"
    call = "table", spec(rows), "--results", tmp_path / "results", "--cache-dir", tmp_path / "cache"
    code, out, _ = cli(*call)
    assert code == 0 and out.count("not run") == 2 and "**demo/small**" in out
    assert "base: params reported as 9.9M, counted" in out and "wide: params" not in out
    out = cli(*call, "--set", "model.d_ff=64")[1]
    assert "counted" not in out and "--set model.d\\_ff=64; not comparable" in out, "scaled, it is not held to the paper's counts"
    assert not (tmp_path / "results").exists() and not (tmp_path / "cache").exists()
    assert cli(*call, "--baseline", "demo/small/wide")[0] == cli(*call, "--baseline", "wide")[0] == 0


def test_notes_on_recorded_claims_and_on_seeds(spec, tmp_path, cli) -> None:
    file = spec("  base: {}\n  fused: {model: {d_ff: 48}}\nclaims: [{row: fused, effect: 1}]\n")
    (base, fused), ledger = resolve(file), Ledger(tmp_path / "r")
    same, pairs = {"weights_sha256": "w"}, [{"text": {"pairs": {"train": n, "valid": 9}}} for n in (1, 2)]
    for row, seed, more in ((base, 1, same), (base, 2, same), (base, 3, {}), (fused, 1, same | pairs[0]), (fused, 2, pairs[1])):
        write_run(ledger, row.at(seed), bleu=30.0 + seed, params=seed if row is fused else 7)
        key = str(keys_for(row.at(seed), Data(None)).train)
        ledger.write_train(key, (ledger.read_train(key) or {}) | more)
    lost = [row.at(4) for row in (base, fused)]
    swept = [{"id": r.id, "seed": 4, "spec": r.run_spec.model_dump(), "keys": keys_for(r, Data(None)).as_dict()} for r in lost]
    recorded = [Claim(row="fused", effect=effect).model_dump(mode="json") for effect in (1, 3)]
    sweep = SweepFile.of(ledger.root, "s")
    sweep.write({"rows": swept[:1], "earlier": swept[1:], "claims": [{"recorded": 1, "table": "demo/small", "claims": recorded}] * 2})
    expected = [
        "a sweep recorded a claim that the file no longer has: fused, effect 3.0, seeds 2",
        "base: seed 2 has the weights of seed 1 and does not count",
        "seeds of fused have different numbers of parameters: 1, 2",
        "seeds of fused have different numbers of training pairs: 1, 2",
        "asked for by a sweep, without a result: base 4, fused 4",
    ]
    made = json.loads(cli("table", file, "--results", ledger.root, "--format", "json")[1])
    assert made["notes"][-5:] == expected and made["rows"][0]["ours"]["seeds"] == [1, 3]
    said = [line for line in cli("verdict", file, "--results", ledger.root)[2].splitlines() if "warning" in line]
    assert said == [f"warning: demo/small: {line}" for line in expected]
    code, out, _ = cli("table", f"{file}#base", "--results", ledger.root)
    assert code == 0 and "weights of seed 1" in out and "no longer has" not in out, "the claim is on another row"
    with RunLock(sweep.lock):
        assert "asked for" not in cli("table", file, "--results", ledger.root)[1]
