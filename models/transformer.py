"""The whole model: encode, decode, forward.

Shapes: B sentences, N hypothesis rows, S source, T target, D d_model, V target vocabulary.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from models.attention import causal_bias, padding_bias
from models.cache import Cache
from models.config import ModelConfig
from models.embedding import Embeddings
from models.initialise import initialise
from models.kept_once import leave_to_python
from models.layout import PAD, Layout
from models.loss import gradient_rows, label_smoothed_loss
from models.packing import Packing, Sentences, may_pack, worth_packing
from models.registry import BRIDGES, CONTEXTS, ENCODERS, HEADS, REGULARIZERS, construct
from models.seams import Bridge, ExtraEncoder, Head, Regularizer, WeightPenalty, packable
from models.site import Encoded, Flow, History, Site
from models.stack import Stack


class Output(NamedTuple):
    """hidden [B, T, D]: input of the output layer; several predictions lie side by side in D. encoder, decoder: the sides' histories.
    A mask is True at the real positions of its side: [B, S] and [B, T]; [1, P] if the side is packed; [R, J] if the encoder's rows are
    sentences. packing: packing of the target side."""

    hidden: Tensor
    encoder: History
    src_mask: Tensor
    decoder: History
    tgt_mask: Tensor
    packing: Packing | None = None

    def real_hidden(self) -> Tensor:
        """Returns the hidden states of the real target positions, sentence after sentence: [P, D]."""
        return self.hidden[self.tgt_mask]


class Transformer(nn.Module):
    """p(y_t | y_<t, x) = softmax(W h_t + b), h = decoder(y, bridge(encoder(x))) (Vaswani et al. 2017). In training on a CPU, batches with
    much padding are packed rows on each side whose components all accept them (models.packing)."""

    fused_loss: Callable[..., tuple[Tensor, Tensor, Tensor]] | None = None
    packs_sources = False  # whether decoding packs the encoder's side too; models.inference sets it

    def __init__(self, config: ModelConfig, src_vocab: int, tgt_vocab: int) -> None:
        super().__init__()
        if config.embeddings == "three-way" and src_vocab != tgt_vocab:
            raise ValueError(f"three-way embeddings need one vocabulary; sizes are {src_vocab} and {tgt_vocab}")
        self.config = config
        self.max_positions = config.max_positions if config.positions == "learned" else None
        shared: dict[str, nn.Module] = {}
        encoder_site = Site("encoder", 0, config.encoder.num_layers, config, shared=shared)
        decoder_site = Site("decoder", 0, config.decoder.num_layers, config, shared=shared)

        extra_encoder: ExtraEncoder | None = None
        if config.extra_encoder is not None:
            extra_encoder = ENCODERS.create(config.extra_encoder, encoder_site)
            decoder_site = replace(decoder_site, extra_width=extra_encoder.width)
        bridge: Bridge = BRIDGES.create(config.bridge, decoder_site)
        context = None if config.context is None else CONTEXTS.create(config.context, encoder_site)
        blocks = bridge.blocks if context is None else context.blocks
        layers: list[tuple[int, ...]] = [()] * config.encoder.num_layers
        encoder: Stack = construct(Stack, encoder_site, layers, context, blocks=blocks, output=bridge.needs_output)
        dims = [bridge.memory_dims(l + 1) for l in range(config.decoder.num_layers)]
        head: Head | None = None if config.head is None else HEADS.create(config.head, decoder_site)
        decoder: Stack = construct(Stack, decoder_site, dims, output=head is None or not head.reads_layers)
        width = decoder.connection.width(config.decoder.num_layers + 1) or config.d_model
        words: Embeddings = construct(Embeddings, encoder_site, src_vocab, tgt_vocab, width)

        # this order is the order of the parameters for optimisers and for sums over parameters
        self.src_embedding, self.tgt_embedding = words.src, words.tgt
        self.extra_encoder, self.bridge = extra_encoder, bridge
        self.encoder, self.decoder = encoder, decoder
        self.head = head
        self.before_output, self.output = words.before_output, words.output
        self.regularizers = nn.ModuleList(REGULARIZERS.create(r, encoder_site) for r in config.regularizers)

    @cached_property
    def packable(self) -> dict[str, bool]:
        """Returns, for each side, whether all components that read its states accept packed rows."""
        both = packable(self.regularizers)
        return {"encoder": both and packable(self.encoder) and packable(self.bridge), "decoder": both and packable(self.decoder)}

    def recompute(self, on: bool) -> None:
        """Turns recomputation on or off: training keeps only each layer's input, and the backward pass runs the layer again. This needs
        less memory and more time. Results are equal."""
        for module in self.modules():
            if isinstance(module, Stack):
                module.recompute = on

    def compile_layers(self, **options: Any) -> None:
        """Compiles only the single layers, and on a GPU the loss between its matrix products, for training. options: of torch.compile."""
        leave_to_python()
        self.fused_loss = torch.compile(gradient_rows, **{"dynamic": True} | options)
        for module in self.modules():
            if isinstance(module, Stack):
                module.compile_layers(**options)

    def encode(self, src_BS: Tensor, trace: list[tuple[nn.Module, Tensor]] | None = None) -> Encoded:
        """Source ids [B, S] (PAD = 0) -> what each decoder layer attends to."""
        return self._encode(src_BS, trace, packs=self.packs_sources and trace is None)[0]

    def _encode(
        self, src_BS: Tensor, trace: list[tuple[nn.Module, Tensor]] | None = None, *, packs: bool = False, layout: Layout | None = None
    ) -> tuple[Encoded, History, Tensor]:
        """Returns (what the decoder attends to, the encoder's history, the mask of the encoder's rows)."""
        sentences = Sentences(src_BS) if self.bridge.by_sentence else None
        ids, mask = (src_BS, src_BS != PAD) if sentences is None else (sentences.rows, sentences.row_mask)
        packing = self._packing("encoder", mask, layout) if packs else None
        flow = Flow(mask=mask, bias=padding_bias(mask), trace=trace, packing=packing, segments=sentences)
        extra, read = None, None
        reads_words = self.head is not None and self.head.reads_words
        if self.extra_encoder is None and not reads_words:
            encoded, history = self.encoder(self.src_embedding(ids, packing=packing), flow)
        else:
            words = self.src_embedding.scaled(ids)
            h_0 = self.src_embedding.placed(words)
            encoded, history = self.encoder(h_0 if packing is None else packing.pack(h_0), flow)
            if self.extra_encoder is not None:
                extra = self.extra_encoder(words, h_0, replace(flow, packing=None))
            if reads_words:
                read = flow.memory(encoded, words if packing is None else packing.pack(words))
        memories = self.bridge(encoded, history, extra, flow)
        return Encoded(memories, src_BS != PAD, read), history, mask if packing is None else packing.row_mask

    def decode(
        self, tgt_NT: Tensor, encoded: Encoded, cache: Cache | None = None, trace: list[tuple[nn.Module, Tensor]] | None = None
    ) -> Tensor:
        """Returns the hidden states [N, T, D] of the given positions. With a cache, `tgt` holds only the new ones; the cache advances."""
        return self._decode(tgt_NT, encoded, cache, trace)[0]

    def _decode(
        self,
        tgt_NT: Tensor,
        encoded: Encoded,
        cache: Cache | None = None,
        trace: list[tuple[nn.Module, Tensor]] | None = None,
        packing: Packing | None = None,
    ) -> tuple[Tensor, History]:
        past, length = (0 if cache is None else cache.length), tgt_NT.shape[1]
        # padding follows the last real token, so the causal mask hides it from every real query
        bias = causal_bias(length, tgt_NT.device) if self.decoder.self_attends and cache is None else None
        if self.decoder.self_attends and cache is not None:
            cache.begin(len(tgt_NT), length, len(encoded.mask), tgt_NT.device)
        flow = Flow(bias=bias, causal=True, cache=cache, trace=trace, packing=packing)
        flow.h_0 = h_0 = self.tgt_embedding(tgt_NT, past, packing)
        hidden, history = self.decoder(h_0, flow, encoded.memories)
        parts = (hidden,) if self.head is None else self.head(hidden, history, encoded.words, flow)
        hidden = torch.cat([self.before_output(part) for part in parts], dim=-1)
        if cache is not None:
            cache.length += length
        return hidden, history

    def logits(self, hidden: Tensor) -> Tensor:
        """[..., D] -> logits [..., V]. Several predictions: sum_g w_g log p_g, which is log p up to a constant."""
        if self.head is None:
            return self.output(hidden)
        total: Tensor = sum(
            w * self.output(part).float().log_softmax(dim=-1) for w, part in zip(self.head.shares(), self._parts(hidden), strict=True)
        )
        return total

    def loss(self, hidden_PD: Tensor, target_P: Tensor, smoothing: float, real_P: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Returns (loss, nll) of `label_smoothed_loss`. Several predictions: the sum of their values with weights w_g."""
        weight, bias, parts = self.output.weight, self.output.bias, self._parts(hidden_PD)
        fused = self.fused_loss if hidden_PD.is_cuda else None  # on a CPU, the chunks fit into the cache
        found = [label_smoothed_loss(h, weight, bias, target_P, smoothing, real_P, fused) for h in parts]
        if self.head is None:
            return found[0]
        loss, nll = (sum(w * one[i] for w, one in zip(self.head.shares(), found, strict=True)) for i in (0, 1))
        return loss, nll.detach()

    def _parts(self, hidden: Tensor) -> tuple[Tensor, ...]:
        return hidden.chunk(1 if self.head is None else self.head.parts, dim=-1)

    def forward(self, src_BS: Tensor, tgt_in_BT: Tensor, layouts: tuple[Layout, Layout] | None = None) -> Output:
        """Runs the model with teacher forcing. tgt_in starts with BOS. layouts: of source and target, from the host, in bf16 training."""
        src_layout, tgt_layout = layouts or (None, None)
        encoded, encoder, src_mask = self._encode(src_BS, packs=True, layout=src_layout)
        tgt_mask = tgt_in_BT != PAD
        tgt = self._packing("decoder", tgt_mask, tgt_layout)
        hidden, decoder = self._decode(tgt_in_BT, encoded, packing=tgt)
        return Output(hidden, encoder, src_mask, decoder, tgt_mask if tgt is None else tgt.row_mask, tgt)

    def _packing(self, side: str, mask: Tensor, layout: Layout | None = None) -> Packing | None:
        if layout is not None and self.training:
            # with by_sentence, the encoder's rows are sentences and not the rows of the batch
            return Packing(mask, layout) if self.packable[side] and not (side == "encoder" and self.bridge.by_sentence) else None
        wanted = (self.training and self.encoder.compiled is None) or (self.packs_sources and side == "encoder")
        return worth_packing(mask) if wanted and self.packable[side] and may_pack(mask.device) else None

    def regularize(self, output: Output) -> list[tuple[str, str, float, Tensor, Tensor]]:
        """Returns (kind, side, weight, sum, count) for every regularizer and every side that it applies to."""
        terms = []
        for module in self.regularizers:
            if isinstance(module, WeightPenalty):
                total = module(self.encoder)
                terms.append((module.kind, "encoder", module.weight, total, torch.ones_like(total)))
                continue
            assert isinstance(module, Regularizer)
            for side, history, mask in (("encoder", output.encoder, output.src_mask), ("decoder", output.decoder, output.tgt_mask)):
                if module.applies(side):
                    terms.append((module.kind, side, module.weight, *module(history, mask)))
        return terms


def build(config: Mapping[str, Any], src_vocab: int, tgt_vocab: int, seed: int = 1) -> Transformer:
    """Returns the model. Each parameter is drawn from its own random stream of `seed`. Under `torch.device("meta")`: shapes only."""
    model = Transformer(ModelConfig.of(config), src_vocab, tgt_vocab)
    if not any(p.is_meta for p in model.parameters()):
        initialise(model, model.config.init, seed)
    return model


def count_parameters(model: nn.Module) -> int:
    """Returns the number of trainable parameters. Tied matrices count once."""
    return sum(p.numel() for p in model.parameters() if p.requires_grad)
