"""Differences, intervals and verdicts of a table whose seeds have known scores and sentences."""

import json
from dataclasses import replace
from io import StringIO
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from scipy.stats import ttest_ind

from orchestrator.ledger.results import Ledger
from orchestrator.report.cells import state
from orchestrator.report.claims import Comparisons
from orchestrator.report.effects import Effect, Effects, claimed
from orchestrator.report.find import Finder
from orchestrator.report.formats import FORMATS, show
from orchestrator.report.judgement import exit_code
from orchestrator.report.page.section import Section, headline
from orchestrator.report.table import Table, make
from orchestrator.scoring.significance.estimator import holm
from orchestrator.scoring.significance.mixed import MixedModel
from orchestrator.scoring.significance.sentence_statistics import StatisticsReader, packed, score_of
from orchestrator.scoring.significance.verdicts import OPEN, Verdict
from orchestrator.specs.claims import RowClaim
from orchestrator.specs.row import Control, Row, Trial, starts
from orchestrator.specs.rows import resolve
from orchestrator.sweeps.plan import Data, keys_for
from tests.unit.conftest import MINIMAL
from tests.unit.report.support import shown

ROWS = """\
  base: {label: Baseline, pinned: true, expect: {bleu: 27.0}}
  better: {label: better, model: {d_ff: 40}, expect: {bleu: 32.0}}
  less: {label: less, model: {d_ff: 48}, expect: {delta: 6.0}}
  worse: {label: worse, model: {d_ff: 56}, expect: {bleu: 28.0}}
  alone: {label: alone, model: {d_ff: 64}, expect: {bleu: 28.0}}
  mine: {label: mine, model: {d_ff: 72}}
  lost: {label: lost, model: {d_ff: 80}, failed_below: 5, expect: {bleu: failed}}
  waiting: {label: waiting, model: {d_ff: 88}, expect: {bleu: 28.0}}
"""
TABLE = MINIMAL + ROWS
MATCHES = {"base": 0.60, "better": 0.64, "less": 0.63, "worse": 0.55, "alone": 0.62, "mine": 0.642, "lost": 0.05}
SENTENCES = 200


def counts(share: float, seed: int) -> np.ndarray:
    """Statistics [N, 10] of a system whose n-grams match with about this chance, a little different for each seed."""
    generator = np.random.default_rng([seed, int(1000 * share)])
    lengths = np.random.default_rng(0).integers(8, 20, size=SENTENCES)
    found = np.zeros((SENTENCES, 10), dtype=np.int64)
    found[:, 0] = found[:, 1] = lengths
    for n in range(4):
        found[:, 6 + n] = lengths - n
        found[:, 2 + n] = generator.binomial(lengths - n, share ** (n + 1))
    return found


def finish(ledger: Ledger, row: Row, seed: int, share: float) -> str:
    """Puts a finished seed of the row into the ledger. Returns its train key."""
    seeded, found = row.at(seed), counts(share, seed)
    keys = keys_for(seeded, Data(None))
    ledger.write_spec(keys.train, {"id": row.id, "seed": seed, "spec": seeded.spec.model_dump(), "keys": keys.as_dict()})
    ledger.write_train(keys.train, {"status": "done", "steps": 4, "params": 1000, "reason": ""})
    nll = np.stack([found[:, 0] * (2.0 - share + 0.01 * seed), found[:, 0]], axis=1)
    record = {"decode_key": keys.decode, "bleu": float(score_of("bleu", seeded.spec.score)(found.sum(0))), "signature": "BLEU|x"}
    ledger.write_record(keys.train, "score", keys.score, record | {"statistics": packed({"bleu": found, "nll": nll})})
    return keys.train


@pytest.fixture(scope="module")
def rows(tmp_path_factory) -> list[Row]:
    path = tmp_path_factory.mktemp("spec") / "demo.yaml"
    path.write_text(TABLE, encoding="utf-8")
    return resolve(path)


@pytest.fixture(scope="module")
def ledger(rows: list[Row], tmp_path_factory) -> Ledger:
    """Three finished seeds of each row of MATCHES, one of `alone`."""
    made = Ledger(tmp_path_factory.mktemp("results"))
    for row in rows:
        name = row.id.rsplit("/", 1)[1]
        for seed in [] if name not in MATCHES else [1] if name == "alone" else [1, 2, 3]:
            finish(made, row, seed, MATCHES[name])
    return made


@pytest.fixture(scope="module")
def finder(ledger: Ledger) -> Finder:
    return Finder(ledger, Data(None))


@pytest.fixture(scope="module")
def reader(ledger: Ledger) -> StatisticsReader:
    return StatisticsReader(ledger)


def named(table: Table) -> dict[str, dict[str, Any]]:
    return {line.label: line.as_json()["ours"] or {} for line in table.rows}


def test_the_spread_is_that_of_the_mixed_model_and_p_adjusted(
    rows: list[Row], finder: Finder, reader: StatisticsReader, monkeypatch
) -> None:
    outcomes = {row.id: finder.outcomes(row) for row in rows}
    whole = Effects(rows, outcomes, reader)
    model = MixedModel({row.id: {o.seed: o.bleu for o in outcomes[row.id]} for row in rows if row.id in whole.arms})
    better, spread = whole.between("demo/small/better", "demo/small/base").difference, model.between("demo/small/better", "demo/small/base")
    assert better is not None and spread is not None and better.spread == spread and spread.groups > 3
    assert better.same_sentences.se**2 == pytest.approx(spread.variance * 2 / 3)
    found = Comparisons(rows, outcomes, starts(rows, None), reader).judgements
    tested = [one for one in found if one.raw is not None]
    assert [one.p for one in tested] == pytest.approx(holm([one.raw for one in tested])) and {one.family for one in found} == {len(tested)}
    assert {one.metric for one in tested} == {"bleu", "nll"} and "alone" not in {one.claim.row.rsplit("/", 1)[1] for one in tested}
    monkeypatch.setattr("orchestrator.report.claims.holm", lambda values: [1.0 for _ in values])
    left = [one for one in Comparisons(rows, outcomes, starts(rows, None), reader).judgements if one.verdict.word == "open" and one.raw]
    said = [one.verdict.reason.endswith("; significant alone, not over all claims") for one in left]
    assert said == [one.raw < one.level for one in left] and any(said)


def test_another_systems_row_leaves_our_variances_and_is_compared_by_welch(
    rows: list[Row], finder: Finder, reader: StatisticsReader
) -> None:
    outcomes = {row.id: finder.outcomes(row) for row in rows}
    others = [replace(row, kind="external") for row in rows if row.label in ("worse", "mine")]
    ours = [row for row in rows if row.label not in ("worse", "mine")]
    whole, (base, better, *_), (worse, mine) = Effects(others + ours, outcomes, reader), list(outcomes), [row.id for row in others]
    assert whole.between(better, base) == Effects(ours, outcomes, reader).between(better, base)
    for a, b in ((better, worse), (worse, mine)):
        test = ttest_ind(whole.arms[a].scores, whole.arms[b].scores, equal_var=False)
        found = whole.between(a, b).difference
        assert (found.spread.df, found.same_sentences.p) == pytest.approx((test.df, test.pvalue)) and found.spread.groups == 1


def test_scores_of_another_kind_of_device_are_adjusted(rows: list[Row], tmp_path) -> None:
    """base ran on both kinds, better on the second alone, on which everything scores higher."""
    ledger = Ledger(tmp_path)
    for row, seed in ((row, seed) for row in rows[:3] for seed in (1, 2, 3, 4)):
        second = row.label == "better" or seed > 2
        key = finish(ledger, row, seed, MATCHES[row.id.rsplit("/", 1)[1]] + 0.02 * second)
        ledger.write_capsule(key, {"device": "gpu" if second else "cpu"})
    finder, reader = Finder(ledger, Data(None)), StatisticsReader(ledger)
    effects = Effects(rows, {row.id: finder.outcomes(row) for row in rows}, reader)
    found, plain = effects.between("demo/small/better", "demo/small/base"), effects.arms
    raw = plain["demo/small/better"].scores.mean() - plain["demo/small/base"].scores.mean()
    assert found is not None and found.difference is not None and found.differs == ("device",)
    assert raw - found.delta == pytest.approx(effects.model("demo/small/base").blocks.c[0] / 2) and 0.5 < raw - found.delta < 2
    assert effects.between("demo/small/less", "demo/small/base").differs == ("device",)
    table = make("demo/small", rows, finder)
    assert any("adjusted for the kinds of device" in note and "printed means: better;" in note for note in table.notes)
    assert "environments: device" in FORMATS["md"](table) and "environments" not in FORMATS["latex"](table)


def test_the_choice_of_a_tuned_row_widens_its_intervals_in_each_metric(rows: list[Row], tmp_path) -> None:
    ledger, own = Ledger(tmp_path), rows[:2]
    for row, seed in ((row, seed) for row in own for seed in (1, 2, 3)):
        finish(ledger, row, seed, MATCHES[row.id.rsplit("/", 1)[1]])
    finder = Finder(ledger, Data(None))
    outcomes = {row.id: finder.outcomes(row) for row in own}

    def effects(*scores: str) -> dict[str, Effect]:
        def trials(*losses: float) -> tuple[Trial, ...]:
            return tuple(Trial(loss, {name: loss if name == "nll" else 10 - loss for name in scores}) for loss in losses)

        tuned = [replace(own[0], trials=trials(5.0, 6.0, 4.9)), replace(own[1], trials=trials(5.0, 4.0, 4.9))] if scores else own
        found = Comparisons(tuned, outcomes, starts(own), finder.reader, seen=()).judgements
        return {one.metric: one.effects[0] for one in found}

    plain, tuned, earlier = effects(), effects("nll", "bleu"), effects("nll")
    for metric in ("bleu", "nll"):
        assert tuned[metric].answer.se > plain[metric].answer.se and tuned[metric].difference.choice == pytest.approx(0.205, rel=0.1)
    assert earlier["nll"].answer == tuned["nll"].answer and earlier["bleu"].answer is None, "its trials have no BLEU"
    assert earlier["bleu"].interval == f"{plain['bleu'].delta:+.2f}" and json.dumps(earlier["bleu"].as_json(), allow_nan=False)


def test_a_row_that_varies_more_widens_no_other(rows: list[Row], tmp_path) -> None:
    wild = Ledger(tmp_path)
    for row, seed in ((row, seed) for row in rows[:6] for seed in (1, 2, 3)):
        share = MATCHES[row.id.rsplit("/", 1)[1]]
        finish(wild, row, seed, share if row.label != "worse" else share - 0.1 * seed)
    table = make("demo/small", rows, Finder(wild, Data(None)), ["bleu"])
    effects = {name: one["effect"] for name, one in named(table).items() if "effect" in one}
    assert effects["better"]["sd"] < 1 < effects["worse"]["sd"]
    (note,) = [note for note in table.notes if note.startswith("±")]
    assert f"standard deviation over seeds ({effects['better']['sd']:.2f} to {effects['worse']['sd']:.2f}" in note


def test_columns_and_verdicts(rows: list[Row], finder: Finder) -> None:
    table = make("demo/small", rows, finder, ["bleu"], scale="profile mini")
    cell, ours = shown(table), named(table)
    words = {name: one["verdict"]["word"] for name, one in ours.items() if "verdict" in one}
    assert words == {
        "better": "confirmed", "less": "confirmed, smaller", "worse": "reversed", "alone": "one seed", "mine": "higher",
        "lost": "confirmed",
    }  # fmt: skip
    assert cell["better"]["verdict"] == "confirmed" and cell["better"]["delta of test nll"].endswith("confirmed")
    assert cell["mine"]["verdict"] == "higher"
    interval = ours["better"]["effect"]["other_seeds_and_sentences"]
    assert cell["better"]["delta (ours)"] == f"{ours['better']['delta']:+.2f} ({interval['low']:+.2f} to {interval['high']:+.2f})"
    assert "±" in cell["base"]["BLEU (ours)"] and "±" not in cell["alone"]["BLEU (ours)"] and cell["base"]["seeds"] == "1-3"
    assert [ours[name]["significant"] for name in ("better", "worse")] == [ours["better"]["nll"]["significant"], False] == [True, False]
    assert any("one seed: no interval" in note for note in table.notes)
    for form in FORMATS.values():
        assert "confirmed" in form(table)
    paper, whole = FORMATS["latex"](table), FORMATS["latex"](table, ["all"])
    assert "seeds: 1-3: base" in paper and "& status" in whole and "& status" not in paper
    said = headline(Section(table, rows, table.outcomes, finder)).verdicts
    assert said["confirmed"] == ["better", "lost"] and "better" in said["confirmed in nll"]
    judged = table.rows[1].judged
    assert judged.own is not None
    judged.own = replace(judged.own, verdict=Verdict(OPEN, "by chance"))
    for width in (46, 60, 80, 100):
        console = Console(width=width, record=True, file=StringIO())
        show(console, table)
        text = console.export_text()
        assert "reversed" in text and f"left out, {width} columns" in text and "note: better: open: by chance" in " ".join(text.split())


def test_claims_of_the_paper_and_of_a_file(rows: list[Row], finder: Finder, reader: StatisticsReader) -> None:
    outcomes, start = {row.id: finder.outcomes(row) for row in rows}, starts(rows, None)
    by_name = {row.id.rsplit("/", 1)[1]: row for row in rows}
    assert claimed(by_name["better"], by_name["base"]) == 5.0 and claimed(by_name["less"], by_name["base"]) == 6.0
    paper = [each for each in Comparisons(rows, outcomes, start, reader, setting="mini").of_claims() if each.stated]
    assert {one.claim.row.rsplit("/", 1)[1]: one.verdict.word for one in paper} == {
        "better": "confirmed", "less": "confirmed, smaller", "worse": "reversed", "alone": "one seed", "lost": "confirmed",
        "waiting": "not run",
    }  # fmt: skip
    assert exit_code(paper) == 6 and exit_code(paper[:2]) == 0 and exit_code([paper[0], paper[3]]) == 7
    record = paper[0].as_json()
    assert record["setting"] == "mini"

    def verdict(name: str, effect: float | None, failed: str = "base", count: int = 0, status: str = "failed", **more) -> str:
        of, stated = f"demo/small/{failed}", [RowClaim(f"demo/small/{name}", None, effect, **more)]
        lost = [replace(each, status=status, stated=status == "failed") for each in outcomes[of][:count]]
        found = outcomes | {of: lost + outcomes[of][count:]}
        return Comparisons(rows, found, start, reader, stated, seen=()).of_claims()[0].verdict.word

    assert verdict("better", -0.04, metric="nll") == "confirmed", "lower is better, and the sign is the metric's"
    assert verdict("better", 0.04, metric="nll") == "reversed"
    assert verdict("better", 5.0, seeds=5) == "open" and verdict("less", 0.0, margin=9.0) == "confirmed"
    assert verdict("less", -0.04, margin=9.0, source="paper") == "confirmed" and verdict("less", -0.04) == "reversed"
    assert verdict("better", 5.0, metric="chrf") == "not compared"
    assert verdict("better", 5.0, "better", 1) == verdict("better", 5.0, "better", 1, "diverged") == "open"
    assert verdict("better", 5.0, "better", 3) == "reversed" and verdict("better", None, "better", 3) == "open"
    assert verdict("worse", 5.0, "base", 1) == "open" and verdict("better", 5.0, "base", 3) == "not compared"
    same = [RowClaim("demo/small/better", None, 0.0, "nll", margin=9.0)]
    assert "is within 9.000" in Comparisons(rows, outcomes, start, reader, same, seen=()).of_claims()[0].verdict.reason
    chosen = make("demo/small", rows, finder, ["bleu"], base="demo/small/mine")
    assert {one.claim.against for one in chosen.claims if one.stated} == {start["demo/small/better"]}, "the paper's own comparisons"


def test_the_claims_of_a_file_are_judged_in_its_table(rows: list[Row], finder: Finder, reader: StatisticsReader) -> None:
    """`verdict` and `table` have the same words and p-values; other comparisons keep the paper's claims, and have claims of their own."""
    stated = [
        RowClaim("demo/small/less", None, -1.0),
        RowClaim("demo/small/better", None, 5.0, seeds=9),
        RowClaim("demo/small/better", "demo/small/worse", 4.0),
        RowClaim("demo/small/better", "demo/small/elsewhere", 4.0),
    ]
    outcomes, start = {row.id: finder.outcomes(row) for row in rows}, starts(rows, None)
    table = make("demo/small", rows, finder, ["bleu"], stated=stated)
    ours = named(table)
    words = {name: one["verdict"]["word"] for name, one in ours.items() if "verdict" in one}
    assert (words["less"], words["better"], words["worse"]) == ("reversed", "open", "reversed")
    records = [each for each in Comparisons(rows, outcomes, start, reader, stated).of_claims() if each.stated]
    less, better, over_worse, *papers = records
    assert {one.claim.source for one in papers} == {"paper"} and not {less.claim.row, better.claim.row} & {one.claim.row for one in papers}
    beside, nll = [claim for claim in table.claims if not claim.own]
    assert beside.effect == over_worse.effect and beside.verdict == over_worse.verdict and nll.metric == "nll"
    assert beside.verdict.word.startswith("confirmed") and nll.verdict.word == "confirmed"
    assert better.verdict.seeds == 9, "significant already: the claim's own seeds are all that it needs"
    assert any(note.startswith("better against worse: claimed +4.00, ours +") for note in table.notes)
    assert (less.verdict.word, better.verdict.word) == (words["less"], words["better"])
    assert [one.as_json()["effect"] for one in (less, better)] == [ours[name]["effect"] for name in ("less", "better")]


def test_rows_that_share_a_run_are_not_compared_and_count_once(rows: list[Row], finder: Finder, reader: StatisticsReader) -> None:
    twin = replace(rows[1], id="demo/small/twin")
    outcomes = {row.id: finder.outcomes(row) for row in rows} | {twin.id: finder.outcomes(rows[1])}
    both = Effects([*rows, twin], outcomes, reader)
    assert both.spread(twin.id) == Effects(rows, outcomes, reader).spread(rows[1].id)
    assert both.between(twin.id, rows[1].id) is None and both.between(twin.id, "demo/small/base") is not None


def test_rows_scored_in_other_ways_are_neither_pooled_nor_compared(rows: list[Row], finder: Finder, reader: StatisticsReader) -> None:
    effects, base, worse = Effects(rows, {row.id: finder.outcomes(row) for row in rows}, reader), "demo/small/base", "demo/small/worse"
    effects.keys[worse] = effects.keys[worse][0], "BLEU of other words"
    alone, rest = effects.spread(worse), effects.spread(base)
    assert alone is not None and alone.groups == 1 and rest is not None and rest.groups == len(MATCHES) - 3, "neither `alone` nor `lost`"
    assert effects.between(worse, base) is None


def test_a_row_has_to_beat_its_controls(rows: list[Row], finder: Finder, reader: StatisticsReader) -> None:
    """`better` against `mine` as its control: 5 BLEU over the baseline, hardly any over the control. A control that is the baseline's run
    counts once, and a control claims nothing."""

    def made(rows: list[Row], scale: str = "") -> Table:
        return make("demo/small", rows, finder, ["bleu"], scale=scale)

    base = next(row for row in rows if row.id == "demo/small/base")
    twin = replace(base, id="demo/small/better@flops", control=Control("flops", base.id, "demo/small/better"))
    alone = named(made([*rows, twin], "mini"))["better"]
    assert alone["verdict"]["word"] == "confirmed" and alone["controls"] == []
    assert alone == named(made(rows, "mini"))["better"]
    said = [state(line) for line in made([*rows, twin]).rows]
    assert said.count("done: it is base") == 1 and said[-1] == "done: it is base"
    matched = [replace(row, control=Control("params", base.id, "demo/small/better")) if row.label == "mine" else row for row in rows]
    by_name = [replace(row, control_rows=("demo/small/mine",)) if row.label == "better" else row for row in rows]
    for controlled in ([*matched, twin], by_name):
        table = made(controlled, "mini")
        ours = named(table)["better"]
        assert ours["effect"]["against"] == "demo/small/mine" and ours["verdict"]["word"] == "open"
        assert ours["nll"]["verdict"]["word"] == "open"
        assert [effect["against"] for effect in ours["controls"]] == [base.id] and ours["verdict"]["p"] > 0.05
        assert {"strongest control", "delta to other controls"} <= shown(table)["base"].keys()
    assert "mine" not in " ".join(note for note in made(matched).notes if note.startswith("not compared"))
    records = Comparisons(matched, {row.id: finder.outcomes(row) for row in rows}, starts(matched, None), reader).of_claims()
    assert "demo/small/mine" not in [each.claim.row for each in records]


@pytest.mark.parametrize(("seeds", "word"), [(0, "not run"), (1, "one seed"), (3, "higher")])
def test_no_control_takes_the_place_of_a_baseline_without_seeds(rows: list[Row], tmp_path, seeds: int, word: str) -> None:
    """Nor is a control needed that is not among the rows."""
    ledger, controls = Ledger(tmp_path), ("demo/small/worse", "demo/small/elsewhere")
    own = [replace(row, control_rows=controls) for row in rows if row.label in ("Baseline", "worse", "mine")]
    for row in own:
        for seed in range(1, 1 + (seeds if row.label == "Baseline" else 3)):
            finish(ledger, row, seed, MATCHES[row.id.rsplit("/", 1)[1]])
    finder = Finder(ledger, Data(None))
    found = Comparisons(own, {row.id: finder.outcomes(row) for row in own}, starts(own), finder.reader).judgements
    (mine,) = [one for one in found if one.claim.row == "demo/small/mine" and one.metric == "bleu"]
    assert mine.verdict.word == word and (mine.p is None) == (seeds < 2)


def test_controls_without_seeds_are_told_and_one_that_is_ahead_leaves_a_gain_open(rows: list[Row], tmp_path) -> None:
    """A control makes a look only when it gets more seeds after it was judged."""
    ledger, controls = Ledger(tmp_path), ("demo/small/mine", "demo/small/worse")
    own = {row.label: replace(row, control_rows=controls) for row in rows if row.label in ("Baseline", "better", "mine", "worse")}

    def made(label: str, share: float, *seeds: int) -> tuple[dict[str, Any], list[str]]:
        for seed in seeds:
            finish(ledger, own[label], seed, share)
        return named(table := make("demo/small", list(own.values()), Finder(ledger, Data(None)))).get("better", {}), table.notes

    (_, _), (_, _), (better, notes) = made("Baseline", 0.6, 1, 2, 3), made("worse", 0.55, 1), made("better", 0.64, 1, 2, 3)
    assert better["significant"] and "better: not compared with mine (no finished run), worse (one seed)" in notes
    assert [made("worse", 0.55, *seeds)[0]["verdict"]["look"] for seeds in ((1, 2, 3), (4,))] == [1, 2]
    assert [made("mine", 0.75, 1)[0]["verdict"][part] for part in ("reason", "p")] == ["mine is ahead with one seed", None]


def test_a_claim_without_an_effect_asks_whether_rows_differ(rows: list[Row], finder: Finder, reader: StatisticsReader) -> None:
    stated = [RowClaim("demo/small/better", "demo/small/worse", None), RowClaim("demo/small/mine", "demo/small/better", None)]
    table = make("demo/small", rows, finder, ["bleu"], stated=stated)
    own = [claim.as_json() for claim in table.claims if claim.stated and not claim.own]
    assert [(claim["claim"], claim["verdict"]) for claim in own] == [(None, "higher"), (None, "open")]
    assert any(note.startswith("better against worse: ours +") and note.endswith("higher") for note in table.notes)
    outcomes = {row.id: finder.outcomes(row) for row in rows}
    judged = [each for each in Comparisons(rows, outcomes, starts(rows, None), reader, stated).of_claims() if each.stated]
    assert exit_code(judged[:1]) == 0 and exit_code(judged[1:2]) == 7
