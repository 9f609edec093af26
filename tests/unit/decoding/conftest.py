"""A toy model with the interface of models.Transformer, and a slow search that says what the fast one must find."""

from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn

from orchestrator.decoding.beam import BOS, EOS, PAD, length_limit, length_penalty


class ToyEncoded(NamedTuple):
    state: Tensor

    def select(self, sentences: Tensor) -> "ToyEncoded":
        return ToyEncoded(self.state.index_select(0, sentences))


class ToyModel(nn.Module):
    """Logits are a fixed random function of the source and of every token and position of the prefix, which it finds in the cache alone."""

    def __init__(self, vocab: int = 7, seed: int = 0, sharpness: float = 2.0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.source = nn.Parameter(torch.randn(64, 16, generator=generator))
        self.prefix = nn.Parameter(torch.randn(64, vocab, 16, generator=generator))
        self.out = nn.Parameter(torch.randn(vocab, 16, generator=generator) * sharpness / 4)
        self.bias = nn.Parameter(torch.zeros(vocab))
        self.rows: list[int] = []

    def encode(self, src):
        places = torch.arange(src.shape[1])
        return ToyEncoded((self.source[(src * 7 + places) % 64] * (src != PAD)[..., None]).sum(1))

    def decode(self, tgt, encoded, cache=None):
        self.rows.append(len(tgt))
        if cache is not None:
            # a slot per sentence too: the search must keep both kinds of memory in step
            (state,) = cache.once(self, lambda: (encoded.state,))
            assert torch.equal(state, encoded.state)
            cache.length += tgt.shape[1]
            tgt = cache.recent(self, tgt, len(self.prefix))[:, -cache.length :]
        state = encoded.state.repeat_interleave(len(tgt) // len(encoded.state), dim=0)
        walked = self.prefix[torch.arange(tgt.shape[1]), tgt].cumsum(1)
        hidden = torch.tanh(walked + state[:, None])
        return hidden if cache is None else hidden[:, -1:]

    def logits(self, hidden):
        return hidden @ self.out.t() + self.bias


def next_logprobs(model, source: list[int], prefixes: list[list[int]]) -> Tensor:
    """[len(prefixes), V] without any cache, one sentence at a time; all prefixes equally long."""
    with torch.inference_mode():
        encoded = model.encode(torch.tensor([source]))
        hidden = model.decode(torch.tensor([[BOS, *p] for p in prefixes]), encoded)
        return model.logits(hidden[:, -1]).log_softmax(-1)


def repeats(y, n):
    """Does the last token complete n tokens that stand earlier in y?"""
    return n > 0 and len(y) > n and any(y[i : i + n] == y[-n:] for i in range(len(y) - n))


def slow_beam(model, source, decode):
    """The search as the module's docstring states it, with lists, whole prefixes, no cache and no early end: (score, ids), best first."""
    K, limit = decode.beam_size, length_limit(decode, len(source))
    live, ended = [(0.0, [])], []
    for length in range(1, limit + 1):
        logprobs = next_logprobs(model, source, [y for _, y in live]).tolist()
        options = []
        for row, (total, y) in enumerate(live):
            for word, value in enumerate(logprobs[row]):
                allowed = word == EOS if length == limit else word not in (PAD, BOS) and not (word == EOS and length == 1)
                if allowed and (word == EOS or not repeats([*y, word], decode.no_repeat_ngram)):
                    options.append((total + value, row, word, y))
        options.sort(key=lambda o: (-o[0], o[1], o[2]))
        divisor = length_penalty(decode.length_penalty, length)
        ended += [(o[0] / divisor, o[3]) for o in options[:K] if o[2] == EOS]
        ended.sort(key=lambda item: -item[0])
        live = [(o[0], [*o[3], o[2]]) for o in options if o[2] != EOS][:K]
        if len(ended) >= K or not live:
            break
    return ended[:K]


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """Many tiny products: threads only get in each other's way."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
