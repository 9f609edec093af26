"""The recurrent column of a multi-column encoder."""

from __future__ import annotations

from models.gru import GruKind
from models.recurrence import BiRnn
from models.recurrent_layers import RecurrentEncoder
from models.registry import ENCODERS
from models.site import Site


@ENCODERS.register("multi_column")
class MultiColumnEncoder(RecurrentEncoder):
    """H^1 = LN(BiRNN(H^0)), H^n = LN(BiRNN(H^{n-1}) + H^{n-1}): layers of bidirectional GRUs over the word embeddings, d units a
    direction, from zero states, without feed-forward networks (Chen et al. 2018, RNN column; compared with in Hao et al. 2019, Table 4).

    Width and number of units are assumed. norm pre: H^n = BiRNN(LN(H^{n-1})) + H^{n-1}, at the end LN.

    Args:
        num_layers: recurrent layers.
        rec_input_pos: whether positions are added to the words.
        gru: form of the GRU cell. recipe: THUMT's legacy cell, with a bias for the candidate alone; torch: torch.nn.GRU's, with biases on
            all maps and the reset gate behind the product.
    """

    aligned = True

    def __init__(self, site: Site, *, num_layers: int = 6, rec_input_pos: bool = False, gru: GruKind = "recipe") -> None:
        super().__init__(
            site,
            lambda at, width: BiRnn(at, width, gru, start="zero"),
            num_layers=num_layers,
            positions=rec_input_pos,
            feed_forward=False,
        )
