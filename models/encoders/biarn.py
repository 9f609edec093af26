"""A bidirectional attentive recurrent network beside the encoder stack."""

from __future__ import annotations

from typing import Literal

from models.gru import GruKind
from models.recurrence import BiArn
from models.recurrent_layers import RecurrentEncoder
from models.registry import ENCODERS
from models.site import Site


@ENCODERS.register("biarn")
class BiArnEncoder(RecurrentEncoder):
    """C^1 = LN(BiARN(H^0)), C^n = LN(BiARN(H^{n-1}) + H^{n-1}), H^n = LN(FFN(C^n) + C^n); T slots, 2d wide (Hao et al. 2019, section 3.2).

    The first layer reads J inputs, one for each token, the others T. H^0: word embeddings. norm pre: as in `birnn`.

    Args:
        num_layers: recurrent layers.
        steps: T, the slots of the memory; J: as many as the sentence has tokens, its own ones whatever its batch.
        rec_input_pos: whether positions are added to the words (without, the network reads a bag of words).
        gru: form of the GRU cell. recipe: THUMT's legacy cell, with a bias for the candidate alone; torch: torch.nn.GRU's, with biases on
            all maps and the reset gate behind the product.
    """

    def __init__(
        self,
        site: Site,
        *,
        num_layers: int = 1,
        steps: int | Literal["J"] = 8,
        rec_input_pos: bool = False,
        gru: GruKind = "recipe",
    ) -> None:
        super().__init__(site, lambda at, width: BiArn(at, width, gru, steps), num_layers=num_layers, positions=rec_input_pos)
