"""Are verdicts right? False positives, coverage and power of the estimator on real runs: many seeds of one row, drawn again and again.

    nmt-ablate noise ROW --profile mini --seeds 20 --data-dir DIR --engine local
    python benchmarks/calibration.py ROW --profile mini --data-dir DIR [--figure FILE] [--json]

A pseudo-table has rows of k seeds each, drawn without replacement from one row's seeds: it has no true difference, and a test at 5 % should
call 5 % of its differences significant. A planted effect takes all matches away from a share of the sentences of each seed, drawn anew; its
true size is the difference of the means of all seeds. `--effect KEY=VALUE` adds one that was run with all seeds, as decode.beam_size=1.

    python benchmarks/calibration.py --simulate [--tables 1000]

draws the scores of tables with known spreads instead: a baseline and eleven rows, without sentences.
"""

import argparse
import json
import math
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from simulated_tables import controlled, looked, simulated

from orchestrator.analysis import figures
from orchestrator.cli.commands.looks import FIRST, ends
from orchestrator.ledger.results import Ledger
from orchestrator.report.find import Finder
from orchestrator.report.looks import level_of
from orchestrator.scoring.bleu import MAX_ORDER
from orchestrator.scoring.significance.estimator import LEVEL, Arm, Difference, detectable, difference, holm
from orchestrator.scoring.significance.mixed import MixedModel, degrees
from orchestrator.scoring.significance.sentence_statistics import score_of
from orchestrator.scoring.significance.verdicts import CONFIRMED, LARGER, SMALLER, Expectation, judge
from orchestrator.specs.rows import resolve
from orchestrator.sweeps.plan import Data

ROWS = 4
"""Rows of a pseudo-table, the baseline among them."""
QUESTIONS = ("same_sentences", "other_sentences")
MATCHES = slice(2, 2 + MAX_ORDER)
"""Of a sentence's statistics of BLEU."""


def main() -> None:
    parser = argparse.ArgumentParser(description="Calibration of the estimator on real runs.")
    parser.add_argument("row", nargs="?", help="a row with many finished seeds")
    parser.add_argument("--simulate", action="store_true", help="tables of simulated scores, in place of those of a row")
    parser.add_argument("--profile")
    parser.add_argument("--effect", action="append", default=[], metavar="KEY=VALUE", help="another setting of the row; may be repeated")
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--cache-dir", type=Path, default=Path(".data-cache"))
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--metric", default="bleu")
    parser.add_argument("--tables", type=int, default=300, help="pseudo-tables for each number of seeds")
    parser.add_argument("--seeds", type=int, nargs="+", default=[2, 3, 5], help="seeds a row")
    parser.add_argument("--lost", type=float, nargs="*", default=[0.005, 0.01, 0.02, 0.03, 0.04, 0.06], help="shares of the sentences")
    parser.add_argument("--figure", type=Path, help="where to draw the power by effect")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.simulate:
        print(simulated(arguments.tables), looked(arguments.tables), controlled(arguments.tables), sep="\n\n")
        return
    if arguments.row is None:
        parser.error("found no row; expected one, or --simulate")
    base = seeds_of(arguments, [])
    effects = {f"{share:.1%} of the sentences lost": with_lost(base, share) for share in arguments.lost}
    effects |= {text: seeds_of(arguments, [text]) for text in arguments.effect}
    found: dict[str, Any] = {
        "row": arguments.row,
        "profile": arguments.profile,
        "metric": arguments.metric,
        "seeds": len(base),
        "tables": arguments.tables,
        "mean": float(scores(base).mean()),
        "sd": float(scores(base).std(ddof=1)),
        "null": {str(k): null(base, k, arguments.tables) for k in arguments.seeds if ROWS * k <= len(base)},
        "agent": {str(k): agent(base, k, arguments.tables // 5) for k in arguments.seeds if ROWS * k <= len(base)},
        "looks": {text: two_looks(base, other, arguments.tables) for text, other in {"none": base, **effects}.items()},
        "effects": {text: {str(k): planted(base, other, k, arguments.tables) for k in arguments.seeds} for text, other in effects.items()},
    }
    print(json.dumps(found, indent=1) if arguments.json else page(found))
    if arguments.figure is not None:
        draw(found, arguments.figure)


def seeds_of(arguments: argparse.Namespace, sets: list[str]) -> list[Arm]:
    """An arm of one seed for each finished seed of the row under these settings. Raises SystemExit with fewer than eight."""
    (row,) = resolve(arguments.row, profile=arguments.profile, sets=sets)
    finder = Finder(Ledger(arguments.results), Data(arguments.data_dir, arguments.cache_dir))
    assert row.spec is not None
    done = [outcome for outcome in finder.outcomes(row) if outcome.status == "done"]
    arms = [Arm.of([finder.reader.of(outcome.keys)[arguments.metric]], score_of(arguments.metric, row.spec.score)) for outcome in done]
    if len(arms) < 8:
        raise SystemExit(f"error: {arguments.row} {' '.join(sets)}: found {len(arms)} finished seeds; expected at least 8")
    return arms


def scores(arms: list[Arm]) -> np.ndarray:
    return np.concatenate([arm.scores for arm in arms])


def joined(arms: list[Arm], chosen: np.ndarray) -> Arm:
    picked = [arms[i] for i in chosen]
    return Arm(np.concatenate([arm.statistics for arm in picked]), picked[0].score, scores(picked))


def compared(i: int, rows: list[Arm]) -> Difference:
    """Row i of a table against its first, with the variance over seeds that `report.effects` would take."""
    found = difference(rows[i], rows[0], MixedModel({n: dict(enumerate(each.scores)) for n, each in enumerate(rows)}).between(i, 0))
    assert found is not None
    return found


def table(rows: list[Arm]) -> list[Difference]:
    return [compared(i, rows) for i in range(1, len(rows))]


def null(base: list[Arm], k: int, tables: int) -> dict[str, Any]:
    """Rates over the differences of tables without any effect, and of tables with any significant one after Holm's adjustment."""
    generator, hits, covered, family, total = np.random.default_rng(k), dict.fromkeys(QUESTIONS, 0), dict.fromkeys(QUESTIONS, 0), 0, 0
    for _ in range(tables):
        drawn = generator.permutation(len(base))[: ROWS * k].reshape(ROWS, k)
        found = table([joined(base, chosen) for chosen in drawn])
        for each in found:
            total += 1
            for question in QUESTIONS:
                answer = getattr(each, question)
                hits[question] += answer.p < LEVEL
                covered[question] += answer.low <= 0 <= answer.high
        family += min(holm([each.other_sentences.p for each in found])) < LEVEL
    rates = {question: {"false_positives": hits[question] / total, "coverage": covered[question] / total} for question in QUESTIONS}
    return rates | {"differences": total, "tables_with_any": family / tables}


def agent(base: list[Arm], k: int, loops: int) -> dict[str, Any]:
    """How many of twenty changes that change nothing are accepted, mean and most over loops.

    The loop adds its changes to one table as rows with a claim of +0.5 and asks for a verdict after each, whose p-value is adjusted for the
    rows so far, as that of `verdict` is.
    """
    generator, accepted = np.random.default_rng(200 + k), []
    for _ in range(loops):
        order = generator.permutation(len(base))
        rows, p, hits = [joined(base, order[:k])], list[float](), 0
        for _ in range(20):
            rows.append(joined(base, generator.choice(order[k:], size=k, replace=False)))
            found = compared(len(rows) - 1, rows)
            p.append(found.other_sentences.p)
            hits += judge(Expectation(1.0, 0.5, margin=0.5), found, holm(p)[-1]).word in (CONFIRMED, SMALLER, LARGER)
        accepted.append(hits)
    return {"mean": float(np.mean(accepted)), "most": max(accepted), "at_most_one": float(np.mean([n <= 1 for n in accepted]))}


def two_looks(base: list[Arm], other: list[Arm], tables: int, most: int = 6) -> dict[str, Any]:
    """Tables of a baseline, a row from `other` and one from `base`, looked at with three seeds and, where these do not decide, with `most`.

    Returns the share of rows of `other` that a look calls significant, that of the others ("null"), and the mean number of seeds of a row.
    """
    generator, hits, seeds = np.random.default_rng(300), np.zeros(2), 0
    for _ in range(tables):
        drawn = generator.permutation(len(base))[: 3 * most].reshape(3, most)
        left = {0, 1}
        for k in (FIRST, most):
            rows = [joined(arms, chosen[:k]) for arms, chosen in zip((base, other, base), drawn, strict=True)]
            found = table(rows)
            adjusted = holm([each.other_sentences.p for each in found])
            for i in sorted(left):
                verdict = judge(Expectation(1.0, None, claimed=False), found[i], adjusted[i], level=level_of(1, 2))
                ended = k == most or ends(verdict, most) is not None
                hits[i] += ended and verdict.word in ("higher", "lower")
                seeds += k * ended
                left -= {i} if ended else set()
    return {"significant": hits[0] / tables, "null": hits[1] / tables, "seeds": seeds / (2 * tables)}


def with_lost(arms: list[Arm], share: float) -> list[Arm]:
    """The same seeds without a match (BLEU) in a share of their sentences."""
    generator, lost = np.random.default_rng(400), []
    for arm in arms:
        statistics = arm.statistics.copy()
        chosen = generator.choice(statistics.shape[1], size=round(share * statistics.shape[1]), replace=False)
        statistics[:, chosen, MATCHES] = 0
        lost.append(Arm.of(list(statistics), arm.score))
    return lost


def planted(base: list[Arm], other: list[Arm], k: int, tables: int) -> dict[str, Any]:
    """Power and coverage where the first compared row has an effect."""
    true = float(scores(other).mean() - scores(base).mean())
    generator, hits, covered = np.random.default_rng(100 + k), dict.fromkeys(QUESTIONS, 0), 0
    sd = float(scores(base).std(ddof=1))  # a plan knows the baseline's
    for _ in range(tables):
        order = generator.permutation(min(len(base), len(other)))
        rows = [joined(base, order[:k]), joined(other, order[k : 2 * k])]
        rows += [joined(base, order[i * k : (i + 1) * k]) for i in range(2, min(ROWS, len(order) // k))]
        found = compared(1, rows)
        for question in QUESTIONS:
            hits[question] += getattr(found, question).p < LEVEL
        covered += found.same_sentences.low <= true <= found.same_sentences.high
    mde = detectable(sd * math.sqrt(2 / k), degrees(min(ROWS, len(base) // k), k))
    return {"effect": true, "mde": mde, "coverage": covered / tables} | {question: hits[question] / tables for question in QUESTIONS}


def page(found: dict[str, Any]) -> str:
    """Two Markdown tables."""
    lines = [f"{found['row']}, profile {found['profile']}, {found['seeds']} seeds: mean {found['mean']:.2f}, sd {found['sd']:.2f}", ""]
    lines.append("| seeds a row | differences | false positives, other seeds | other seeds and sentences | coverage | any in a table |")
    lines.append("|---|---|---|---|---|---|")
    for k, each in found["null"].items():
        rates = [each[question]["false_positives"] for question in QUESTIONS]
        rates += [each["other_sentences"]["coverage"], each["tables_with_any"]]
        lines.append(f"| {k} | {each['differences']:,} | " + " | ".join(f"{rate:.1%}" for rate in rates) + " |")
    for k, each in found["agent"].items():
        share = f"at most one in {each['at_most_one']:.0%} of loops"
        lines += ["", f"{k} seeds: of 20 changes that change nothing {each['mean']:.1f} are accepted, {share}"]
    lines += ["", f"| two looks, {FIRST} and 6 seeds: planted | called significant | other rows | seeds a row |", "|---|---|---|---|"]
    for text, each in found["looks"].items():
        lines.append(f"| {text} | {each['significant']:.1%} | {each['null']:.1%} | {each['seeds']:.1f} |")
    lines += ["", "| planted by | seeds a row | effect | MDE of the plan | power, other seeds | other seeds and sentences | coverage |"]
    lines.append("|---|---|---|---|---|---|---|")
    for text, by_k in found["effects"].items():
        for k, each in by_k.items():
            rates = [*(each[question] for question in QUESTIONS), each["coverage"]]
            numbers = f"{each['effect']:+.2f} | {each['mde']:.2f} | " + " | ".join(f"{rate:.0%}" for rate in rates)
            lines.append(f"| {text} | {k} | {numbers} |")
    return "\n".join(lines)


def draw(found: dict[str, Any], path: Path) -> None:
    """Power by planted effect for each number of seeds, with the smallest effect that a plan says 80 % power finds."""
    seeds = sorted(map(int, found["null"]))
    with matplotlib.rc_context(dict(figures.RC)):
        figure = Figure(figsize=(figures.PAGE, figures.PANEL), layout="constrained")
        (axes,) = figures.panels(figure, 1, height=2.4)
        for index, (colour, k) in enumerate(zip(figures.colours(len(seeds)), seeds, strict=True)):
            points = sorted((abs(each[str(k)]["effect"]), each[str(k)]["same_sentences"]) for each in found["effects"].values())
            axes.plot(*zip(*points, strict=True), marker=figures.marker(index), color=colour, label=f"{k} seeds a row")
            axes.axvline(next(iter(found["effects"].values()))[str(k)]["mde"], color=colour, linestyle=":")
        axes.plot([], [], color="0.25", linestyle=":", label="the plan's smallest effect")
        axes.axhline(0.8, color="0.6", linewidth=0.8)
        axes.set(xlabel="true difference, BLEU", ylabel="share of tables that find it")
        axes.grid()
        figures.legend(figure, axes.get_legend_handles_labels()[0])
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


if __name__ == "__main__":
    main()
