"""Where a component cannot stand, or an option does nothing: one line at its place."""

import pytest
import yaml

from orchestrator.specs.components import check_components

HYPER = "{residual: {kind: hyper}}"
SEVERAL = "whose stream is several tensors; expected"
NO_NORMS = "whose layers have no norms; expected residual"
CASES = [
    # changes of a pre-norm model with four layers on each side, the place of the line, what it says
    ("norm: post, encoder: {layer: {kind: runge_kutta}}", "encoder.layer", "found norm post; expected pre"),
    ("encoder: {layer: {kind: runge_kutta, order: 4}}", "encoder.layer", "found order 4 with coefficients gate; expected 2"),
    ("encoder: {layer: {kind: runge_kutta}, self_attention: {kind: value_residual}}", "encoder.self_attention.kind", "which runs 2 times"),
    ("encoder: {connection: {kind: corrector}, self_attention: {kind: multi_layer}}", "encoder.self_attention.kind", "layers run 2 times"),
    ("encoder: {layer: {kind: runge_kutta}, residual: {kind: hyper}}", "encoder.residual.kind", "found hyper with layer runge_kutta"),
    ("encoder: {residual: {kind: deepnorm}}", "encoder.residual", "found norm pre; expected post with residual deepnorm"),
    ("norm: post, decoder: {residual: {kind: rezero}}", "decoder.residual", "expected norm pre"),
    ("encoder: {residual: {kind: laurel, weights: false}}", "encoder.residual", "expected weights true or rank"),
    ("encoder: {residual: {kind: rezero}, connection: {kind: dlcl}}", "encoder.connection.kind", NO_NORMS),
    ("encoder: {residual: {kind: rezero}}, bridge: {kind: transparent}", "bridge.kind", "expected"),
    ("head: {kind: groups, size: 3}", "head", "size is 3; expected a part of num_layers 4, so that there are two groups or more"),
    ("head: {kind: groups}, decoder: {aggregation: {kind: linear}}", "decoder.aggregation.kind", "expected top"),
    (f"head: {{kind: groups}}, decoder: {HYPER}", "decoder.residual.kind", "found hyper with head groups; expected plain"),
    ("head: {kind: surface_fusion}, bridge: {kind: transparent}", "bridge.kind", "which reads the encoder's output; expected"),
    ("encoder: {residual: {kind: hyper}, connection: {kind: dlcl}}", "encoder.connection.kind", SEVERAL),
    ("decoder: {residual: {kind: hyper}, aggregation: {kind: linear}}", "decoder.aggregation.kind", SEVERAL),
    ("decoder: {residual: {kind: hyper}, self_attention: {kind: multi_layer}}", "decoder.self_attention.kind", SEVERAL),
    ("encoder: {residual: {kind: mudd}, self_attention: {kind: relative}}", "encoder.self_attention.kind", SEVERAL),
    (f"encoder: {HYPER}, bridge: {{kind: transparent}}", "bridge.kind", SEVERAL),
    (f"encoder: {HYPER}, context: {{kind: multiscale, blocks: 2}}", "context.kind", SEVERAL),
    (f"encoder: {HYPER}, regularizers: [{{kind: diversity}}]", "regularizers.0.kind", SEVERAL),
    ("encoder: {residual: {kind: manifold_hyper, temperature: 0.5, manifold: permutations}}", "encoder.residual", "where it does nothing"),
    ("encoder: {residual: {kind: manifold_hyper, weights: softmax, post_scale: 1.0}}", "encoder.residual", "where it does nothing"),
    ("encoder: {residual: {kind: manifold_hyper, manifold: permutations, iterations: 9}}", "encoder.residual", "where it does nothing"),
    ("encoder: {layer: {kind: runge_kutta, coefficients: fixed, per: layer}}", "encoder.layer", "where it does nothing"),
    ("encoder: {residual: {kind: mudd, norms: code, ways: 1}}", "encoder.residual", "expected printed"),
    ("encoder: {connection: {kind: dwa, dilation: 5}}", "encoder.connection", "no sum has two states"),
    ("encoder: {connection: {kind: dwa, dilation: 2, period: 3, keeps: units}}", "encoder.connection", "no sum has two states"),
    ("encoder: {connection: {kind: dwa, where: top, period: 2}}", "encoder.connection", "found period with where top"),
    ("encoder: {self_attention: {kind: value_residual, from_layer: 5}}", "encoder.self_attention", "expected 2 to num_layers, 4"),
    ("encoder: {self_attention: {kind: value_residual, share: true, first: 0.25}}", "encoder.self_attention", "found first with share"),
    ("encoder: {self_attention: {kind: value_residual, form: interpolate, own: 1.0}}", "encoder.self_attention", "found own with form"),
    ("encoder: {self_attention: {kind: value_residual, learn: false, rate: 10.0}}", "encoder.self_attention", "where it does nothing"),
    ("decoder: {self_attention: {kind: directional}}", "decoder.self_attention", "in the decoder"),
    ("encoder: {self_attention: {kind: directional}}, num_heads: 1", "encoder.self_attention", "half of the heads; num_heads is 1"),
    ("encoder: {layer: {kind: merged_attention}}", "encoder.layer", "expected it in the decoder alone"),
    ("decoder: {layer: {kind: merged_attention}, self_attention: {kind: relative}}", "decoder.self_attention.kind", "expected single"),
    ("encoder: {residual: {kind: multi_head_depth_attention, heads: 3}}", "encoder.residual", "expected a divisor of d_model"),
    ("encoder: {residual: {kind: fractions, parts: 5}}", "encoder.residual", "expected a divisor of d_model"),
    ("encoder: {residual: {kind: manifold_hyper, manifold: identity, last: columns}}", "encoder.residual", "where it does nothing"),
    ("decoder: {num_layers: 1}, regularizers: [{kind: diversity}]", "regularizers.0", "decoder.num_layers is 1; expected 2 or more"),
    ("bridge: {kind: depth_attention}", "encoder.residual.kind", "expected depth_attention"),
    ("encoder: {residual: {kind: keel}}", "encoder.residual", "found norm pre; expected post with residual keel"),
]
FINE = [
    "encoder: {residual: {kind: rezero}}, decoder: {residual: {kind: rezero}}",
    "encoder: {residual: {kind: rezero, norms: keep}, connection: {kind: dlcl}}",
    f"head: {{kind: surface_fusion}}, decoder: {HYPER}",
    f"encoder: {HYPER}, decoder: {{residual: {{kind: hyper}}, self_attention: {{kind: relative}}}}",
    f"encoder: {HYPER}, regularizers: [{{kind: diversity, sides: decoder}}]",
    "encoder: {self_attention: {kind: directional, masks: layers}}, num_heads: 1",
]


def problems(text: str) -> list[tuple[str, str]]:
    given = yaml.safe_load(f"{{{text}}}")
    sides = {side: {"num_layers": 4} | given.pop(side, {}) for side in ("encoder", "decoder")}
    found = check_components({"d_model": 16, "num_heads": 2, "norm": "pre"} | sides | given)[1]
    return [(".".join(map(str, problem.path)), problem.message) for problem in found]


@pytest.mark.parametrize(("changes", "path", "message"), CASES)
def test_one_line_where_it_cannot_stand(changes, path, message):
    ((found, line),) = problems(changes)
    assert found == path and message in line and "\n" not in line


@pytest.mark.parametrize("changes", FINE)
def test_what_may_stand_together(changes):
    assert problems(changes) == []
