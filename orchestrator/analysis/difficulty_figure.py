"""Gains over the baseline by difficulty, BLEU beside them; a line of panels for the row's own test set and for the released split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from orchestrator.analysis import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SPLITS = {"own": "own test set", "released": "released split"}


def draw(records: Sequence[Mapping[str, Any]], figure: Figure) -> None:
    """A colour a row; the number of sentences stands below each quartile."""
    splits = [split for split in SPLITS if any(r["split"] == split for r in records)]
    rows = list(dict.fromkeys((r["row"], r["seed"]) for r in records))
    figure.set_size_inches(9.5, 3.6 * len(splits))
    panels = figure.subplots(len(splits), 2, squeeze=False)
    for line, split in zip(panels, splits, strict=True):
        own = [r for r in records if r["split"] == split and r["quartile"] != "all"]
        _gains(line[0], own, rows)
        _bleu(line[1], own, rows)
        line[0].set_title(f"gain over the baseline, {SPLITS[split]}")
        line[1].set_title(f"BLEU, {SPLITS[split]}")
    handles, labels = panels[0][1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(3, len(handles)))
    figure.suptitle("BLEU by difficulty (Wei et al. 2020, Fig. 3)", fontsize=10)


def _ticks(axes: Axes, records: Sequence[Mapping[str, Any]]) -> list[str]:
    counts = {r["quartile"]: r["sentences"] for r in reversed(records)}
    names = list(dict.fromkeys(r["quartile"] for r in records))
    axes.set_xticks(range(len(names)), [f"{name}\n{counts[name]} sent." for name in names])
    axes.set_xlim(-0.5, len(names) - 0.5)
    axes.grid(axis="y", alpha=0.3)
    axes.set_axisbelow(True)
    return names


def _gains(axes: Axes, records: Sequence[Mapping[str, Any]], rows: Sequence[Any]) -> None:
    names = _ticks(axes, records)
    others = list(enumerate(rows))[1:]
    width = 0.8 / max(1, len(others))
    for place, (index, row) in enumerate(others):
        gain = {r["quartile"]: r["gain"] for r in records if (r["row"], r["seed"]) == row}
        heights = [float("nan") if gain.get(name) is None else gain[name] for name in names]
        axes.bar([x - 0.4 + width * (place + 0.5) for x in range(len(names))], heights, width * 0.92, color=style.colour(index))
    axes.axhline(0.0, color="black", linewidth=0.8)
    axes.set_ylabel("gain [BLEU]")


def _bleu(axes: Axes, records: Sequence[Mapping[str, Any]], rows: Sequence[Any]) -> None:
    names = _ticks(axes, records)
    for index, row in enumerate(rows):
        own = {r["quartile"]: r for r in records if (r["row"], r["seed"]) == row}
        if own:
            heights = [float("nan") if name not in own or own[name]["bleu"] is None else own[name]["bleu"] for name in names]
            label = style.short(next(iter(own.values()))["label"])
            axes.plot(range(len(names)), heights, color=style.colour(index), marker=style.marker(index), label=label)
    axes.set_ylabel(f"BLEU [%], {records[0]['metric']}")
    style.from_zero(axes)
