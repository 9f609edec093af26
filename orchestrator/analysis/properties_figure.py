"""The property table as a figure: yes and no beside the paper's, and how much each layer's state weighs at random weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from orchestrator.analysis import style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HEADS = {"low_level_accessible": "access to\nlower layers", "parametric": "parametric", "representation_2d": "two-\ndimensional"}


def draw(records: Sequence[Mapping[str, Any]], figure: Figure) -> None:
    """Left: the properties (in brackets the paper's, where it states them). Right: shares of the states z^0..z^L in the output."""
    names = layers(records)
    shares: list[list[float | None]] = [[r.get(name) for name in names] for r in records]
    width = len(names)
    figure.set_size_inches(5.2 + 0.42 * width, 1.5 + 0.45 * len(records))
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=[3.0, 0.5 * width])
    left.imshow([[1.0 if r[name] else 0.0 for name in HEADS] for r in records], cmap="Greens", vmin=-0.2, vmax=2.2, aspect="auto")
    for y, r in enumerate(records):
        for x, name in enumerate(HEADS):
            paper = r[f"paper_{name}"]
            left.text(x, y, _word(r[name]) + ("" if paper is None else f" ({_word(paper)})"), ha="center", va="center", fontsize=8)
    left.set_xticks(range(len(HEADS)), list(HEADS.values()))
    left.set_yticks(range(len(records)), [f"{style.short(r['label'], 28)}\n({r['side']})" for r in records])
    left.set_title("ours (the paper's, Wang et al. 2018, Table 1)")
    high = max(share for row in shares for share in row if share is not None)
    image = style.heat(right, shares, 0.0, high)
    right.set_xticks(range(width), names)
    right.set_xlabel("layer")
    right.set_title("share of each state")
    figure.colorbar(image, ax=right, label="share of the gradient")


def layers(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Columns l0..lL of the deepest row."""
    depth = max(len([name for name in record if name[0] == "l" and name[1:].isdigit()]) for record in records)
    return [f"l{i}" for i in range(depth)]


def _word(value: bool) -> str:
    return "yes" if value else "no"
