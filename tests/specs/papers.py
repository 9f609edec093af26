"""The 307 rows of Dou 2018, Wang 2018, Hao 2019, Wei 2020 and Shen 2018 as data: address, kind, and which are one training."""

from collections.abc import Iterator


def _rows(table: str, names: str) -> Iterator[str]:
    """`row1-5 row6/en-de` -> dou2018/table2/row1, .."""
    for name in names.split():
        stem, dash, last = name.rpartition("-")
        first = stem.removeprefix("row")
        if dash and first.isdigit() and last.isdigit():
            yield from (f"{table}/row{i}" for i in range(int(first), int(last) + 1))
        else:
            yield f"{table}/{name}"


_PAIRS = " ".join(f"row{i}/{pair}" for i in (6, 7, 8, 9) for pair in ("en-de", "zh-en"))
_HAO = " ".join(f"row{i}/{pair}" for i in (5, 6, 7, 8) for pair in ("zh-en", "en-de"))
_WEI = " ".join(f"row{i}/{pair}" for i in range(1, 7) for pair in ("en-de", "de-en", "en-fr"))
CORPORA = ("de-en", "tr-en", "tr-en-morph")
_SHEN = [f"row{i}/{corpus}" for i in range(1, 7) for corpus in CORPORA]
HOPS = (1, 2, 4, 6, 8, 10, 12, 14, 16, 18)
STEPS = (1, 2, 4, 6, 8, 10, 12, "J")

RUN = [
    *_rows("dou2018/table1", "row1-10"),
    *_rows("dou2018/table2", _PAIRS),
    *_rows("dou2018/table3", "row1-4"),
    *_rows("dou2018/table4", "row1-6"),
    *_rows("mlrf2018/table2", "row8-22"),
    *_rows("mlrf2018/table3", "row4-13"),
    *_rows("mlrf2018/table4", "row1-9"),
    *(f"mlrf2018/fig3/hop{hops}" for hops in HOPS),
    "mlrf2018/fig4/curve2",
    *_rows("hao2019/table1", "row1-5"),
    *_rows("hao2019/table2", "row1-5"),
    *_rows("hao2019/table3", _HAO),
    *_rows("hao2019/table4", "row1-5"),
    *(f"hao2019/fig5/T{steps}" for steps in STEPS),
    *_rows("wei2020/table2", _WEI),
    *_rows("wei2020/table3", "row1-6"),
    *_rows("wei2020/table4", "row8-14"),
    *_rows("wei2020/table5", "row1-7"),
    *_rows("wei2020/table6", "row7-9"),
    *_rows("wei2020/fig2", "plain36 plain72 msc36 msc72"),
    *(f"shen2018/table1/{name}-e{size}" for name in _SHEN for size in (64, 128, 256)),
    *(f"shen2018/table2/{name}" for name in _SHEN),
    *_rows("shen2018/table3", "row2-4"),
    *_rows("shen2018/table4", "row5-7"),
    *_rows("shen2018/table5", "row5"),
    "shen2018/fig5/convs2s-rerun",
]
QUOTED = [
    *_rows("dou2018/table2", "row1-5"),
    *_rows("mlrf2018/table2", "row1-7"),
    *_rows("mlrf2018/table3", "row1-3"),
    *_rows("hao2019/table3", "row1-4"),
    *_rows("wei2020/table4", "row1-7"),
    *_rows("wei2020/table6", "row2-6"),
    *_rows("shen2018/table3", "row1"),
    *_rows("shen2018/table4", "row1-4"),
    *_rows("shen2018/table5", "row1-4"),
]
ANALYSIS = [
    *_rows("dou2018/fig4", "base hier hier-div"),
    *_rows("dou2018/fig5", "a b"),
    "dou2018/text/significance",
    *_rows("mlrf2018/table1", "row1-4"),
    *_rows("mlrf2018/fig4", "curve1 curve3"),
    "mlrf2018/fig5/all-hops",
    "mlrf2018/text/train-speed",
    *_rows("hao2019/table5", "row1-5"),
    "hao2019/text/significance",
    *_rows("wei2020/table1", "col1 col2 col3"),
    "wei2020/table6/row1",
    *_rows("wei2020/fig3", "simple ordinary difficult challenging"),
    "wei2020/fig4/maps",
    "wei2020/fig5/norms",
    *_rows("wei2020/fig6", "case1 case2"),
    *_rows("shen2018/fig4", "left middle right"),
    "shen2018/fig5/loss",
    *_rows("shen2018/text", "speed params"),
]
KINDS = dict.fromkeys(RUN, "run") | dict.fromkeys(QUOTED, "quoted") | dict.fromkeys(ANALYSIS, "analysis")

SAME = {
    "dou2018/table2/row6/en-de": "dou2018/table1/row1",
    "dou2018/table2/row7/en-de": "dou2018/table1/row9",
    "dou2018/table3/row1": "dou2018/table1/row1",
    "dou2018/table3/row4": "dou2018/table1/row9",
    "dou2018/table4/row1": "dou2018/table1/row1",
    "dou2018/table4/row4": "dou2018/table1/row9",
    "mlrf2018/table4/row1": "mlrf2018/table2/row13",
    "mlrf2018/table4/row4": "mlrf2018/table2/row18",
    "mlrf2018/table4/row7": "mlrf2018/table2/row22",
    "mlrf2018/fig3/hop4": "mlrf2018/table2/row18",
    "mlrf2018/fig3/hop6": "mlrf2018/table2/row19",
    "hao2019/table2/row1": "hao2019/table1/row1",
    "hao2019/table2/row4": "hao2019/table1/row5",
    "hao2019/table3/row5/en-de": "hao2019/table1/row1",
    "hao2019/table3/row6/en-de": "hao2019/table1/row5",
    "hao2019/table4/row1": "hao2019/table1/row1",
    "hao2019/table4/row5": "hao2019/table1/row5",
    "hao2019/fig5/T8": "hao2019/table1/row5",
    "wei2020/table3/row3": "wei2020/table2/row3/en-de",
    "wei2020/table3/row6": "wei2020/table2/row6/en-de",
    "wei2020/table5/row1": "wei2020/table2/row6/en-de",
    "wei2020/fig2/msc36": "wei2020/table2/row3/en-de",
    "wei2020/fig2/msc72": "wei2020/table2/row6/en-de",
    **{f"shen2018/table2/row{i}/{name}": f"shen2018/table1/row{j}/{name}-e256" for i, j in ((1, 1), (5, 2), (6, 3)) for name in CORPORA},
    "shen2018/table3/row2": "shen2018/table1/row4/tr-en-morph-e256",
    "shen2018/table3/row3": "shen2018/table1/row6/tr-en-morph-e256",
    "shen2018/table4/row6": "shen2018/table1/row5/de-en-e256",
    "shen2018/table4/row7": "shen2018/table1/row6/de-en-e256",
}
"""Row -> the row that is the same training."""

OWN = {
    "dou2018/table1/row1-continued": None,
    "dou2018/table1/row2-layer-outputs": None,
    "dou2018/table1/row2-final-norm": None,
    "dou2018/table1/row3-narrow": None,
    "dou2018/table4/row4-no-diversity": "dou2018/table1/row5",
    "mlrf2018/table2/row19-w1-hop": None,
    "mlrf2018/table2/row19-hops-16": "mlrf2018/fig3/hop16",
    "mlrf2018/fig3/baseline": "mlrf2018/table2/row9",
    "mlrf2018/table4/baseline": "mlrf2018/table2/row9",
    "hao2019/table1/row1-continued": None,
    "hao2019/table1/row5-positions": None,
    "hao2019/table3/row8-all/zh-en": None,
    "hao2019/table3/row8-all/en-de": None,
    "hao2019/table4/row2-sinusoids": None,
    "hao2019/table4/row3-layers": None,
    "hao2019/table2/row1-continued": "hao2019/table1/row1-continued",
    "hao2019/fig5/baseline": "hao2019/table1/row1",
    "hao2019/fig5/baseline-continued": "hao2019/table1/row1-continued",
    "wei2020/table2/row4-three-norms/en-de": None,
    "wei2020/table2/row6-three-norms/en-de": None,
    "wei2020/table3/plain6": "wei2020/table2/row1/en-de",
    "wei2020/table3/plain36": "wei2020/fig2/plain36",
    "wei2020/table3/row4-post-norm": None,
    "shen2018/table5/row5-glu-conv3": None,
}
"""Rows that are not the papers' -> the row that is the same training, if one is."""

PAPERS = [f"search_spaces/{paper}" for paper in dict.fromkeys(name.split("/")[0] for name in KINDS)]
"""Folders with these rows; a folder of one's own beside them has none."""
