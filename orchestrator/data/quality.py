"""`nmt-ablate data report`: figures of a corpus's text, and the pairs that rules of `data clean` would leave out."""

import heapq
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from orchestrator.data.check import Report, check
from orchestrator.data.oddities import Watch
from orchestrator.data.prepare import prepare
from orchestrator.data.rules import Filter
from orchestrator.data.text import CorpusText
from orchestrator.errors import collecting, raise_all
from orchestrator.specs.corpora import Rules, load_entry
from orchestrator.specs.json_schema import field_texts
from orchestrator.specs.schema import DataSpec

SHOWN = Rules(max_characters=500, max_ratio=3.0, other_language=True, copies=True, duplicates=True, leaks=True)
"""The rules of a report."""
EXAMPLES = 5
"""Worst pairs of a rule and split."""


def measure(name: str, data_dir: Path | None, cache_dir: Path) -> tuple[Report, dict[str, Any]]:
    """The result of `data check`, and what the page's template shows.

    Raises UserError with the problems of the check.
    """
    entry = load_entry(name)
    report, counts, worst = check(entry, data_dir), Counter[tuple[str, str]](), defaultdict[str, dict[str, Any]](dict)
    raise_all(report.problems)
    text, unknown, splits = CorpusText(entry, data_dir), dict[str, list[float]](), dict[str, dict[str, Any]]()
    with collecting(report.warnings):
        prepared = prepare(DataSpec(corpus=name), data_dir, cache_dir)
        unknown = {split: prepared.unknown(split) for split in prepared.stats["splits"]}
    watch, charts = Watch(text, list(report.splits)), defaultdict[str, list[dict[str, Any]]](list)
    for split in report.splits:
        rules = Filter(SHOWN.model_copy(update={"leaks": split == "train"}), watch)
        for number, row in enumerate(watch.train() if split == "train" else text.rows(split), 1):
            for rule, far in rules.faults(row).items():
                counts[rule, split] += 1
                worst[rule][split] = heapq.nlargest(EXAMPLES, [*worst[rule].get(split, ()), (far, -number, row[0], row[1])])
        src, tgt = (np.asarray(lengths) for lengths in watch.seen[split].lengths)
        ratios = (tgt + 1) / (src + 1)
        drawn = {"characters of a source": src, "characters of a target": tgt, "target to source length in %": np.rint(100 * ratios)}
        for title, values in drawn.items():
            low, high = np.percentile(values, [0.5, 99.5], method="nearest")
            found = zip(*np.unique(values[(values >= low) & (values <= high)], return_counts=True), strict=True)
            charts[title] += [{"split": split, "x": int(x), "y": round(100 * int(y) / len(values), 4)} for x, y in found]
        splits[split] = {
            "pairs": f"{len(src):,}",
            "characters (median)": f"{np.median(src):.0f} / {np.median(tgt):.0f}",
            "longest": f"{src.max():,} / {tgt.max():,}",
            "target / source": f"{np.median(ratios):.2f}",
            "unknown characters": " / ".join(f"{share:.2%}" for share in report.unknown.get(split, ())),
            "unknown subwords": " / ".join(f"{share:.2%}" for share in unknown.get(split, ())),
        }
    for split in watch.held:
        equal, alike = watch.equal[split], watch.alike[split]
        splits[split]["in train (equal + near)"] = f"{len(equal):,} + {len(alike - equal):,}"
    words = {"counts": counts, "worst": worst, "rules": SHOWN.model_dump(), "words": field_texts(Rules)}
    return report, {"warnings": report.warnings, "splits": splits, "charts": charts, **words}
