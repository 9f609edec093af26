"""Where each run's positions stand among the packed ones.

Shapes: R runs, N packed positions of a side, B_r sentences and T_r length of run r.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

PAD = 0


class Side:
    """One side of a fused batch: run r's ids [B_r, T_r] are the first B_r * T_r of row r."""

    def __init__(self, ids: Sequence[Tensor]) -> None:
        self.shapes = [(t.shape[0], t.shape[1]) for t in ids]
        self.rows = [b * t for b, t in self.shapes]
        self.width = max(1, *self.rows)
        self.sizes = [size for rows in self.rows for size in (rows, self.width - rows)]
        self.ids = torch.full((len(ids), self.width), PAD, dtype=torch.int64, device=ids[0].device)
        self.positions = torch.zeros_like(self.ids)
        for r, t in enumerate(ids):
            self.ids[r, : self.rows[r]] = t.flatten()
            self.positions[r, : self.rows[r]] = torch.arange(t.shape[1], device=t.device).repeat(t.shape[0])
        self.mask = self.ids != PAD
        self.length = max(t for _, t in self.shapes)

    def split(self, x: Tensor) -> list[Tensor]:
        """[R, N, ...] -> [B_r, T_r, ...] of each run."""
        pieces = x.flatten(0, 1).split(self.sizes)[::2]
        return [piece.view(b, t, *x.shape[2:]) for piece, (b, t) in zip(pieces, self.shapes, strict=True)]

    def join(self, pieces: Sequence[Tensor], width: int) -> Tensor:
        """[B_r, T_r, D] of each run -> [R, N, D], zeros behind."""
        parts: list[Tensor] = []
        for piece, rows in zip(pieces, self.rows, strict=True):
            parts.append(piece.reshape(rows, width))
            if rows < self.width:
                parts.append(piece.new_zeros(self.width - rows, width))
        return torch.cat(parts).view(len(self.rows), self.width, width)


class Sides:
    """The batch that the packed modules work on; set before each pass."""

    sides: dict[str, Side]
    generators: Sequence[torch.Generator]
    bias: dict[tuple[str, str], list[Tensor | None]]

    def begin(self, sources: Sequence[Tensor], targets: Sequence[Tensor], generators: Sequence[torch.Generator]) -> None:
        self.sides = {"src": Side(sources), "tgt": Side(targets)}
        self.generators = generators
        hidden = [torch.zeros(s.shape, device=s.device).masked_fill_(s == PAD, -1e9)[:, None, None, :] for s in sources]
        longest = self.sides["tgt"].length
        causal = torch.full((longest, longest), -1e9, device=targets[0].device).triu_(1)
        self.bias = {
            ("src", "src"): list(hidden),
            ("tgt", "src"): list(hidden),
            # padding stands behind the last real token, where the causal mask hides it from every real query
            ("tgt", "tgt"): [None if t.shape[1] == 1 else causal[: t.shape[1], : t.shape[1]] for t in targets],
        }
