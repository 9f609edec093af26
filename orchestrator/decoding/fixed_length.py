"""Decoding to a fixed length, for speed measurements."""

from __future__ import annotations

from torch import Tensor, nn

from models.transformer import Transformer
from orchestrator.decoding.beam import EOS


class FullLength(nn.Module):
    """Wraps a model so that EOS is impossible and every output reaches its length limit."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model
        self.encode, self.decode, self.max_positions = model.encode, model.decode, model.max_positions

    def logits(self, hidden: Tensor) -> Tensor:
        """[.., D] -> [.., V]."""
        logits = self.model.logits(hidden)
        logits[..., EOS] = -1e9
        return logits
