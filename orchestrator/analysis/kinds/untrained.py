"""What is known of rows without training.

lead: the first sentences of an article as its summary (Lead3 in Wei et al. 2020, Table 6), on the row's own data, scored by ROUGE.

grid: N blocks of M encoder layers, counted in the built model (Wei et al. 2020, Table 1); decoder layer n reads block n.

parameters: in percent of the baseline's (Shen et al. 2018, sections 5.2 and 5.3). The baseline of a row is the first row on the same corpus
with as many encoder layers. The paper's percentage is given in `expect` of the analysis row, under the address without the paper
(`table5/row5: 80`); otherwise it is the ratio of the two printed sizes.

properties: of layer fusions (Wang et al. 2018, Table 1). The top connection and the aggregation of a stack are built, initialised at random
and applied to independent states z^0..z^L:
low_level_accessible   some state below the highest has a gradient at the output
parametric             the shares of the states in the output (norms of their gradients) change when the parameters are redrawn
representation_2d      attention with several hops weights the states: the fusion gives a matrix (hops x d), not a vector
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from models.config import ModelConfig, options
from models.registry import AGGREGATIONS, CONNECTIONS, REGISTRIES
from models.site import Flow, History, Site
from models.transformer import build
from orchestrator.analysis.base import Analysis, AnalysisContext, Records, Subject, register
from orchestrator.data.sentences import JOINT, sentences_of
from orchestrator.errors import UserError
from orchestrator.scoring.rouge import ROUGE, rouge
from orchestrator.specs.base import Positive
from orchestrator.specs.bleu_tokenizer import rouge_tokenizer_of
from orchestrator.specs.components import slots
from orchestrator.specs.schema import ModelSpec
from orchestrator.specs.table import number
from orchestrator.sweeps import parts

GRID = ("encoder_layers", "decoder_layers", "blocks", "layers_per_block")
PROPERTIES = ("low_level_accessible", "parametric", "representation_2d")
ATOL = 1e-9


@register("lead", options={"sentences": (Positive, 3)}, needs_runs=False)
def analyse_lead(context: AnalysisContext) -> Analysis:
    """Returns one record per corpus and test set of the rows. Raises UserError if their text is missing or has no documents."""
    count = context.options["sentences"]
    records: Records = []
    first = {(s.spec.data.corpus, s.spec.score.test): s for s in reversed(context.subjects)}
    for (corpus, test), subject in reversed(first.items()):
        prepared = context.prepared(subject)
        if not prepared.documents:
            raise UserError(f"{subject.row.id}: corpus {corpus} is of single sentences; expected documents, as in cnn-dailymail")
        leads = lead(prepared.sources(test), count)
        scores = rouge(leads, prepared.reference_text(test), rouge_tokenizer_of(subject.spec.score, prepared.target_language))
        row = (subject.analysis_row or subject.row).id
        record = {"row": row, "label": f"Lead{count}", "corpus": corpus, "test": test, "sentences": count, "summaries": len(leads)}
        records.append(record | {name: round(scores[name], 4) for name in ROUGE} | {"signature": scores["signature"]})
    notes = ["articles are whole here: data.truncate shortens what a model reads, not the lead"]
    return Analysis(records, notes=notes)


def lead(documents: list[str], count: int) -> list[str]:
    return [JOINT.join(sentences_of(line)[:count]) for line in documents]


@register("grid", needs_runs=False)
def analyse_grid(context: AnalysisContext) -> Analysis:
    """Returns one record per row with its grid and the paper's. A model without blocks counts as one block."""
    records: Records = []
    for subject in context.subjects:
        with torch.device("meta"):
            model = build(subject.spec.model.model_dump(), 8, 8)  # the grid does not depend on the vocabulary
        layers, blocks = len(model.encoder.layers), int((model.encoder.context or model.bridge).blocks) or 1
        ours = dict(zip(GRID, (layers, len(model.decoder.layers), blocks, layers // blocks), strict=True))
        records.append({"row": subject.row.id, "label": subject.label} | ours | beside_paper(ours, subject))
    return Analysis(records, notes=disagreements(records), shown=["label", *GRID, "agrees"])


@register("properties", needs_runs=False)
def analyse_properties(context: AnalysisContext) -> Analysis:
    """Returns one record per row and fusing side (the decoder if none fuses) with the paper's properties.

    Columns l0..lL: share of each state in the output with random weights. Rows that combine states elsewhere, as in a residual of several
    streams, are left out with a note. Raises UserError with the notes if no row remains.
    """
    records, notes = context.each_row(properties_of_row)
    return Analysis(records, notes=notes + disagreements(records), shown=["label", "side", "fusion", *PROPERTIES, "agrees"])


def properties_of_row(context: AnalysisContext, subject: Subject, notes: list[str]) -> Records:
    records: Records = []
    for path, registry, component in slots(subject.spec.model.model_dump()):
        cls, name = REGISTRIES[registry].get(component["kind"]), f"{'.'.join(map(str, path))} {component['kind']}"
        if (registry == "layer" and cls.any_width) or (registry == "residual" and cls.streams) or (registry == "head" and cls.reads_layers):
            notes.append(f"{subject.row.id}: left out: {name} is not covered; properties are of the connection and the aggregation")
            return []
    for side, fusion in fusing_sides(subject.spec.model):
        ours, shares, hops = properties(subject.spec.model, side)
        record = {"row": subject.row.id, "label": subject.label, "side": side, "fusion": fusion} | ours
        record |= beside_paper(ours, subject) | {"hops": hops}
        records.append(record | {f"l{i}": round(share, 6) for i, share in enumerate(shares)})
    return records


def beside_paper(ours: Mapping[str, Any], subject: Subject) -> dict[str, Any]:
    """Returns the paper's figures as paper_NAME, and whether all agree; None if one is missing."""
    paper = {name: value if type(value := subject.expect.get(name)) is type(own) else None for name, own in ours.items()}
    return {f"paper_{name}": value for name, value in paper.items()} | {"agrees": None if None in paper.values() else paper == ours}


def disagreements(records: Records) -> list[str]:
    differing = ((r, [name for name in r if r.get(f"paper_{name}", r[name]) != r[name]]) for r in records if r["agrees"] is False)
    return [f"{r['row']}: differs from the paper's {', '.join(names)}" for r, names in differing]


@register("parameters", needs_runs=False)
def analyse_parameters(context: AnalysisContext) -> Analysis:
    """Returns one record per row, with the vocabulary sizes of the spec or the prepared corpus. Raises UserError if a row has neither."""
    records: Records = []
    for subject in context.subjects:
        row, spec = subject.row, subject.spec
        sizes = context.finder.data.vocabulary_sizes(spec)
        if sizes is None:
            prepared = context.prepared(subject)
            sizes = prepared.src_size, prepared.tgt_size
        corpus, layers = spec.data.corpus, spec.model.encoder.num_layers
        params, printed = parts.params(spec, *sizes), number(row.expect.get("params"))
        base = next((r for r in records if (r["corpus"], r["layers"]) == (corpus, layers)), None)
        paper = None if subject.analysis_row is None else number(subject.expect.get(row.id.partition("/")[2]))
        if paper is None and base is not None and printed and base["paper_params"]:
            paper = round(100.0 * printed / base["paper_params"], 1)
        record = {"row": row.id, "label": subject.label, "corpus": corpus, "layers": layers, "src_vocab": sizes[0], "tgt_vocab": sizes[1]}
        record |= {"params": params, "paper_params": printed, "baseline": None if base is None else base["row"]}
        records.append(record | {"params_pct": None if base is None else round(100.0 * params / base["params"], 2), "paper_pct": paper})
    notes = ["params_pct: in percent of the first row on the same corpus with as many encoder layers"]
    return Analysis(records, notes=notes, shown=["label", "corpus", "params", "paper_params", "baseline", "params_pct", "paper_pct"])


def fusing_sides(model: ModelSpec) -> list[tuple[str, str]]:
    """Returns (side, fusion) for sides that do not simply return their top layer; the decoder if there is none."""
    sides = []
    for side, config in (("encoder", model.encoder), ("decoder", model.decoder)):
        kinds = [part["kind"] for part in (config.connection, config.aggregation) if part["kind"] != "residual"]
        if kinds != ["top"]:
            sides.append((side, " -> ".join(kinds)))
    return sides or [("decoder", "top")]


def properties(model: ModelSpec, side: str) -> tuple[dict[str, bool], list[float], int]:
    """Returns (the properties of one side by name, the shares of the states with random weights, hops)."""
    (shares, hops), (redrawn, _) = (shares_of(model, side, seed) for seed in (1, 2))
    moved = any(abs(a - b) > ATOL for a, b in zip(shares, redrawn, strict=True))
    return dict(zip(PROPERTIES, (any(share > ATOL for share in shares[:-1]), moved, hops > 1), strict=True)), shares, hops


def shares_of(model: ModelSpec, side: str, seed: int) -> tuple[list[float], int]:
    """Returns (shares of z^0..z^L in the output, which sum to 1; hops of the layer attention or 0). `seed` draws the parameters."""
    config = ModelConfig.of(model.model_dump())
    own = config.encoder if side == "encoder" else config.decoder
    site = Site(side, 0, own.num_layers, config, shared={})
    connection = CONNECTIONS.get(own.connection["kind"])(site, **options(own.connection))
    aggregation = AGGREGATIONS.get(own.aggregation["kind"])(site, **options(own.aggregation))
    _redraw(nn.ModuleList([connection, aggregation]).double().eval(), torch.Generator().manual_seed(seed))
    drawn = torch.Generator().manual_seed(1001)
    z = [_vector(site.d_model, drawn).requires_grad_() for _ in range(own.num_layers + 1)]
    history, flow = History(z[0]), Flow(trace=[])
    for layer, state in enumerate(z[1:], start=1):
        connection(layer, history, flow)
        history.add(state, None)
        history.kept.append(connection.keep(layer, state, history))
    top = connection(own.num_layers + 1, history, flow) if aggregation.reads_top else z[-1]
    output = aggregation(top, history, flow)
    direction = _vector(site.d_model, torch.Generator().manual_seed(1))
    gradients = torch.autograd.grad((output * direction).sum(), z, allow_unused=True)
    norms = [0.0 if g is None else float(g.norm()) for g in gradients]
    hops = max((int(weights.shape[-1]) for module, weights in flow.trace or [] if module is aggregation), default=0)
    return [norm / sum(norms) for norm in norms], hops


def _vector(width: int, generator: torch.Generator) -> Tensor:
    return torch.randn(1, 2, width, generator=generator, dtype=torch.float64)


@torch.no_grad()
def _redraw(module: nn.Module, generator: torch.Generator) -> None:
    """Redraws every parameter; weights are scaled by their width, so that activations neither saturate nor vanish."""
    for parameter in module.parameters():
        scale = 1.0 if parameter.dim() < 2 else parameter.shape[-1] ** -0.5
        parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype) * scale)
