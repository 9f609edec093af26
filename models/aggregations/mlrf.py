"""Fusion of layers by Wang et al. 2018 (MLRF): by averaging, by a feed-forward network, by multi-hop layer self-attention."""

from typing import Literal

import torch
from torch import Tensor, nn

from models.dropout import Dropout
from models.initialise import drawn
from models.registry import AGGREGATIONS
from models.seams import Aggregation
from models.site import Flow, History, Site


class LayerEmbedding(nn.Module):
    """E_first..E_last in R^d, z~^l = z^l + E_l (Wang et al. 2018, section 3.2); one table for both sides, drawn from U(-0.1, 0.1)."""

    def __init__(self, first: int, last: int, d_model: int) -> None:
        super().__init__()
        self.first = first
        self.weight = drawn(last - first + 1, d_model, bound=0.1)

    def forward(self, states: list[Tensor], first: int) -> list[Tensor]:
        return [z + self.weight[first + i - self.first] for i, z in enumerate(states)]


def shared_table(site: Site) -> LayerEmbedding:
    """Returns the model's only layer-embedding table, with a row for every layer index that a side reads."""
    made = site.shared.get("mlrf.layer_embedding")
    if not isinstance(made, LayerEmbedding):
        sides = [(side.num_layers, side.aggregation) for side in (site.config.encoder, site.config.decoder)]
        readers = [(last, a) for last, a in sides if a["kind"].startswith("mlrf-") and a.get("layer_embedding", a["kind"] != "mlrf-avg")]
        first = min(0 if a.get("word_embedding", True) else 1 for _, a in readers)
        made = site.shared["mlrf.layer_embedding"] = LayerEmbedding(first, max(last for last, _ in readers), site.d_model)
    return made


class FusionStates(nn.Module):
    """Returns the states z~^0..z~^L that a fusion layer reads. `words`: include the embedded words z^0. `layers`: add layer embeddings."""

    def __init__(self, site: Site, *, words: bool, layers: bool) -> None:
        super().__init__()
        self.first = 0 if words else 1
        self.count = site.num_layers + 1 - self.first
        self.embedding: nn.Module | None = shared_table(site) if layers else None

    def forward(self, history: History) -> list[Tensor]:
        states = history.kept[self.first :]
        return states if self.embedding is None else self.embedding(states, self.first)


class FusionNetwork(nn.Module):
    """LN(drop(W_b relu(W_a x + b_a) + b_b)), W_a: d_f x d_in, W_b: d x d_f (Wang et al. 2018, 3.2; relu: assumed); no residual."""

    def __init__(self, site: Site, num_inputs: int, d_f: int) -> None:
        super().__init__()
        self.inner = nn.Linear(num_inputs * site.d_model, d_f)
        self.outer = nn.Linear(d_f, site.d_model)
        self.dropout = Dropout(site.config.dropout.residual)
        self.norm = site.layer_norm()

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(self.dropout(self.outer(torch.relu(self.inner(x)))))


@AGGREGATIONS.register("mlrf-avg")
class MlrfAverage(Aggregation):
    """z = LN(mean_{l=0..L} z^l) (Wang et al. 2018, section 3.2). It has no layer embedding, which would only add a constant.

    Args:
        word_embedding: whether the embedded words z^0 are one of the states; else the mean begins with layer 1.
    """

    reads_top = False

    def __init__(self, site: Site, *, word_embedding: bool = True) -> None:
        super().__init__(site)
        self.states = FusionStates(site, words=word_embedding, layers=False)
        self.norm = site.layer_norm()

    def forward(self, x_top: Tensor, history: History, flow: Flow) -> Tensor:
        states = self.states(history)
        return self.norm(sum(states[1:], states[0]) / len(states))


@AGGREGATIONS.register("mlrf-fnn")
class MlrfFeedForward(Aggregation):
    """z = LN(W_b relu(W_a [z~^0;..;z~^L] + b_a) + b_b), z~^l = z^l + E_l (Wang et al. 2018, section 3.2; relu: assumed).

    Args:
        d_f: inner width of the network, the rows of W_a.
        word_embedding: whether the embedded words z^0 are one of the states; else they begin with layer 1.
        layer_embedding: whether E_l is added to the state of layer l; encoder and decoder share one table of E.
    """

    reads_top = False

    def __init__(self, site: Site, *, d_f: int = 512, word_embedding: bool = True, layer_embedding: bool = True) -> None:
        super().__init__(site)
        self.states = FusionStates(site, words=word_embedding, layers=layer_embedding)
        self.network = FusionNetwork(site, self.states.count, d_f)

    def forward(self, x_top: Tensor, history: History, flow: Flow) -> Tensor:
        return self.network(torch.cat(self.states(history), dim=-1))


@AGGREGATIONS.register("mlrf-self-attention")
class MlrfSelfAttention(Aggregation):
    """E_n = tanh(Z~ W1) W2; a = softmax_l(E_n), per hop; s_p = sum_l a_p^l z~^l; z = LN(FNN([s_1;..;s_n_hop])), the FNN that of
    `mlrf-fnn` (Wang et al. 2018, section 3.2; tanh, of Lin et al. 2017, and relu: assumed).

    W1: d x d_a, W2: d_a x n_hop, both without bias. The softmax runs over the layers, separately at each position.

    Args:
        n_hop: number of hops, that is of weighted sums over the layers, which are concatenated.
        d_a: inner width of the energies, the columns of W1.
        d_f: inner width of the network FNN over the hops.
        w1: shared: one W1; layer: W1^l for each state l (footnote 4); hop: W1_p for each hop p, with column p of W2.
        word_embedding: whether the embedded words z^0 are one of the states; else they begin with layer 1.
        layer_embedding: whether z~^l = z^l + E_l, with a learned vector E_l for each layer; encoder and decoder share one table of E.
    """

    reads_top = False

    def __init__(
        self,
        site: Site,
        *,
        n_hop: int = 4,
        d_a: int = 1024,
        d_f: int = 512,
        w1: Literal["shared", "layer", "hop"] = "shared",
        word_embedding: bool = True,
        layer_embedding: bool = True,
    ) -> None:
        super().__init__(site)
        self.states = FusionStates(site, words=word_embedding, layers=layer_embedding)
        copies = {"shared": 1, "layer": self.states.count, "hop": n_hop}[w1]
        maps = [nn.Linear(site.d_model, d_a, bias=False) for _ in range(copies)]
        self.energy_in = maps[0] if w1 == "shared" else nn.ModuleList(maps)
        self.energy_out = nn.Linear(d_a, n_hop, bias=False)
        self.w1 = w1
        self.network = FusionNetwork(site, n_hop, d_f)

    def forward(self, x_top: Tensor, history: History, flow: Flow) -> Tensor:
        z_BTLD = torch.stack(self.states(history), dim=-2)
        a_BTLP = self._energy(z_BTLD).softmax(dim=-2)
        if flow.trace is not None:
            flow.trace.append((self, a_BTLP))
        s_BTPD = a_BTLP.to(z_BTLD.dtype).transpose(-2, -1) @ z_BTLD
        return self.network(s_BTPD.flatten(-2))

    def _energy(self, z_BTLD: Tensor) -> Tensor:
        """[B, T, L+1, D] -> [B, T, L+1, P]"""
        if isinstance(self.energy_in, nn.Linear):
            return self.energy_out(torch.tanh(self.energy_in(z_BTLD)))
        if self.w1 == "layer":
            return self.energy_out(torch.tanh(torch.stack([w(z) for w, z in zip(self.energy_in, z_BTLD.unbind(-2), strict=True)], dim=-2)))
        columns = self.energy_out.weight.split(1)
        return torch.cat([nn.functional.linear(torch.tanh(w(z_BTLD)), w2) for w, w2 in zip(self.energy_in, columns, strict=True)], dim=-1)
