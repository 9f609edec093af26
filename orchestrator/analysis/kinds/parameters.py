"""Parameters of rows in percent of their baselines', counted in the built models (Shen et al. 2018, sections 5.2 and 5.3).

The baseline of a row is the first row on the same corpus with as many encoder layers. The paper's percentage is given in `expect` of the
analysis row, under the address without the paper (`table5/row5: 80`); otherwise it is the ratio of the two printed sizes.
"""

from __future__ import annotations

from typing import Any

from orchestrator.analysis.base import Analysis, AnalysisContext, Records, Subject
from orchestrator.analysis.registry import register
from orchestrator.specs.table import number
from orchestrator.sweeps import parameters
from orchestrator.sweeps.plan import Data

SHOWN = ["label", "corpus", "params", "paper_params", "params_pct", "paper_pct"]


@register("parameters", needs_runs=False)
def analyse(context: AnalysisContext) -> Analysis:
    """Returns one record per row, with the vocabulary sizes of the spec or the prepared corpus. Raises UserError if a row has neither."""
    records: Records = []
    for subject in context.subjects:
        sizes = Data(context.data_dir, context.cache_dir).vocabulary_sizes(subject.spec)
        if sizes is None:
            prepared = context.prepared(subject)
            sizes = prepared.src_size, prepared.tgt_size
        records.append(_record(subject, sizes, records))
    notes = ["params_pct: in percent of the first row on the same corpus with as many encoder layers"]
    return Analysis("parameters", records, notes=notes, summary=summary(records), shown=SHOWN)


def _record(subject: Subject, sizes: tuple[int, int], previous: Records) -> dict[str, Any]:
    row, spec = subject.row, subject.spec
    corpus, layers = str(spec.data.corpus), spec.model.encoder.num_layers
    params, printed = parameters.params(spec, *sizes), number(row.expect.get("params"))
    base = next((r for r in previous if (r["corpus"], r["layers"]) == (corpus, layers)), None)
    paper = None if subject.analysis_row is None else number(subject.expect.get(row.id.partition("/")[2]))
    if paper is None and base is not None and printed and base["paper_params"]:
        paper = round(100.0 * printed / base["paper_params"], 1)
    return {
        "row": row.id,
        "label": subject.label,
        "corpus": corpus,
        "layers": layers,
        "src_vocab": sizes[0],
        "tgt_vocab": sizes[1],
        "params": params,
        "paper_params": printed,
        "baseline": None if base is None else base["row"],
        "params_pct": None if base is None else round(100.0 * params / base["params"], 2),
        "paper_pct": paper,
    }


def summary(records: Records) -> list[str]:
    """Returns lines such as `DenseNMT-8L-2: 39% of the parameters of BASE-8L (paper 40%)`."""
    labels = {r["row"]: r["label"] for r in records}
    compared = [r for r in records if r["baseline"] is not None]
    return [f"{r['label']}: {r['params_pct']:.1f}% of the parameters of {labels[r['baseline']]}{_paper(r)}" for r in compared]


def _paper(record: dict[str, Any]) -> str:
    return "" if record["paper_pct"] is None else f" (paper {record['paper_pct']:g}%)"
