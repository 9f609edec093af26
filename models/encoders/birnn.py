"""A bidirectional recurrent network beside the encoder stack."""

from __future__ import annotations

from models.gru import GruKind
from models.recurrence import BiRnn
from models.recurrent_layers import RecurrentEncoder
from models.registry import ENCODERS
from models.site import Site


@ENCODERS.register("birnn")
class BiRnnEncoder(RecurrentEncoder):
    """C^1 = LN(BiRNN(H^0)), C^n = LN(BiRNN(H^{n-1}) + H^{n-1}), H^n = LN(FFN(C^n) + C^n); 2d wide (Hao et al. 2019, section 3.1).

    H^0: word embeddings. Both directions start from the mean of the sentence's inputs.
    norm pre (not in the paper): C^1 = BiRNN(LN(H^0)), C^n = BiRNN(LN(H^{n-1})) + H^{n-1}, H^n = FFN(LN(C^n)) + C^n, at the end LN.

    Args:
        num_layers: recurrent layers.
        rec_input_pos: whether positions are added to the words.
        gru: form of the GRU cell. recipe: THUMT's legacy cell, with a bias for the candidate alone; torch: torch.nn.GRU's, with biases on
            all maps and the reset gate behind the product.
    """

    aligned = True

    def __init__(self, site: Site, *, num_layers: int = 1, rec_input_pos: bool = False, gru: GruKind = "recipe") -> None:
        super().__init__(site, lambda at, width: BiRnn(at, width, gru), num_layers=num_layers, positions=rec_input_pos)
