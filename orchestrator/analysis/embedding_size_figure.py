"""Panels of BLEU by embedding size: ours above with the seeds' spread, the paper's below, a column a corpus; a colour and mark a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from orchestrator.analysis import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Records = Sequence[Mapping[str, Any]]


def draw(records: Records, figure: Figure) -> None:
    corpora, models = (list(dict.fromkeys(r[name] for r in records)) for name in ("corpus", "model"))
    dense = {r["model"]: r["dense"] for r in records}
    sources = [("bleu", "here", "embedding")]
    sources += [("paper_bleu", "paper", "paper_embedding")] * any(r["paper_bleu"] is not None for r in records)
    figure.set_size_inches(max(6.0, 3.1 * len(corpora) + 0.6), 1.4 + 2.7 * len(sources))
    panels = figure.subplots(len(sources), len(corpora), squeeze=False)
    for line, (field, source, size) in zip(panels, sources, strict=True):
        sizes = sorted({r[size] for r in records})
        for axes, corpus in zip(line, corpora, strict=True):
            for index, model in enumerate(models):
                own = [r for r in records if (r["corpus"], r["model"]) == (corpus, model) and r[field] is not None]
                _line(axes, own, field, size, index, dashed=not dense[model])
            axes.set_title(f"{corpus}, {source}")
            axes.grid(alpha=0.3)
            axes.set_xscale("log", base=2)
            axes.set_xticks(sizes, [str(size) for size in sizes])
            axes.minorticks_off()
            if axes.get_ylim()[0] < 0:
                style.from_zero(axes)
        line[0].set_ylabel("BLEU [%]")
    for axes in panels[-1]:
        axes.set_xlabel("size of the word embeddings")
    handles = {label: handle for axes in panels.flat for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=min(3, len(handles)))
    figure.suptitle("BLEU by embedding size (Shen et al. 2018, Table 1)", fontsize=10)


def _line(axes: Axes, records: Records, field: str, size: str, index: int, *, dashed: bool) -> None:
    """Baselines dashed. Of several seeds mean and sample standard deviation."""
    own = sorted(records, key=lambda r: r[size])
    if not own:
        return
    spread = [(r["spread"] or 0.0) if field == "bleu" else 0.0 for r in own]
    axes.errorbar(
        [r[size] for r in own],
        [r[field] for r in own],
        yerr=spread if any(spread) else None,
        color=style.colour(index),
        marker=style.marker(index),
        markersize=5,
        linestyle="--" if dashed else "-",
        linewidth=1.3,
        capsize=2.5,
        label=style.short(own[0]["model"]),
    )
