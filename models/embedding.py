"""Embeddings: words and positions become h_0."""

import functools
import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.dropout import Dropout
from models.initialise import starts_as
from models.linear import linear, output_dim
from models.packing import Packing
from models.site import Site


def sinusoids(start: int, stop: int, d_model: int, device: torch.device) -> Tensor:
    """Returns sinusoids [stop - start, d_model] (Vaswani et al. 2017, section 3.5), first sines, then cosines, as in tensor2tensor."""
    half = d_model // 2
    rate = torch.exp(torch.arange(half, device=device, dtype=torch.float32) * -(math.log(10000.0) / max(half - 1, 1)))
    angle = torch.arange(start, stop, device=device, dtype=torch.float32)[:, None] * rate
    table = torch.cat((angle.sin(), angle.cos()), dim=1)
    return nn.functional.pad(table, (0, d_model - 2 * half))


_kept_sinusoids = functools.lru_cache(maxsize=1024)(sinusoids)
"""Cached for decoding, in which every batch needs the same single positions."""


class InputEmbedding(nn.Module):
    """h_0 = drop(P E[w] * sqrt(d) + b + position). `bias`: whether there is a vector b of length d, as in THUMT on the source side.
    P is a linear map if `word_dim` differs from d_model, else the identity."""

    def __init__(self, site: Site, words: nn.Embedding, *, bias: bool) -> None:
        super().__init__()
        self.words = words
        narrow = words.embedding_dim != site.d_model
        self.project = linear(site.config, words.embedding_dim, site.d_model) if narrow else nn.Identity()
        self.scale = math.sqrt(site.d_model) if site.config.embedding_scale else 1.0
        self.bias = starts_as(torch.zeros(site.d_model)) if bias else None
        self.positions = site.config.positions
        learned = self.positions == "learned"
        self.places = nn.Embedding(site.config.max_positions, site.d_model) if learned else None
        self.dropout = Dropout(site.config.dropout.embedding)

    def forward(self, tokens_BT: Tensor, past: int = 0, packing: Packing | None = None) -> Tensor:
        """Returns h_0. `past`: number of positions before the first given one. packing: if given, h_0 has packed rows."""
        if packing is None or packing.layout is None:
            h_0 = self.placed(self.scaled(tokens_BT), past)
            return h_0 if packing is None else packing.pack(h_0)
        tokens_1P, places_1P = packing.ids(tokens_BT)
        x = self.scaled(tokens_1P)
        table = self._table(0, tokens_BT.shape[1], x)
        return self.dropout(x if table is None else x + F.embedding(places_1P, table))

    def scaled(self, tokens_BT: Tensor) -> Tensor:
        """Returns P E[w] * sqrt(d) + b: the embedded words without positions."""
        x = self.project(self.words(tokens_BT)) * self.scale
        return x if self.bias is None else x + self.bias

    def placed(self, x_BTD: Tensor, past: int = 0) -> Tensor:
        """Returns drop(x + position), with positions from `past` on. ValueError: a position is beyond the learned table."""
        table = self._table(past, past + x_BTD.shape[1], x_BTD)
        return self.dropout(x_BTD if table is None else x_BTD + table)

    def _table(self, past: int, stop: int, x: Tensor) -> Tensor | None:
        """Returns the vectors of positions `past` to `stop`: [stop - past, D]; None: no positions."""
        if self.places is not None:
            longest = self.places.num_embeddings
            if stop > longest:
                raise ValueError(f"a sentence of {stop} subwords; the model has learned positions up to {longest} (max_positions)")
            return self.places.weight[past:stop]
        make = _kept_sinusoids if past else sinusoids
        return make(past, stop, x.shape[-1], x.device).to(x.dtype) if self.positions == "sinusoidal" else None


class Embeddings(nn.Module):
    """The modules whose sizes depend on the vocabularies: both embeddings and the output layer. width: width of the decoder's states. If it
    differs from the output layer's input width, a linear map precedes the output layer."""

    def __init__(self, site: Site, src_vocab: int, tgt_vocab: int, width: int) -> None:
        super().__init__()
        config, out = site.config, output_dim(site.config)
        src_words = nn.Embedding(src_vocab, config.word_dim or config.d_model)
        tgt_words = src_words if config.embeddings == "three-way" else nn.Embedding(tgt_vocab, config.word_dim or config.d_model)
        self.src = InputEmbedding(site, src_words, bias=config.encoder_embedding_bias)
        self.tgt = InputEmbedding(site, tgt_words, bias=False)
        self.before_output = linear(config, width, out) if width != out else nn.Identity()
        tied = config.embeddings != "separate"
        self.output = linear(config, out, tgt_vocab, bias=config.output_bias, dropped=config.dropout.residual, tied=tied)
        if tied:
            self.output.weight = tgt_words.weight
