"""A document-level Transformer over sentences, which the encoder reads one at a time."""

from dataclasses import replace

from torch import Tensor

from models.attention import padding_bias
from models.config import StackConfig, UpTo1000
from models.dropout import Dropout
from models.embedding import sinusoids
from models.packing import Packing
from models.registry import BRIDGES
from models.seams import Bridge
from models.site import Flow, History, Memory, Site
from models.stack import Stack


@BRIDGES.register("hierarchical_document")
class HierarchicalDocumentBridge(Bridge):
    """memories_l = (LN(w_ij + g_i),) for every decoder layer l; g = Transformer(s + position), s_i = w_i,end (HIERTRANS, Wei et al. 2020).

    w_ij: the encoder's state of token j of sentence i. The encoder reads one sentence at a time, and positions restart in each sentence
    (`by_sentence`). s_i: the state of the sentence's end token. g_i: state of sentence i after the document's layers over s.
    The sum and its norm are assumed: the paper only names the two levels. A source without sentence ends is one sentence.

    Args:
        doc_layers: number of plain Transformer layers over the sentences of a document.
    """

    by_sentence = True

    def __init__(self, site: Site, *, doc_layers: UpTo1000 = 6) -> None:
        super().__init__(site)
        config = replace(site.config, encoder=StackConfig(num_layers=doc_layers))
        self.document = Stack(replace(site, side="encoder", num_layers=doc_layers, config=config), [()] * doc_layers)
        self.places = site.config.positions == "sinusoidal"
        self.dropout = Dropout(site.config.dropout.embedding)
        self.norm = site.layer_norm()

    def forward(self, encoded: Tensor, history: History, extra: Memory | None, flow: Flow) -> list[tuple[Memory, ...]]:
        sentences = flow.segments
        assert sentences is not None and flow.mask is not None
        # packed real tokens have the same order, whether the encoder's rows are sentences or documents
        w_1PD = encoded if flow.packing is not None else Packing(flow.mask).pack(encoded)
        s_BND = sentences.packing.unpack(w_1PD[:, sentences.ends])
        if self.places:
            s_BND = s_BND + sinusoids(0, s_BND.shape[1], self.width, s_BND.device).to(s_BND.dtype)
        mask = sentences.sentence_mask
        g_BND, _ = self.document(self.dropout(s_BND), Flow(mask=mask, bias=padding_bias(mask), trace=flow.trace))
        g_1RD = sentences.packing.pack(g_BND)
        memory_1PD = self.norm(w_1PD + g_1RD[:, sentences.sentence])
        packing = sentences.document_packing
        bias = padding_bias(sentences.mask)
        if flow.packing is not None:
            memory = Memory(memory_1PD, sentences.mask, bias, packing=packing)
        else:
            memory = Memory(packing.unpack(memory_1PD), sentences.mask, bias)
        return [(memory,)] * self.num_layers
