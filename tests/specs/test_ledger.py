"""The parameter ledger: what our models count against what the papers print, row by row.

Vocabularies of Dou et al. are not printed: sizes are chosen that meet the counts of the base models (V_src + 2 V_tgt = 85,650 for En-De,
124,650 for Zh-En), and meet those of the big ones then. Wang et al. print theirs; their counts are met to the last printed digit where four
special tokens come on top and numbers are cut (`cut`), or with the printed sizes and rounded numbers (`round`), but for those in MISSED.

Hao et al. print none either; the sizes that base/hao2019.yaml declares meet the base models' counts, and the big ones' then. Their +9.4M is
met; their +69.4M for Big is not met by the model of the text (top layer) and nearly by the one that all decoder layers read.

Wei et al.: 10,152 types meet the small plain model, 37,000 the base and 33,700 the big one. Small MSC models are met (54 and 72 layers with
three norms for the context); base ones are reported 10M, big ones 7M lower than counted.
"""

import math

import pytest

from orchestrator.specs.row import Row
from orchestrator.specs.rows import resolve
from orchestrator.specs.table import number
from orchestrator.sweeps.parts import declared, params

EN_DE, ZH_EN = 28_550, 41_550
PRINTED, SPECIALS = (8_389, 6_428), 4

BASE, BIG = 44_138_496, 176_357_376
"""Bodies without embeddings."""


def body(d: int) -> int:
    return {512: BASE, 1024: BIG}[d]


def node(d: int, inputs: int) -> int:
    """W1: 4d x nd, W2: d x 4d, biases, LN."""
    return 4 * d * inputs * d + 4 * d + 4 * d * d + d + 2 * d


def attention(d: int, wide: int = 1) -> int:
    """Q, K, V: wide d -> d; O: d -> d; biases."""
    return 3 * (wide * d * d + d) + d * d + d


def hierarchical(d: int) -> int:
    return 2 * (node(d, 2) + 2 * node(d, 3))


ADDED = {
    "row2": 0, "row2-layer-outputs": 0, "row2-final-norm": 2 * 2 * 512, "row3": 2 * (4 * 512 * 6 * 512 + 4 * 512 + 4 * 512 * 512 + 512),
    "row3-narrow": 2 * 6 * 512 * 512, "row4": 2 * 5 * node(512, 2), "row5": hierarchical(512),
    "row6": 2 * 4 * (attention(512) + node(512, 2)), "row7": 2 * 3 * (2 * attention(512) + node(512, 3)), "row8": 2 * 5 * node(512, 2),
    "row9": hierarchical(512), "row10": 2 * 4 * (attention(512) + node(512, 2)), "row1-continued": 0,
}  # fmt: skip
"""dou2018/table1: the ledger's reading of what a variant adds (figures of the ledger: 14.685M, 31.493M, 23.090M, 33.600M, 37.795M)."""

MLRF = {
    "row8": (10_974_748, 10_977_824), "row9": (10_974_748, 10_977_824), "row10": (12_817_948, 12_821_024),
    "row11": (16_504_348, 16_507_424), "row12": (10_975_260, 10_978_336), "row13": (11_632_412, 11_635_488),
    "row14": (11_898_652, 11_901_728), "row15": (12_162_844, 12_165_920), "row16": (10_975_260, 10_978_336),
    "row17": (11_632_412, 11_635_488), "row18": (11_898_652, 11_901_728), "row19": (12_162_844, 12_165_920),
    "row20": (12_289_052, 12_292_128), "row21": (12_821_532, 12_824_608), "row22": (12_555_292, 12_558_368),
    "row19-w1-hop": (13_473_564, 13_476_640), "row19-hops-16": (13_483_804, 13_486_880),
}  # fmt: skip
"""mlrf2018/table2: with the printed vocabularies; with four special tokens more on each side."""

MISSED = {
    "row12": "round: the norm of AVG, 512 parameters, prints 10.98",
    "row16": "round: the norm of AVG, 512 parameters, prints 10.98",
    "row19": "round and cut: the reported 13.47M is not a shared-W1 module of six hops; see row19-w1-hop and row19-hops-16",
    "row22": "round: 292 parameters too many for 12.55",
}


HAO = {
    "table3/row6/zh-en": (36, 23), "table3/row6/en-de": (36, 23), "table3/row8/zh-en": (36, 23), "table3/row8/en-de": (36, 23),
    "table3/row8-all/zh-en": (66, 53), "table3/row8-all/en-de": (66, 53), "table1/row2": (204, 102), "table1/row3": (221, 108),
    "table1/row4": (110, 57), "table1/row5": (36, 23), "table1/row5-positions": (36, 23),
    "table1/row1-continued": (0, 0), "table2/row2": (38, 24), "table2/row3": (78, 59), "table2/row5": (66, 53), "table4/row3": (0, 0),
    "table4/row4": (105, 44), "table4/row3-layers": (0, 0), "fig5/T1": (36, 23), "fig5/TJ": (36, 23),
    "table4/row2": (0, 792), "table4/row2-sinusoids": (0, 792),
}  # fmt: skip
"""What a recurrence encoder and its use add: (a, b) of a d^2 + b d.

One layer over embeddings: two GRUs 2 (6 d^2 + d), additive attention 2 d^2 + d, FFN 16 d^2 + 6 d, two norms 8 d; over the layer below,
which is 2d wide, 7 d^2 more; a decoder layer's attention 6 d^2 + 4 d and norm 2 d; a gate 2 d^2 + d. BiRNN has no additive attention; the
column of table4/row4 no FFN either, and is merged by 3 d^2 and norms of 8 d. Relative positions: two tables of 33 x 64 a layer and head.
"""


WEI = {
    "table2/row1/en-de": (10_507_264, "met"), "table2/row2/en-de": (15_642_112, "met"), "table2/row3/en-de": (43_305_472, "met"),
    "table2/row4/en-de": (59_903_488, "0.1M low"), "table2/row5/en-de": (76_501_504, "0.1M low"),
    "table2/row6/en-de": (76_501_504, "0.1M low"), "table2/row4-three-norms/en-de": (59_964_928, "met"),
    "table2/row6-three-norms/en-de": (76_581_376, "met"), "table4/row8": (63_084_544, "met"), "table4/row9": (83_577_856, "10M high"),
    "table4/row10": (225_442_816, "10M high"), "table4/row11": (282_188_800, "10M high"), "table4/row12": (210_870_272, "met"),
    "table4/row13": (292_751_360, "7M high"), "table4/row14": (519_489_536, "7M high"), "fig2/plain36": (26_320_384, ""),
    "fig2/plain72": (45_296_128, ""), "table5/row2": (66_257_920, ""), "table5/row3": (76_500_736, ""), "table5/row4": (48_060_928, ""),
    "table5/row5": (45_296_128, ""), "table5/row6": (101_387_264, ""), "table5/row7": (167_613_440, ""),
}  # fmt: skip
"""wei2020: counted with the declared vocabularies, and how that compares with what the paper prints (nothing: it prints none).

A plain layer has 4 (d^2 + d) + 2 d f + f + 5 d, its context 4 (d^2 + d) + 2 d^2 + 3 d, the GRU 6 d^2 + 6 d: 30 layers with a context are
between rows 2 and 3 of table 2, and 9 and 10 of table 4; in table 5 row4 has a context in six decoder layers, row1 in 72 layers more."""


def rows(table: str) -> dict[str, Row]:
    return {row.id.split("/", 2)[2]: row for row in resolve(table) if row.spec is not None}


@pytest.mark.parametrize("name", [n for n in ADDED if n != "row1"])
def test_what_the_variants_of_dou_add(name: str) -> None:
    table = rows("dou2018/table1")
    base = params(table["row1"].spec, EN_DE, EN_DE)
    added = params(table[name].spec, EN_DE, EN_DE) - base
    assert added == ADDED[name]
    reported = number(table[name].expect.get("params_added"))
    assert reported is None or f"{added / 1e6:.1f}" == f"{reported / 1e6:.1f}"


@pytest.mark.parametrize("name", [f"row{i}/{pair}" for i in (6, 7, 8, 9) for pair in ("en-de", "zh-en")])
def test_the_models_of_dou(name: str) -> None:
    row = rows("dou2018/table2")[name]
    d, size = row.spec.model.d_model, EN_DE if name.endswith("en-de") else ZH_EN
    counted = params(row.spec, size, size)
    assert counted == body(d) + d + 3 * size * d + (hierarchical(d) if name[3] in "79" else 0)
    assert f"{counted / 1e6:.0f}M" == row.expect["params"]


def test_sides_and_options_of_the_nodes() -> None:
    sides, options = rows("dou2018/table3"), rows("dou2018/table4")
    base = params(sides["row1"].spec, EN_DE, EN_DE)
    counted = {name: params(row.spec, EN_DE, EN_DE) - base for name, row in sides.items()}
    assert counted == {"row1": 0, "row2": hierarchical(512) // 2, "row3": hierarchical(512) // 2, "row4": hierarchical(512)}
    added = {name: params(row.spec, EN_DE, EN_DE) - base for name, row in options.items()}
    attending = 2 * (attention(512, 2) + 2 * attention(512, 3) + 3 * 2 * 512)
    assert added.pop("row1") == 0 and added.pop("row6") == attending and f"{attending / 1e6:.2f}" == "14.17"
    assert set(added.values()) == {hierarchical(512)}


@pytest.mark.parametrize("name", list(MLRF))
def test_the_models_of_wang(name: str) -> None:
    row = rows("mlrf2018/table2")[name]
    assert row.spec.data.vocab.model_dump() == dict(zip(("src", "tgt"), PRINTED, strict=True))
    rounded, cut = (params(row.spec, *(size + more for size in PRINTED)) for more in (0, SPECIALS))
    assert (rounded, cut) == MLRF[name]
    reported = row.expect.get("params")
    met = {"round": f"{rounded / 1e6:.2f}M" == reported, "cut": f"{math.floor(cut / 1e4) / 100:.2f}M" == reported}
    verdict = MISSED.get(name, "" if reported else "not in the paper")
    if reported is not None:
        assert [how for how, ok in met.items() if not ok] == [how for how in met if how in verdict.split(":")[0]]


def test_fusion_options_of_wang() -> None:
    """Word embedding: a state less for the FNN (d_f x d) and a row less of the layer embedding, which is one table for both sides."""
    table = rows("mlrf2018/table4")
    counted = {name: params(row.spec, *PRINTED) for name, row in table.items()}
    d, d_f, states = 256, 512, 4
    for full, no_layers, no_words in (("row1", "row2", "row3"), ("row4", "row5", "row6"), ("row7", "row8", "row9")):
        assert counted[full] - counted[no_layers] == states * d
        assert counted[full] - counted[no_words] == d + (d_f * d if full != "row4" else 0)


@pytest.mark.parametrize("name", [f"row{i}/{pair}" for i in (5, 7) for pair in ("zh-en", "en-de")])
def test_the_baselines_of_hao(name: str) -> None:
    row = rows("hao2019/table3")[name]
    d, sizes = row.spec.model.d_model, declared(row.spec)
    counted = params(row.spec, *sizes)
    assert counted == body(d) + d + (sizes[0] + 2 * sizes[1]) * d
    assert f"{counted / 1e6:.1f}M" == row.expect["params"]


@pytest.mark.parametrize("name", list(HAO))
def test_what_the_recurrence_of_hao_adds(name: str) -> None:
    table, _, row_name = name.partition("/")
    row = rows(f"hao2019/{table}")[row_name]
    d, a, b = row.spec.model.d_model, *HAO[name]
    sizes = declared(row.spec)
    added = params(row.spec, *sizes) - params(row.parent.spec, *sizes)
    assert added == a * d * d + b * d
    reported = number(row.expect.get("params_added"))
    met = reported is None or f"{added / 1e6:.1f}" == f"{reported / 1e6:.1f}"
    assert met == ("/row8" not in name)


@pytest.mark.parametrize("name", list(WEI))
def test_the_models_of_wei(name: str) -> None:
    table, _, row_name = name.partition("/")
    row = rows(f"wei2020/{table}")[row_name]
    sizes = declared(row.spec)
    counted = params(row.spec, *sizes)
    expected, verdict = WEI[name]
    assert counted == expected
    if (reported := row.expect.get("params")) is not None:
        digits = 1 if "." in str(reported) else 0
        off = round(counted / 1e6, digits) - (number(reported) or 0.0) / 1e6
        said = {"met": (0.0, 0.0), "0.1M low": (-0.1, -0.1), "10M high": (10.0, 11.0), "7M high": (7.0, 7.0)}[verdict]
        assert said[0] - 1e-6 <= off <= said[1] + 1e-6
        assert verdict == "met" or "three-norms" in row.note or "lower than counted" in row.note, "a table says why"
