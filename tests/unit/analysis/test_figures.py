"""Colours and markers of rows, sizes of figures, intervals of single rows."""

import math
import struct
from dataclasses import replace
from itertools import product
from typing import Any
from xml.etree import ElementTree

import pytest
from matplotlib.figure import Figure
from scipy.stats import t

from orchestrator.analysis import figures
from orchestrator.analysis.base import Analysis
from orchestrator.analysis.kinds.option_curves import DEPTH, STEPS, half_width
from orchestrator.analysis.kinds.training import accuracy
from orchestrator.report.effects import Effects


def test_labels_are_drawn_as_they_are_written() -> None:
    """A control character would make the SVG no XML, and dollars a formula."""
    label = "\x1b[31m costs $1 or $2_ {"
    (style,) = figures.styles([{"row": "p/t/0", "label": label}]).values()
    for text in (style["label"], figures.short(label), figures.short(figures.short(label))):
        assert text == r"\x1b[31m costs \$1 or \$2_ {"

    analysis = Analysis([], lambda figure, _: figure.subplots().set_title(figures.short(label)))
    assert ElementTree.fromstring(figures.images(analysis, 3.0)["svg"])


def test_a_pdf_has_true_type_fonts_and_no_date(lab, tmp_path) -> None:
    context = lab.context("accuracy", "base", "iter")
    pdf = figures.write("accuracy", accuracy(context), context, tmp_path)["pdf"].read_bytes()
    assert pdf[:5] == b"%PDF-" and b"/FontFile2" in pdf and b"/Type3" not in pdf and b"CreationDate" not in pdf


@pytest.mark.parametrize(("width", "inches"), [("column", figures.COLUMN), ("page", figures.PAGE)])
def test_figures_are_as_wide_as_columns_of_a_paper(lab, tmp_path, width: str, inches: float) -> None:
    context = lab.context("accuracy", "base", "iter")
    png = figures.write("accuracy", replace(accuracy(context), width=width), context, tmp_path)["png"].read_bytes()
    assert struct.unpack(">I", png[16:20])[0] == round(200 * inches)


def test_intervals_are_over_sentences_for_one_seed_and_over_seeds_for_more(own) -> None:
    """Seeds have a common effect, which a mean over seeds contains."""
    rows = [own.rows["base"], own.rows["hier"]]
    for over, seeds in (("sentences", ()), ("seeds", (2, 3))):
        for name, seed in product(("base", "hier"), seeds):
            own.finish(name, spoil=lambda source, longest=6 + seed + 3 * (name == "hier"): len(source.split()) > longest, seed=seed)
        finder = own.context("depth").finder
        effects = Effects(rows, {row.id: finder.outcomes(row) for row in rows}, finder.reader)
        half, found = half_width(effects, rows[0].id)
        assert found == over and half is not None and 1.0 < half < 60.0
    spread, tau2 = effects.spread(rows[0].id), effects.model(rows[0].id).tau2
    assert tau2 > 0 and half == pytest.approx(t.ppf(0.975, spread.df) * math.sqrt((spread.variance + tau2) / 3), abs=1e-3)


def test_categories_have_different_colours() -> None:
    for found in map(figures.colours, (8, 20, 50, 99)):
        assert len({*found}) == len(found) >= 8 and "#440154" not in found, "viridis has an order"


def test_bleu_by_depth_has_a_line_a_method(own) -> None:
    context = own.context("depth", "base", "hier")
    labels = {"base": "plain, 2 layers", "hier": "hierarchical, 2 layers"}
    context.subjects[:] = [own.subject(replace(own.rows[name], label=label)) for name, label in labels.items()]
    made = DEPTH.analyse(context)
    assert [(r["method"], r["layers"]) for r in made.records] == [("plain", 4), ("hierarchical", 4)]
    assert not any("baseline" in note for note in made.notes)


def test_a_baseline_that_others_start_from_gives_way_to_one_trained_as_long() -> None:
    point = {"row": "T1", "label": "x", "figure": "test", "bleu": 12.0, "half_width": 1.0, "over": "sentences", "layers": 1, "steps": 1}
    start = point | {"row": "base", "label": "Base", "bleu": 11.0, "layers": None, "steps": None, "is_start": True}
    control = start | {"row": "control", "label": "Base, trained on (control)", "bleu": 11.5, "is_start": False}

    def labels(*found: dict[str, Any]) -> list[str]:
        figure = Figure(layout="constrained")
        STEPS.draw(figure, list(found))
        return [text.get_text() for text in figure.legends[0].get_texts()]

    assert labels(start, point) == ["Base: 11.00", "layers: 1"]
    assert labels(start, control, point) == ["Base, trained on: 11.50", "layers: 1"]
