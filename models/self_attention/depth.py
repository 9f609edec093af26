"""Self-attention that reads lower layers at the same position: gated values of layer 1, values mixed over depth, and keys of lower layers
beside the keys of the sequence."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.attention import MultiHeadAttention
from models.config import UpTo1000
from models.initialise import drawn
from models.plain import SingleSelfAttention
from models.registry import SELF_ATTENTIONS
from models.self_attention.shared import FIRST
from models.site import Flow, Site


class Gate(nn.Module):
    """relu(W x): [N, S, D] -> [N, S, H]."""

    def __init__(self, site: Site) -> None:
        super().__init__()
        self.weight = drawn(site.num_heads, site.d_model, std=0.02)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(F.linear(x, self.weight))


class SelectiveAttention(MultiHeadAttention):
    """MHA whose values add the gated values of layer 1. Layer 1 itself has plain values."""

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.layer, self.gate = site.layer, Gate(site) if site.layer > 1 else None

    def forward(self, x_NTD: Tensor, keys_NSD: Tensor, flow: Flow, values_NSD: Tensor | None = None) -> Tensor:
        if self.gate is not None:
            flow.memo["gates", self.layer] = self.gate(keys_NSD if values_NSD is None else values_NSD)
        return super().forward(x_NTD, keys_NSD, flow, values_NSD)

    def shared(self, q: Tensor, k: Tensor, v: Tensor, flow: Flow) -> tuple[Tensor, Tensor]:
        if self.gate is None:
            flow.memo[FIRST] = v
            return k, v
        gates = flow.memo["gates", self.layer]
        if flow.packing is not None and gates.shape[:2] != v.shape[:2]:
            gates = flow.packing.unpack(gates)
        first = flow.memo[FIRST].unflatten(-1, (self.num_heads, self.d_head))
        return k, (v + (gates[..., None] * first).flatten(-2)).to(v.dtype)


@SELF_ATTENTIONS.register("selective_values")
class SelectiveValues(SingleSelfAttention):
    """V_l = V + g_l V_1 for layers l > 1, g_l = relu(W_l x_l) one number per position and head (Gunasekaran et al. 2026, SATFormer).

    x_l is the input of the value map: LN(x_l) in pre-norm. W_l has no bias and starts as N(0, .02), as in the authors' code. The cache
    holds the mixed values. Cross-attention has its own values (assumed)."""

    shares = True
    min_layers = 2

    def __init__(self, site: Site) -> None:
        super().__init__(site, SelectiveAttention(site))


class DepthValueAttention(MultiHeadAttention):
    """MHA whose values are mixed over the layers so far. `reads`: the lower layers whose keys and values it reads."""

    def __init__(self, site: Site, stride: int) -> None:
        super().__init__(site)
        self.layer, self.reads = site.layer, range(1, site.layer, stride)
        self.read = (site.layer - 1) % stride == 0

    def shared(self, q: Tensor, k: Tensor, v: Tensor, flow: Flow) -> tuple[Tensor, Tensor]:
        heads = (self.num_heads, self.d_head)
        own, query = torch.stack((k, v)).unflatten(-1, heads), q.unflatten(-1, heads)
        layers = [flow.memo["keys and values", j] for j in self.reads]
        if layers:
            keys, values = torch.stack((*layers, own)).unbind(1)
            shares = ((query * keys).sum(-1, keepdim=True) / math.sqrt(self.d_head)).softmax(0)
            own = torch.stack((own[0], (shares * values).sum(0).to(own.dtype)))
        if self.read:
            flow.memo["keys and values", self.layer] = own
        return k, own[1].flatten(-2)


@SELF_ATTENTIONS.register("depth_values")
class DepthValues(SingleSelfAttention):
    """V'_l = a_l V + sum_{j<l} a_j V'_j, a = softmax_j(q_l . k_j / sqrt(K)) per position and head (Zeng et al. 2026, Depth-Attention).

    It adds no parameters. Layers above read the mixed V' (authors' code), which is cached. Cross-attention has its own values (assumed).

    Args:
        stride: higher layers read layers 1, 1 + stride, 1 + 2 stride, ..; with 1 they read all lower layers. The authors' models use half
            their number of layers as the stride.
    """

    shares = True
    min_layers = 2

    def __init__(self, site: Site, *, stride: UpTo1000 = 1) -> None:
        super().__init__(site, DepthValueAttention(site, stride))


class MixtureOfDepths(MultiHeadAttention):
    """MHA with one softmax over the keys of the sequence and over the keys of the layers below at the query's position."""

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.layer = site.layer

    def shared(self, q: Tensor, k: Tensor, v: Tensor, flow: Flow) -> tuple[Tensor, Tensor]:
        flow.memo["keys and values", self.layer] = torch.stack((k, v))
        return k, v

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, flow: Flow, *, causal: bool = False) -> Tensor:
        """[B, H, T, K], [B, H, S, K] x 2 -> [B, T, H K]"""
        B, H, T, K = q.shape
        below = [flow.memo["keys and values", j].view(2, B, T, H, K).transpose(2, 3) for j in range(1, self.layer)]
        if not below:
            return super()._attend(q, k, v, bias, flow, causal=causal)
        keys, values = torch.stack(below, dim=4).unbind(0)  # [B, H, T, l - 1, K]
        q = q * (1.0 / math.sqrt(K))
        scores = torch.matmul(q, k.transpose(-2, -1))
        scores = torch.cat((scores if bias is None else scores + bias, (q[..., None, :] * keys).sum(-1)), dim=-1)
        weights = scores.softmax(dim=-1)
        if flow.trace is not None:
            flow.trace.append((self, weights[..., : k.shape[2]]))
        sequence, depth = self.dropout(weights).to(v.dtype).split((k.shape[2], len(below)), dim=-1)
        z = torch.matmul(sequence, v) + (depth[..., None] * values).sum(-2)
        return z.transpose(1, 2).flatten(2)


@SELF_ATTENTIONS.register("mixture_of_depths")
class MixtureOfDepthsAttention(SingleSelfAttention):
    """softmax over [q_t . k_s for positions s; q_t . k^j_t for layers j < l] / sqrt(K), times [v_s; v^j_t] (Zhu et al. 2026, MoDA).

    k^j_t, v^j_t: key and value of layer j's self-attention at the query's position. Not implemented: the paper's additional pairs from each
    feed-forward network, which have their own maps. It adds no parameters. Cross-attention has its own keys (assumed).
    """

    shares = True
    min_layers = 2

    def __init__(self, site: Site) -> None:
        super().__init__(site, MixtureOfDepths(site))
