"""Are verdicts right? False positives, coverage and power of the estimator on real runs: many seeds of one row, drawn again and again.

    nmt-ablate noise ROW --profile mini --seeds 20 --data-dir DIR --engine local
    nmt-ablate sweep ROW --profile mini --seeds 1,2,..,20 --set decode.beam_size=1 ..        (an effect: the same weights, other search)
    python benchmarks/calibration.py ROW --profile mini --effect decode.beam_size=1 [--json]

A pseudo-table has rows of k seeds each, drawn without replacement from one row's seeds: it has no true difference, and a test at 5 % should
call 5 % of its differences significant. With an effect, the first row's seeds are drawn from the other search, and the true difference is
that of all seeds.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from orchestrator.ledger.results import Ledger
from orchestrator.report.find import Finder
from orchestrator.scoring.significance.estimator import LEVEL, Arm, Difference, detectable, difference, holm, pooled
from orchestrator.scoring.significance.reader import StatisticsReader
from orchestrator.scoring.significance.sentence_statistics import score_of
from orchestrator.scoring.significance.verdicts import judge
from orchestrator.specs.rows import resolve
from orchestrator.sweeps.plan import Data

ROWS = 4
"""Rows of a pseudo-table, the baseline among them."""
QUESTIONS = ("same_sentences", "other_sentences")


def main() -> None:
    parser = argparse.ArgumentParser(description="Calibration of the estimator on real runs.")
    parser.add_argument("row", help="a row with many finished seeds")
    parser.add_argument("--profile")
    parser.add_argument("--effect", action="append", default=[], metavar="KEY=VALUE", help="another setting of the row; may be repeated")
    parser.add_argument("--results", type=Path, default=Path("results"))
    parser.add_argument("--cache-dir", type=Path, default=Path(".data-cache"))
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--metric", default="bleu")
    parser.add_argument("--tables", type=int, default=300, help="pseudo-tables for each number of seeds")
    parser.add_argument("--seeds", type=int, nargs="+", default=[2, 3, 5], help="seeds a row")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    base = seeds_of(arguments, [])
    effects = {text: seeds_of(arguments, [text]) for text in arguments.effect}
    found: dict[str, Any] = {
        "row": arguments.row,
        "profile": arguments.profile,
        "metric": arguments.metric,
        "seeds": len(base),
        "tables": arguments.tables,
        "mean": float(scores(base).mean()),
        "sd": float(scores(base).std(ddof=1)),
        "null": {str(k): null(base, k, arguments.tables) for k in arguments.seeds if ROWS * k <= len(base)},
        "agent": {str(k): agent(base, k, arguments.tables // 10) for k in arguments.seeds if ROWS * k <= len(base)},
        "effects": {text: {str(k): planted(base, other, k, arguments.tables) for k in arguments.seeds} for text, other in effects.items()},
    }
    print(json.dumps(found, indent=1) if arguments.json else page(found))


def seeds_of(arguments: argparse.Namespace, sets: list[str]) -> list[Arm]:
    """An arm of one seed for each finished seed of the row under these settings. Raises SystemExit with fewer than eight."""
    (row,) = resolve(arguments.row, profile=arguments.profile, sets=sets)
    finder = Finder(Ledger(arguments.results), Data(arguments.data_dir, arguments.cache_dir))
    reader = StatisticsReader(finder.ledger, finder.prepared)
    assert row.spec is not None
    done = [outcome for outcome in finder.outcomes(row) if outcome.status == "done"]
    arms = [Arm.of([reader.of(row.spec, outcome.keys)[arguments.metric]], score_of(arguments.metric, row.spec.score)) for outcome in done]
    if len(arms) < 8:
        raise SystemExit(f"error: {arguments.row} {' '.join(sets)}: found {len(arms)} finished seeds; expected at least 8")
    return arms


def scores(arms: list[Arm]) -> np.ndarray:
    return np.concatenate([arm.scores for arm in arms])


def joined(arms: list[Arm], chosen: np.ndarray) -> Arm:
    picked = [arms[i] for i in chosen]
    return Arm(np.concatenate([arm.statistics for arm in picked]), picked[0].score, scores(picked))


def table(rows: list[Arm]) -> list[Difference]:
    """Each row against the first, with the spread pooled over all."""
    spread = pooled([row.scores for row in rows])
    found = [difference(row, rows[0], spread) for row in rows[1:]]
    return [each for each in found if each is not None]


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
    """Of twenty changes that change nothing, judged one by one against a claim of +0.5: how many are accepted, mean and most over loops."""
    generator, accepted = np.random.default_rng(200 + k), []
    for _ in range(loops):
        order = generator.permutation(len(base))
        baseline, rest = joined(base, order[:k]), order[k:]
        arms = [joined(base, generator.choice(rest, size=k, replace=False)) for _ in range(20)]
        words = [judge(0.5, table([baseline, arm])[0], margin=0.5).word for arm in arms]
        accepted.append(sum(word in ("reproduced", "same direction") for word in words))
    return {"mean": float(np.mean(accepted)), "most": max(accepted), "at_most_one": float(np.mean([n <= 1 for n in accepted]))}


def planted(base: list[Arm], other: list[Arm], k: int, tables: int) -> dict[str, Any]:
    """Power and coverage where the first compared row has an effect."""
    true = float(scores(other).mean() - scores(base).mean())
    generator, hits, covered = np.random.default_rng(100 + k), dict.fromkeys(QUESTIONS, 0), 0
    sd = math.sqrt(float((scores(base).var(ddof=1) + scores(other).var(ddof=1)) / 2))
    for _ in range(tables):
        order = generator.permutation(min(len(base), len(other)))
        rows = [joined(base, order[:k]), joined(other, order[k : 2 * k])]
        rows += [joined(base, order[i * k : (i + 1) * k]) for i in range(2, min(ROWS, len(order) // k))]
        found = table(rows)[0]
        for question in QUESTIONS:
            hits[question] += getattr(found, question).p < LEVEL
        covered += found.same_sentences.low <= true <= found.same_sentences.high
    mde = detectable(sd * math.sqrt(2 / k), min(ROWS, len(base) // k) * (k - 1))
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
    lines += ["", "| planted by | seeds a row | effect | MDE of the plan | power, other seeds | other seeds and sentences | coverage |"]
    lines.append("|---|---|---|---|---|---|---|")
    for text, by_k in found["effects"].items():
        for k, each in by_k.items():
            rates = [*(each[question] for question in QUESTIONS), each["coverage"]]
            figures = f"{each['effect']:+.2f} | {each['mde']:.2f} | " + " | ".join(f"{rate:.0%}" for rate in rates)
            lines.append(f"| `{text}` | {k} | {figures} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
