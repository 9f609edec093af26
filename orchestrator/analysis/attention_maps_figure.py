"""Heat maps: a line for each sentence, a column for each row of the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from orchestrator.analysis import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_TOKENS = 40
CELL = 0.21  # inches of a token


def draw(records: Sequence[Mapping[str, Any]], figure: Figure) -> None:
    """Source tokens from left to right, target tokens from above to below; one scale of colours. Long sentences are cut, which is said."""
    rows = list(dict.fromkeys((r["row"], r["seed"]) for r in records))
    sentences = list(dict.fromkeys(r["sentence"] for r in records))
    maps: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for r in records:
        maps.setdefault((r["sentence"], r["row"], r["seed"]), []).append(r)
    heights = [1.3 + CELL * max(_size(m, "position") for key, m in maps.items() if key[0] == s) for s in sentences]
    widths = [1.1 + CELL * max(_size(m, "source_position") for key, m in maps.items() if key[1:] == row) for row in rows]
    figure.set_size_inches(sum(widths) + 0.9, sum(heights) + 0.3)
    panels = figure.subplots(len(sentences), len(rows), squeeze=False, width_ratios=widths, height_ratios=heights)
    high = max(r["weight"] for r in records)
    image: Any = None
    for line, sentence in zip(panels, sentences, strict=True):
        for axes, row in zip(line, rows, strict=True):
            if (own := maps.get((sentence, *row))) is None:
                axes.set_axis_off()
                continue
            image = _map(axes, own, high)
    figure.colorbar(image, ax=panels, label="attention weight, mean over heads", fraction=0.03, aspect=40)
    figure.suptitle("Cross-attention of the top decoder layer (Wei et al. 2020, Figs. 4, 6)", fontsize=10)


def _size(records: Sequence[Mapping[str, Any]], name: str) -> int:
    return int(min(MAX_TOKENS, max(r[name] for r in records) + 1))


def _map(axes: Axes, records: Sequence[Mapping[str, Any]], high: float) -> Any:
    lines, columns = _size(records, "position"), _size(records, "source_position")
    weight = {(r["position"], r["source_position"]): r["weight"] for r in records}
    targets = {r["position"]: r["token"] for r in records}
    sources = {r["source_position"]: r["source_token"] for r in records}
    image = style.heat(axes, [[weight[t, s] for s in range(columns)] for t in range(lines)], 0.0, high)
    axes.set_xticks(range(columns), [style.short(sources[s], 14) for s in range(columns)], rotation=90, fontsize=7)
    axes.set_yticks(range(lines), [style.short(targets[t], 14) for t in range(lines)], fontsize=7)
    axes.xaxis.tick_top()
    cut = f", first {MAX_TOKENS} tokens" if max(len(targets), len(sources)) > MAX_TOKENS else ""
    axes.set_title(f"{style.short(records[0]['label'], 30)}: sentence {records[0]['sentence']}{cut}", fontsize=8)
    return image
