"""The heat maps of layer attention: a strip for each sentence with one panel a hop, and the means over the test set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from orchestrator.analysis import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure

MAX_TOKENS = 60
CELL = 0.19  # inches of a token's line


def draw(records: Sequence[Mapping[str, Any]], figure: Figure) -> None:
    """Tokens from above to below, l0..lL from left to right; the means last, hops by layers. Long sentences are cut, which is said."""
    strips = list(dict.fromkeys((r["row"], r["seed"], r["sentence"]) for r in records))
    parts = [[r for r in records if (r["row"], r["seed"], r["sentence"]) == strip] for strip in strips]
    hops, layers = max(r["hop"] for r in records), len({r["layer"] for r in records})
    heights = [1.0 + CELL * _lines(part) for part in parts]
    figure.set_size_inches(2.2 + hops * max(0.85, 0.2 * layers), sum(heights))
    panes = figure.subfigures(len(parts), 1, height_ratios=heights, squeeze=False)[:, 0]
    for pane, part in zip(panes, parts, strict=True):
        if part[0]["sentence"] == "all":
            _means(pane, part)
        else:
            _sentence(pane, part, max(r["weight"] for r in records if r["sentence"] != "all"))


def _lines(part: Sequence[Mapping[str, Any]]) -> int:
    if part[0]["sentence"] == "all":
        return 2 * max(r["hop"] for r in part)
    return min(MAX_TOKENS, max(r["position"] for r in part) + 1)


def _sentence(pane: SubFigure, part: Sequence[Mapping[str, Any]], high: float) -> None:
    layers = list(dict.fromkeys(r["layer"] for r in part))
    tokens = [r["token"] for r in part if r["hop"] == 1 and r["layer"] == layers[0]]
    hops = max(r["hop"] for r in part)
    panels = pane.subplots(1, hops, sharey=True, squeeze=False)[0]
    image: Any = None
    for hop, axes in enumerate(panels, start=1):
        weight = {(r["position"], r["layer"]): r["weight"] for r in part if r["hop"] == hop}
        image = style.heat(axes, [[weight[t, l] for l in layers] for t in range(min(len(tokens), MAX_TOKENS))], 0.0, high)
        axes.set_title(f"hop {hop}")
        axes.set_xticks(range(len(layers)), layers, fontsize=7)
        axes.set_xlabel("layer")
    shown = [style.short(token, 18) for token in tokens[:MAX_TOKENS]]
    panels[0].set_yticks(range(len(shown)), shown, fontsize=7)
    panels[0].set_ylabel("target token")
    cut = f", first {MAX_TOKENS} of {len(tokens)} tokens" if len(tokens) > MAX_TOKENS else ""
    pane.suptitle(f"{style.short(part[0]['label'], 40)}: sentence {part[0]['sentence']}{cut}", fontsize=9)
    pane.colorbar(image, ax=list(panels), label="weight", fraction=0.05)


def _means(pane: SubFigure, part: Sequence[Mapping[str, Any]]) -> None:
    layers, hops = list(dict.fromkeys(r["layer"] for r in part)), max(r["hop"] for r in part)
    axes = pane.subplots()
    weight = {(r["hop"], r["layer"]): r["weight"] for r in part}
    high = max(weight.values())
    image = style.heat(axes, [[weight[hop, l] for l in layers] for hop in range(1, hops + 1)], 0.0, high)
    for (hop, layer), value in weight.items():
        style.write_in(axes, layers.index(layer), hop - 1, f"{value:.2f}", value, 0.0, high)
    axes.set_xticks(range(len(layers)), layers)
    axes.set_yticks(range(hops), [str(hop) for hop in range(1, hops + 1)])
    axes.set_xlabel("layer")
    axes.set_ylabel("hop")
    pane.suptitle(f"{style.short(part[0]['label'], 40)}: mean over the test set", fontsize=9)
    pane.colorbar(image, ax=axes, label="weight", fraction=0.05)
