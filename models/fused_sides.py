"""Where each run's positions stand among the packed ones.

Shapes: R runs, N packed positions of a side, B_r sentences and T_r length of run r.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from models.attention import causal_bias, padding_bias
from models.packing import Packing
from models.transformer import PAD


class Side:
    """One side of a fused batch: run r's rows are its ids [B_r, T_r] sentence after sentence, real ones alone where its solo run packs."""

    def __init__(self, ids: Sequence[Tensor], packings: Sequence[Packing | None]) -> None:
        self.shapes = [(t.shape[0], t.shape[1]) for t in ids]
        self.packings = packings
        own = [t.flatten() if p is None else t.flatten()[p.real] for t, p in zip(ids, packings, strict=True)]
        self.rows = [len(rows) for rows in own]
        self.width = max(1, *self.rows)
        self.sizes = [size for rows in self.rows for size in (rows, self.width - rows)]
        self.ids = torch.full((len(ids), self.width), PAD, dtype=torch.int64, device=ids[0].device)
        self.positions = torch.zeros_like(self.ids)
        for r, (t, packing, rows) in enumerate(zip(ids, packings, own, strict=True)):
            places = torch.arange(t.shape[1], device=t.device).repeat(t.shape[0])
            self.ids[r, : len(rows)] = rows
            self.positions[r, : len(rows)] = places if packing is None else places[packing.real]
        self.mask = self.ids != PAD
        self.masks = [(t != PAD) if p is None else p.ones() for t, p in zip(ids, packings, strict=True)]
        self.length = max(t for _, t in self.shapes)

    def split(self, x: Tensor) -> list[Tensor]:
        """[R, N, ...] -> of each run what its solo run has: [B_r, T_r, ...], or [1, P_r, ...] where it packs."""
        pieces = x.flatten(0, 1).split(self.sizes)[::2]
        shapes = [shape if p is None else (1, rows) for shape, p, rows in zip(self.shapes, self.packings, self.rows, strict=True)]
        return [piece.view(*shape, *x.shape[2:]) for piece, shape in zip(pieces, shapes, strict=True)]

    def blocks(self, x: Tensor) -> list[Tensor]:
        """[R, N, D] -> [B_r, T_r, D] of each run."""
        return [piece if p is None else p.unpack(piece) for piece, p in zip(self.split(x), self.packings, strict=True)]

    def join(self, blocks: Sequence[Tensor], width: int) -> Tensor:
        """The inverse of `blocks`, zeros behind each run's last row."""
        parts: list[Tensor] = []
        for block, packing, rows in zip(blocks, self.packings, self.rows, strict=True):
            parts.append((block if packing is None else packing.pack(block)).reshape(rows, width))
            if rows < self.width:
                parts.append(block.new_zeros(self.width - rows, width))
        return torch.cat(parts).view(len(self.rows), self.width, width)


class Sides:
    """The batch that the packed modules work on; set before each pass."""

    sides: dict[str, Side]
    generators: Sequence[torch.Generator]
    bias: dict[tuple[str, str], list[Tensor | None]]

    def begin(
        self, src: Side, tgt: Side, sources: Sequence[Tensor], targets: Sequence[Tensor], generators: Sequence[torch.Generator]
    ) -> None:
        self.sides = {"src": src, "tgt": tgt}
        self.generators = generators
        hidden: list[Tensor | None] = [padding_bias(s != PAD) for s in sources]
        causal = causal_bias(self.sides["tgt"].length, 0, targets[0].device)
        self.bias = {
            ("src", "src"): hidden,
            ("tgt", "src"): hidden,
            # padding stands behind the last real token, where the causal mask hides it from every real query
            ("tgt", "tgt"): [None if causal is None or t.shape[1] == 1 else causal[..., : t.shape[1], : t.shape[1]] for t in targets],
        }
