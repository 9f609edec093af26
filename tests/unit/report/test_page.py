"""The report's page: what stands on it, that nothing in it is foreign, and that it is one file."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.ledger.results import Ledger
from orchestrator.report.find import Finder
from orchestrator.report.page.charts import front
from orchestrator.report.page.curves import thinned
from orchestrator.report.page.examples import marks
from orchestrator.report.page.render import page
from orchestrator.report.page.section import Section
from orchestrator.report.table import make
from orchestrator.specs.rows import resolve
from orchestrator.sweeps.plan import Data, keys_for

HOSTILE = "</script><img src=x onerror=alert(1)>"
ROWS = (
    "  base: {label: Baseline, expect: {bleu: 27.64}}\n"
    f"  fused: {{label: '{HOSTILE}', model: {{d_ff: 48}}, expect: {{bleu: 28.09, delta: 0.45}}, assumed: [model.d_ff]}}\n"
    "  cut: {model: {d_ff: 56}}\n"
)


@pytest.fixture
def section(spec: Callable[..., Path], tmp_path: Path) -> Section:
    rows, ledger = resolve(spec(ROWS)), Ledger(tmp_path / "r")
    for row in rows:
        for seed in (1, 2) if not row.id.endswith("cut") else (1,):
            own, stopped = row.at(seed), row.id.endswith("cut")
            keys = keys_for(own, Data(None))
            assert own.spec is not None and keys.train and keys.decode and keys.score
            ledger.write_spec(keys.train, {"id": row.id, "seed": seed, "spec": own.spec.model_dump(), "keys": keys.as_dict()})
            record = {
                "status": "stopped" if stopped else "done",
                "steps": 4,
                "params": 1000 + len(row.id),
                "tokens_per_second": 90.0 + seed,
            }
            ledger.write_train(keys.train, record | {"reason": ""})
            ledger.write_capsule(keys.train, {"git_commit": "c" * 40, "libraries": {"torch": "2.0"}})
            reports = [{"step": step, "valid/nll": 5.0 - step / 10 - seed / 100, "train/nll": 6.0} for step in (2, 4)]
            (ledger.run_dir(keys.train) / "history.jsonl").write_text("".join(json.dumps(each) + "\n" for each in reports))
            if not stopped:
                lines = [f"{HOSTILE} a {i}" if "fused" in row.id else f"the {i}" for i in range(9)]
                ledger.write_decode(keys.train, keys.decode, {"sentences_per_second": 5.0}, lines)
                bleu = 30.0 + seed + 2 * ("fused" in row.id)
                ledger.write_score(keys.train, keys.score, {"decode_key": keys.decode, "bleu": bleu, "signature": "BLEU|x"})
    finder = Finder(ledger, Data(None))
    made = make("demo/small", rows, finder, ["bleu"])
    return Section(made, rows, {row.id: finder.outcomes(row) for row in rows}, finder, scale="profile x", arguments=" --profile x")


def test_the_page_says_it_all_and_runs_nothing_foreign(section: Section) -> None:
    text = page("demo", [section, section], "the_script('</script>')", "1.0")
    assert HOSTILE not in text and "&lt;/script&gt;" in text
    assert not re.search(r'(src|href)="(?!#)', text) and "http" not in text.replace("http-equiv", "")
    assert "fused" in text and "highest BLEU, 33.50 ± 0.71 over its seeds" in text and "1 stopped at step 4" in text
    for anchor in ("headline", "results", "row-fused", "charts", "examples", "specs", "provenance", "notes", "t1-row-fused"):
        assert f'id="{anchor}"' in text, anchor
    assert "nmt-ablate run demo/small/fused --seed 1 --profile x" in text and "c" * 40 in text
    specs = [json.loads(found) for found in re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', text)]
    curves, difference = specs[0], next(spec for spec in specs if "keys" in spec)
    assert difference["values"]["fused"][difference["keys"].index("model.d_ff")] == "48"
    means = [point for point in curves["data"]["values"] if point["v"] == "mean" and point["m"] == "validation nll" and point["r"] == 0]
    assert [(point["x"], point["y"], point["l"], point["h"]) for point in means] == [(2, 4.785, 4.78, 4.79), (4, 4.585, 4.58, 4.59)]


def test_without_a_chart_the_page_has_no_script_of_charts(section: Section) -> None:
    bare = Section(make("demo/small", section.rows[:0], section.finder), [], {}, section.finder)
    assert "the_script" not in page("demo", [bare], "the_script()", "1.0")


def test_pieces() -> None:
    points = [{"x": 1, "y": 3.0}, {"x": 2, "y": 2.0}, {"x": 3, "y": 4.0}, {"x": 3, "y": 3.5}]
    assert [(p["x"], p["y"]) for p in front(points, fewer=True)] == [(1, 3.0), (3, 4.0)]
    assert [(p["x"], p["y"]) for p in front(points, fewer=False)] == [(3, 4.0)]
    assert marks("The old house", "the house") == [("The", False), ("old", True), ("house", False)]
    curve = [(step, 0.0) for step in range(101)]
    assert len(thinned(curve)) == 40 and thinned(curve)[0][0] == 0 and thinned(curve)[-1][0] == 100
