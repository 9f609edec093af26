"""A plain reference: a Transformer, its loss and its decoders written in torch alone, with torch's defaults.

It imports none of our code, so that it is an independent contender and an independent check: with the same weights (`load`) and no dropout,
its loss equals ours. It uses nn.Linear, nn.LayerNorm, nn.Dropout, scaled_dot_product_attention, cross entropy over all logits and
torch.optim.Adam.

Shapes: B sentences, S source, T target, N = B * K hypotheses, D d_model, H heads, V vocabulary.
"""

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

PAD, BOS, EOS = 0, 2, 3


class Attention(nn.Module):
    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.output = (nn.Linear(d, d) for _ in range(4))

    def split(self, x: Tensor) -> Tensor:
        return x.view(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)

    def forward(self, x: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, *, causal: bool = False) -> Tensor:
        z = F.scaled_dot_product_attention(self.split(self.query(x)), k, v, attn_mask=mask, is_causal=causal)
        return self.output(z.transpose(1, 2).flatten(2))

    def kv(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.split(self.key(x)), self.split(self.value(x))


class Layer(nn.Module):
    """One layer. pre: pre-norm instead of post-norm. cross: the layer also attends to the source."""

    def __init__(self, d: int, d_ff: int, heads: int, dropout: float, *, pre: bool, cross: bool, eps: float) -> None:
        super().__init__()
        self.pre = pre
        self.self_attention = Attention(d, heads)
        self.self_norm = nn.LayerNorm(d, eps)
        self.cross_attention = Attention(d, heads) if cross else None
        self.cross_norm = nn.LayerNorm(d, eps) if cross else None
        self.feed_forward = nn.Sequential(nn.Linear(d, d_ff), nn.ReLU(), nn.Dropout(dropout), nn.Linear(d_ff, d))
        self.ffn_norm = nn.LayerNorm(d, eps)
        self.dropout = nn.Dropout(dropout)

    def _around(self, x: Tensor, norm: nn.Module, function) -> Tensor:  # type: ignore[no-untyped-def]
        if self.pre:
            return x + self.dropout(function(norm(x)))
        return norm(x + self.dropout(function(x)))

    def forward(self, x: Tensor, mask: Tensor | None, memory=None, memory_mask: Tensor | None = None, cache: list | None = None) -> Tensor:
        """memory: (k, v) of the source. mask: source mask, in the encoder only. cache: [k, v] of earlier positions, extended here."""

        def attend(q: Tensor) -> Tensor:
            k, v = self.self_attention.kv(q)
            if cache is not None:
                if cache:
                    k, v = torch.cat((cache[0], k), 2), torch.cat((cache[1], v), 2)
                cache[:] = k, v
            return self.self_attention(q, k, v, mask, causal=self.cross_attention is not None and cache is None)

        x = self._around(x, self.self_norm, attend)
        if self.cross_attention is not None:
            x = self._around(x, self.cross_norm, lambda q: self.cross_attention(q, *memory, memory_mask))
        return self._around(x, self.ffn_norm, self.feed_forward)


class PlainTransformer(nn.Module):
    """A Transformer with three-way tied embeddings, sinusoidal positions and, if pre-norm, a final norm on both sides."""

    def __init__(
        self, vocab: int, d: int, d_ff: int, heads: int, layers: int, dropout: float = 0.1, *, pre: bool = True, eps: float = 1e-6
    ) -> None:
        super().__init__()
        self.d, self.dropout = d, nn.Dropout(dropout)
        self.embedding = nn.Embedding(vocab, d)
        nn.init.normal_(self.embedding.weight, std=d**-0.5)
        self.encoder = nn.ModuleList(Layer(d, d_ff, heads, dropout, pre=pre, cross=False, eps=eps) for _ in range(layers))
        self.decoder = nn.ModuleList(Layer(d, d_ff, heads, dropout, pre=pre, cross=True, eps=eps) for _ in range(layers))
        self.encoder_norm = nn.LayerNorm(d, eps) if pre else nn.Identity()
        self.decoder_norm = nn.LayerNorm(d, eps) if pre else nn.Identity()
        self.bias: Tensor | None = None  # output bias, with which decoding benchmarks disable EOS
        self.register_buffer("positions", _sinusoids(512, d), persistent=False)

    def embed(self, ids: Tensor, past: int = 0) -> Tensor:
        return self.dropout(self.embedding(ids) * math.sqrt(self.d) + self.positions[past : past + ids.shape[1]])

    def encode(self, src: Tensor) -> tuple[Tensor, Tensor]:
        mask = (src != PAD)[:, None, None, :]
        x = self.embed(src)
        for layer in self.encoder:
            x = layer(x, mask)
        return self.encoder_norm(x), mask

    def forward(self, src: Tensor, tgt_in: Tensor) -> Tensor:
        """Returns logits [B, T, V]."""
        memory, mask = self.encode(src)
        x = self.embed(tgt_in)
        for layer in self.decoder:
            x = layer(x, None, layer.cross_attention.kv(memory), mask)
        return self.logits(self.decoder_norm(x))

    def step(self, last: Tensor, past: int, memories: list, mask: Tensor, caches: list[list]) -> Tensor:
        """Returns logits [N, V] after the tokens `last` [N, 1]."""
        x = self.embed(last, past)
        for layer, memory, cache in zip(self.decoder, memories, caches, strict=True):
            x = layer(x, None, memory, mask, cache)
        return self.logits(self.decoder_norm(x))[:, -1]

    def logits(self, hidden: Tensor) -> Tensor:
        return F.linear(hidden, self.embedding.weight, self.bias)

    def load(self, ours: Mapping[str, Tensor]) -> None:
        """Copies the weights of a models.Transformer: a baseline with three-way tied embeddings."""
        with torch.no_grad():
            for name, parameter in self.named_parameters():
                parameter.copy_(ours[our_name(name)])


def loss(model: PlainTransformer, src: Tensor, tgt_in: Tensor, tgt_out: Tensor, smoothing: float) -> Tensor:
    """Returns the mean label-smoothed cross entropy per target token; torch spreads `smoothing` over all words, the gold one included."""
    logits = model(src, tgt_in)
    return F.cross_entropy(logits.flatten(0, 1).float(), tgt_out.flatten(), ignore_index=PAD, label_smoothing=smoothing)


@torch.inference_mode()
def beam_search(model: PlainTransformer, src: Tensor, beam: int, length: int) -> list[list[int]]:
    """Returns the best outputs of exactly `length` tokens. Keys and values are cached, and the source is repeated for each hypothesis.

    EOS must be disabled: finished hypotheses are not handled.
    """
    memory, mask = model.encode(src)
    B = len(src)
    memory, mask = memory.repeat_interleave(beam, 0), mask.repeat_interleave(beam, 0)
    memories = [layer.cross_attention.kv(memory) for layer in model.decoder]
    caches: list[list] = [[] for _ in model.decoder]
    scores = torch.full((B, beam), float("-inf"), device=src.device)
    scores[:, 0] = 0.0
    tokens = torch.full((B * beam, 1), BOS, device=src.device)
    for t in range(length):
        logprobs = model.step(tokens[:, -1:], t, memories, mask, caches).float().log_softmax(-1)
        vocab = logprobs.shape[1]
        if beam == 1:
            best = logprobs.argmax(-1, keepdim=True)
            tokens = torch.cat((tokens, best), 1)
            continue
        total = (scores.view(-1, 1) + logprobs).view(B, -1)
        scores, index = total.topk(beam, dim=1)
        parents = (index // vocab + torch.arange(B, device=src.device)[:, None] * beam).flatten()
        tokens = torch.cat((tokens[parents], (index % vocab).view(-1, 1)), 1)
        for cache in caches:
            cache[:] = [c.index_select(0, parents) for c in cache]
    return tokens.view(B, beam, -1)[:, 0, 1:].tolist()


@torch.inference_mode()
def search_one(model: PlainTransformer, source: list[int], beam: int, limit: int) -> list[int]:
    """The slow path: beam search for one sentence in Python, without cache or length penalty; returns ids without EOS.

    PAD, BOS and empty outputs are excluded. The search ends when no live hypothesis can beat the best finished one, when `beam` hypotheses
    are finished, or at `limit` tokens, EOS included.
    """
    src = torch.tensor([[*source, EOS]])
    memory, mask = model.encode(src)
    alive: list[tuple[float, list[int]]] = [(0.0, [])]
    ended: list[tuple[float, list[int]]] = []
    for length in range(1, limit + 1):
        x = model.embed(torch.tensor([[BOS, *y] for _, y in alive]))
        for layer in model.decoder:
            k, v = layer.cross_attention.kv(memory)
            x = layer(x, None, (k.expand(len(alive), -1, -1, -1), v.expand(len(alive), -1, -1, -1)), mask)
        logprobs = model.logits(model.decoder_norm(x)[:, -1]).log_softmax(-1)
        logprobs[:, [PAD, BOS]] = float("-inf")
        if length == 1:
            logprobs[:, EOS] = float("-inf")
        if length == limit:
            ended += [(score + float(logprobs[i, EOS]), y) for i, (score, y) in enumerate(alive)]
            break
        values, words = logprobs.topk(min(2 * beam, logprobs.shape[1]), dim=1)
        options = [(alive[i][0] + float(v), i, int(w)) for i in range(len(alive)) for v, w in zip(values[i], words[i], strict=True)]
        options.sort(key=lambda option: -option[0])
        ended += [(score, alive[i][1]) for score, i, word in options[:beam] if word == EOS]
        alive = [(score, [*alive[i][1], word]) for score, i, word in options if word != EOS][:beam]
        if ended and (len(ended) >= beam or max(ended)[0] >= alive[0][0]):
            break
    return max(ended, key=lambda hypothesis: hypothesis[0])[1]


def _sinusoids(length: int, d: int) -> Tensor:
    rate = torch.exp(torch.arange(d // 2) * -(math.log(10000.0) / (d // 2 - 1)))
    angle = torch.arange(length)[:, None] * rate
    return torch.cat((angle.sin(), angle.cos()), dim=1)


def our_name(name: str) -> str:
    """Maps a name to ours: encoder.0.self_norm.weight -> encoder.layers.0.self_attention.sublayer.norm.weight."""
    side, _, rest = name.partition(".")
    if side == "embedding":
        return "src_embedding.words.weight"
    if side.endswith("_norm"):
        return f"{side.removesuffix('_norm')}.aggregation.norm.{rest}"
    index, part, *tail = rest.split(".")
    end = ".".join(tail)
    place = {
        "self_attention": f"self_attention.attention.{end}",
        "self_norm": f"self_attention.sublayer.norm.{end}",
        "cross_attention": f"cross_attention.attention.{end}",
        "cross_norm": f"cross_attention.sublayer.norm.{end}",
        "ffn_norm": f"sublayer.norm.{end}",
        "feed_forward": f"feed_forward.{end.replace('0.', 'inner.').replace('3.', 'outer.')}",
    }[part]
    return f"{side}.layers.{index}.{place}"
