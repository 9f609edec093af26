"""Deep stacks: DLCL, transparent attention, the penalty on the encoder's weights, recomputed layers; against plain transcriptions."""

import pytest
import torch

from models.connections.weighted import RunningMix
from models.transformer import build
from tests.unit.models.model_cases import DEFAULTS, VOCAB, batch, config, variant
from tests.unit.models.test_equations import both, different_values, layer_norm, same


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_dlcl_is_its_equation(norm, side):
    model = build(config(norm, **both(connection={"kind": "dlcl"})), VOCAB, VOCAB, 1).eval()
    different_values(model)
    connection = getattr(model, side).connection
    for l in range(5):
        for k in range(5):
            assert float(connection.weight[l, k]) == pytest.approx(1 / (l + 1) if k <= l else 0.0)
    connection.weight.copy_(torch.randn(5, 5, generator=torch.Generator().manual_seed(1)))
    output = model(*batch())
    h = getattr(output, side)

    def x(l):
        if norm == "pre":
            y = [h.outputs[0]] + [layer_norm(h.outputs[k], connection.norms[k - 1]) for k in range(1, l)]
            return sum(connection.weight[l - 1, k] * y[k] for k in range(l))
        total = sum(connection.weight[l - 1, k] * h.outputs[k] for k in range(l))
        return total if l == 1 else layer_norm(total, connection.norms[l - 2])

    for l in range(1, 5):
        same(h.inputs[l], x(l))
    if side == "decoder":
        same(output.hidden, layer_norm(x(5), model.decoder.aggregation.norm) if norm == "pre" else x(5))


def _mixed(mix, weights, h_0, step):
    """(x_1, .., y_0, ..) where y_l = step(x_l)."""
    ys, xs = [h_0], []
    if mix is not None:
        ys = [mix.put(h_0, 0)]
    for l in range(1, len(weights) + 1):
        row = weights[l - 1, :l]
        xs.append(sum(w * y for w, y in zip(row.unbind(0), ys, strict=True)) if mix is None else mix.read(row))
        if l < len(weights):
            y = step(xs[-1], l)
            ys.append(y if mix is None else mix.put(y, l))
    return xs, ys


@pytest.mark.parametrize("loss", ["top", "all", "states", "middle", "detached"])
def test_running_mix_has_the_gradients_of_the_plain_sum(loss):
    """Also where states are read elsewhere, where the top is not, and where layers do not depend on what they read."""
    results = []
    for plain in (True, False):
        g = torch.Generator().manual_seed(3)
        weights = torch.randn(6, 6, generator=g, dtype=torch.float64).requires_grad_()
        h_0 = torch.randn(2, 3, 4, generator=g, dtype=torch.float64).requires_grad_()
        free = [torch.randn(2, 3, 4, generator=g, dtype=torch.float64).requires_grad_() for _ in range(6)]
        mix = None if plain else RunningMix(6)

        def step(x, l, free=free):
            return torch.tanh((x.detach() if loss == "detached" else x) * free[l])

        xs, ys = _mixed(mix, weights, h_0, step)
        losses = {
            "top": xs[-1].sin().sum(),
            "all": sum(x.sin().sum() for x in xs),
            "states": sum(y.sin().sum() for y in ys) + xs[-1].cos().sum(),
            "middle": xs[3].sin().sum(),
            "detached": xs[5].sin().sum() + xs[2].sin().sum(),
        }
        total = losses[loss]
        leaves = [weights, h_0, *free]
        for _ in range(2):  # the same graph twice
            gradients = torch.autograd.grad(total, leaves, retain_graph=True, allow_unused=True)
        results.append([total.detach()] + [g for g in gradients if g is not None])
    for one, two in zip(*results, strict=True):
        torch.testing.assert_close(one, two)


def saved(model, *given):
    """(bytes that autograd keeps for the backward pass, parameters aside; the output), in training."""
    seen: dict[int, int] = {}

    def pack(t):
        seen[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        output = model.train()(*given)
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}
    return sum(size for place, size in seen.items() if place not in own), output


def test_what_dlcl_saves_grows_with_depth_and_not_with_its_square():
    """Beyond what the plain stack of the same depth saves."""

    def held(connection, layers):
        sides = {side: {"num_layers": layers, "connection": {"kind": connection}} for side in ("encoder", "decoder")}
        size, output = saved(build(config("pre", **sides), VOCAB, VOCAB, 1), *batch())
        return size + sum(m._states.y.numel() * 4 for h in (output.encoder, output.decoder) for m in h.memo.values())

    more = [held("dlcl", layers) - held("residual", layers) for layers in (4, 8, 16)]
    assert more[2] - more[1] < 2.2 * (more[1] - more[0])


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_transparent_attention_is_its_equation(norm):
    settings = config(norm, bridge={"kind": "transparent"}, decoder={"num_layers": 3})
    model = build(settings, VOCAB, VOCAB, 1).eval().requires_grad_(False)
    assert model.bridge.scalars.shape == (5, 3)
    assert not model.bridge.scalars.any()
    assert model.encoder.aggregation is None
    model.bridge.scalars.copy_(torch.randn(5, 3, generator=torch.Generator().manual_seed(1)))
    src, tgt = batch()
    h, memories = model(src, tgt).encoder, model.encode(src).memories
    for m in range(3):
        e = [float(torch.exp(model.bridge.scalars[i, m])) for i in range(5)]
        z = sum(e[i] / sum(e) * h.outputs[i] for i in range(5))
        same(memories[m][0].keys, layer_norm(z, model.bridge.norm) if norm == "pre" else z)


def test_transparent_attention_drops_scalars_about_their_constant():
    """Weights are softmax(drop(0 + 1/5)): with dropout 0.5 each logit is 0 or 0.4, so that kept and dropped states differ by e^0.4."""
    off = dict.fromkeys(("embedding", "residual", "attention", "ffn"), 0.0)
    model = build(config("post", bridge={"kind": "transparent", "dropout": 0.5}, dropout=off), VOCAB, VOCAB, 1).train()
    src, tgt = (ids[1:2] for ids in batch())
    found = set()
    with torch.no_grad():
        history = model(src, tgt).encoder
        states = torch.stack([h.flatten() for h in history.outputs], dim=1)
        for seed in range(4):
            torch.manual_seed(seed)
            for memory in (m for (m,) in model.encode(src).memories):
                weights = torch.linalg.lstsq(states.double(), memory.keys.flatten().double()[:, None]).solution[:, 0]
                found |= {round(float(w), 2) for w in (weights / weights.min()).log()}
    assert found <= {0.0, -0.0, 0.4} and 0.4 in found


# ---------------------------------------------------------------- encoder_l2


def test_encoder_l2_counts_every_matrix_of_the_encoder_once_and_nothing_else():
    settings = variant("self_attention", "contextual", "pre") | {"regularizers": [{"kind": "encoder_l2", "weight": 0.5}]}
    model = build(settings, VOCAB, VOCAB, 1)
    output = model(*batch())
    ((kind, side, weight, total, count),) = model.regularize(output)
    assert (kind, side, weight, float(count)) == ("encoder_l2", "encoder", 0.5, 1.0)
    matrices = {name: p for name, p in model.named_parameters() if name.startswith("encoder.") and p.ndim == 2}
    assert total.item() == pytest.approx(sum(float((p.detach().double() ** 2).sum()) for p in matrices.values()), rel=1e-5)
    (2.0 * total).backward()
    for name, p in model.named_parameters():
        if name in matrices:
            torch.testing.assert_close(p.grad, 4.0 * p)
        else:
            assert p.grad is None


# ---------------------------------------------------------------- recomputed layers


def _step(model, recompute):
    model.recompute(recompute)
    model.zero_grad()
    torch.manual_seed(5)
    src, tgt = batch()
    output = model(src, tgt[:, :-1])
    loss = model.logits(output.hidden).logsumexp(-1).sum() + output.hidden.square().sum()
    loss = loss + sum(weight * total / count for _, _, weight, total, count in model.regularize(output))
    loss.backward()
    return loss.detach(), {name: p.grad for name, p in model.named_parameters()}, torch.get_rng_state()


@pytest.mark.slow
@pytest.mark.parametrize("case", DEFAULTS, ids="-".join)
def test_recomputed_layers_give_the_same_bits_under_dropout(case):
    drop = {"embedding": 0.1, "residual": 0.2, "attention": 0.3, "ffn": 0.1}
    model = build(variant(*case) | {"dropout": drop}, VOCAB, VOCAB, 3).train()
    (kept, kept_grads, after), (again, again_grads, after_again) = _step(model, False), _step(model, True)
    assert torch.equal(kept, again)
    for name, grad in kept_grads.items():
        assert torch.equal(grad, again_grads[name]), name
    assert torch.equal(after, after_again)  # the backward pass leaves the generator where it was


def test_recomputed_layers_hold_their_inputs_alone():
    model = build(config("pre", encoder={"num_layers": 12}), VOCAB, VOCAB, 1)
    all_states = saved(model, *batch())[0]
    model.recompute(True)
    assert saved(model, *batch())[0] < 0.3 * all_states
