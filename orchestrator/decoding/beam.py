"""Batched beam search over an incremental model; with a beam of 1 it is greedy search.

Shapes: B sentences still searched, W rows per sentence (1 at the first step, then K), K beam size, N = B * W rows (sentence-major),
V vocabulary, C candidates per row. |Y| counts EOS, |X| counts the source's EOS.

Definition of the search:
* PAD and BOS are never generated, nor EOS as the first token (unless the length limit leaves room for nothing else). UNK may be.
* Each step ranks the continuations of a sentence's live hypotheses. An EOS among the K best ends its hypothesis; the K best others live on.
* A hypothesis of min(max_length, floor(max_ratio * |X| + max_extra)) tokens ends with EOS. Fewer learned positions are the limit instead.
* With no_repeat_ngram n > 0, no token but EOS may repeat an n-gram of its hypothesis (n = 3: trigram blocking, Paulus et al. 2018).
* Hypotheses are ranked by log-probability / length penalty. A sentence is done when K hypotheses have ended, or no live one can become the
  best: its log-probability only falls and the penalty grows with length, so logprob / penalty(limit) is an upper bound of its score.
* Ties go to the hypothesis that ended earlier, then to the better-ranked parent, then to the lower token id.
"""

import sys
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from models.cache import Cache
from orchestrator.data.subword import BOS, EOS, PAD
from orchestrator.decoding.candidates import NEVER, Candidates
from orchestrator.specs.schema import DecodeSpec, LengthPenalty

COMPACT_SHARE = 8  # finished sentences are removed once they are 1/8 of the batch, because removal copies the state of the others


class Hypothesis(NamedTuple):
    """One output. ids: without EOS; score: logprob / length penalty; logprob: natural log-probability of ids and EOS."""

    ids: list[int]
    score: float
    logprob: float


def length_penalty(penalty: LengthPenalty, length: int) -> float:
    """Divisor of the log-probability of `length` tokens, EOS included.
    gnmt: ((5 + |Y|) / 6)^alpha (Wu et al. 2016, equation 14); exponent: |Y|^alpha; none: 1.
    """
    assert penalty.alpha != "tuned", "a tuned penalty is settled before it is searched with"
    if penalty.kind == "gnmt":
        return float(((5 + length) / 6) ** penalty.alpha)
    return float(length**penalty.alpha) if penalty.kind == "exponent" else 1.0


def length_limit(decode: DecodeSpec, source_length: int) -> int:
    """Maximum output length: floor(max_ratio * |X| + max_extra), at most max_length, at least 1. All lengths include EOS."""
    limit = max(1, int(decode.max_ratio * source_length + decode.max_extra))
    return limit if decode.max_length is None else min(limit, decode.max_length)


def repeated(history_NT: Tensor, n: int) -> Tensor:
    """Tokens [N, T - n + 1] that would repeat an n-gram of their row, PAD elsewhere; [N, 0] if T < n."""
    if history_NT.shape[1] < n:
        return history_NT[:, :0]
    grams, last = history_NT.unfold(1, n, 1), history_NT[:, history_NT.shape[1] - n + 1 :]
    return grams[:, :, -1].where((grams[:, :, :-1] == last[:, None, :]).all(2), PAD)


@torch.inference_mode()
def beam_search(model: Any, src_BS: Tensor, decode: DecodeSpec) -> list[Hypothesis]:
    """Returns the best output for each row of `src_BS` (ids ending with EOS, then PAD). `model` has encode, decode and logits like
    models.Transformer and is in eval mode during the search. FloatingPointError: the model's output is NaN."""
    training = model.training
    if training:  # setting it visits every module
        model.eval()
    try:
        search = _Search(model, src_BS, decode)
        search.run()
        return search.hypotheses()
    finally:
        if training:
            model.train()


class _Ended(NamedTuple):
    """The best ended hypotheses of each sentence [B, K], best first: score (-inf if there is none), logprob, number of tokens, parent."""

    score: Tensor
    logprob: Tensor
    length: Tensor
    parent: Tensor

    @classmethod
    def none(cls, sentences: int, beam: int, device: torch.device) -> "_Ended":
        score = torch.full((sentences, beam), NEVER, device=device)
        length = torch.zeros((sentences, beam), dtype=torch.long, device=device)
        return cls(score, score.clone(), length, length.clone())

    def rows(self, sentences: Tensor) -> "_Ended":
        return _Ended(*(t.index_select(0, sentences) for t in self))

    def merged(self, new: "_Ended") -> "_Ended":
        """The K best of both; ties go to the older."""
        both = [torch.cat(pair, dim=1) for pair in zip(self, new, strict=True)]
        order = both[0].sort(dim=1, descending=True, stable=True).indices[:, : self.score.shape[1]]
        return _Ended(*(t.gather(1, order) for t in both))


class _Step(NamedTuple):
    """State after one more token: K live hypotheses (logprob, parent, token: [B, K], best first), ended ones, and finished sentences [B].

    flags [3]: number of finished sentences; 1 if a tie makes the choice arbitrary; 1 if the model's output is NaN.
    """

    live: Tensor
    parent: Tensor
    token: Tensor
    ended: _Ended
    done: Tensor
    flags: Tensor


class _Search:
    """The search of one batch: model state, limits, penalties, back pointers, and the outcome of each sentence in input order."""

    def __init__(self, model: Any, src_BS: Tensor, decode: DecodeSpec) -> None:
        self.model, self.K, self.device = model, decode.beam_size, src_BS.device
        most = getattr(model, "max_positions", None) or sys.maxsize
        limits = [min(length_limit(decode, n), most) for n in (src_BS != PAD).sum(1).tolist()]
        self.longest = max(limits)
        self.penalty = [length_penalty(decode.length_penalty, n) for n in range(self.longest + 1)]
        self.limits, self.limit = set(limits), torch.tensor(limits, device=self.device)
        self.limit_penalty = torch.tensor([self.penalty[n] for n in limits], device=self.device)
        self.sentence = torch.arange(len(limits), device=self.device)  # index of each sentence in the input
        self.encoded, self.cache = model.encode(src_BS), Cache()
        self.tokens = torch.zeros((self.longest, len(limits), self.K), dtype=torch.long, device=self.device)
        self.parents = torch.zeros_like(self.tokens)
        self.outcome = _Ended.none(len(limits), self.K, self.device)
        self.ngram = decode.no_repeat_ngram
        self.banned = torch.tensor([PAD, BOS, EOS], device=self.device)
        self.none = torch.empty((1, 0), dtype=torch.long, device=self.device)
        self.history = torch.empty((len(limits), 1, 0), dtype=torch.long, device=self.device)  # [B, W, tokens so far]; for n-gram blocking

    def run(self) -> None:
        live = torch.zeros(len(self.sentence), 1, device=self.device)
        token = torch.full_like(live, BOS, dtype=torch.long)
        ended, extend = self.outcome, self._extend_one if self.K == 1 else self._extend
        for length in range(1, self.longest + 1):
            width, words = live.shape[1], self._next(token, length, self.K + 1)
            step = extend(words, live, ended, length, exact=False)
            done, tied, broken = step.flags.tolist()
            if broken:
                raise FloatingPointError(f"the model's output is NaN at step {length}")
            if tied:
                step = extend(words, live, ended, length, exact=True)
                done = int(step.flags[0])
            live, parent, token, ended = step.live, step.parent, step.token, step.ended
            self.tokens[length - 1, self.sentence], self.parents[length - 1, self.sentence] = token, parent
            if self.ngram:
                history = self.history.gather(1, parent[:, :, None].expand(-1, -1, self.history.shape[2]))
                self.history = torch.cat((history, token[:, :, None]), dim=2)
            rows = torch.arange(len(self.sentence), device=self.device)
            if done == len(rows):
                break
            if done * COMPACT_SHARE >= len(rows):
                rows = (~step.done).nonzero().squeeze(1)
                self._store(ended)
                live, token, parent, ended = live[rows], token[rows], parent[rows], ended.rows(rows)
                self._compact(rows)
            if self.K > 1 or len(rows) < len(words.eos):  # else each hypothesis stays in its row
                self.cache.reorder((rows[:, None] * width + parent).flatten())
        self._store(ended)

    def _next(self, token_BW: Tensor, length: int, count: int) -> Candidates:
        """Candidates for the token after these, without PAD and BOS, and without EOS as the first token."""
        hidden = self.model.decode(token_BW.view(-1, 1), self.encoded, self.cache)
        logits = self.model.logits(hidden[:, -1]).float()
        repeats = repeated(self.history.flatten(0, 1), self.ngram) if self.ngram else self.none
        return Candidates(logits, self.banned[: 3 if length == 1 else 2], repeats.expand(len(logits), -1), EOS, count)

    def _extend(self, words: Candidates, live_BW: Tensor, ended: _Ended, length: int, *, exact: bool) -> _Step:
        """One step of the search, without side effects, so that it can be repeated exactly after a tie."""
        (B, W), K = live_BW.shape, self.K
        value_NC, token_NC, tied = words.best(exact=exact)
        eos_BW = words.eos.view(B, W)
        value = value_NC.view(B, W, -1) + live_BW[:, :, None]
        token = token_NC.view(B, W, -1)
        # at the length limit, EOS is the only candidate of each hypothesis
        last = (self.limit == length)[:, None, None]
        only = F.pad((live_BW + eos_BW)[:, :, None], (0, value.shape[2] - 1), value=NEVER)
        value, token = torch.where(last, only, value).flatten(1), token.masked_fill(last, EOS).flatten(1)

        missing = 2 * K - value.shape[1]
        if missing > 0:
            value, token = F.pad(value, (0, missing), value=NEVER), F.pad(token, (0, missing))
        value, order = value.sort(dim=1, descending=True, stable=True)
        value, order = value[:, : 2 * K], order[:, : 2 * K]
        token = token.gather(1, order)
        parent = (order // value_NC.shape[1]).clamp_(max=W - 1)

        is_eos = token == EOS
        ends = is_eos[:, :K] & (value[:, :K] > NEVER)
        new = value[:, :K].masked_fill(~ends, NEVER)
        ended = ended.merged(_Ended(new / self.penalty[length], new, torch.full_like(token[:, :K], length), parent[:, :K]))
        live, order = value.masked_fill(is_eos, NEVER).sort(dim=1, descending=True, stable=True)
        live, order = live[:, :K], order[:, :K]

        # all K ended, or no live one can beat the best (if both are -inf, none is alive)
        done = (ended.score[:, -1] > NEVER) | (ended.score[:, 0] >= live[:, 0] / self.limit_penalty)
        flags = torch.stack((done.sum(), tied, eos_BW.isnan().any()))
        return _Step(live.masked_fill(done[:, None], NEVER), parent.gather(1, order), token.gather(1, order), ended, done, flags)

    def _extend_one(self, words: Candidates, live_B1: Tensor, ended: _Ended, length: int, *, exact: bool) -> _Step:
        """`_extend` for a beam of one: each sentence's hypothesis goes on with its best word, or ends if that is EOS."""
        value_BC, token_BC, tied = words.best(exact=exact)
        live, token = live_B1 + value_BC[:, :1], token_BC[:, :1]
        if length in self.limits:
            last = (self.limit == length)[:, None]
            live, token = torch.where(last, live_B1 + words.eos[:, None], live), token.masked_fill(last, EOS)
        is_eos, alive, parent = token == EOS, live > NEVER, torch.zeros_like(token)
        done = (is_eos | ~alive).squeeze(1)
        flags = torch.stack((done.sum(), tied, words.eos.isnan().any()))
        if not any(flags.tolist()):
            return _Step(live, parent, token, ended, done, flags)
        ends = is_eos & alive
        new = _Ended(live / self.penalty[length], live, torch.full_like(token, length), parent)
        ended = _Ended(*(torch.where(ends, now, before) for now, before in zip(new, ended, strict=True)))
        return _Step(live.masked_fill(done[:, None], NEVER), parent, token, ended, done, flags)

    def _store(self, ended: _Ended) -> None:
        """Stores the outcome of all sentences in the batch."""
        for stored, value in zip(self.outcome, ended, strict=True):
            stored[self.sentence] = value

    def _compact(self, rows: Tensor) -> None:
        """Removes all sentences but those in these rows."""
        self.sentence, self.limit, self.limit_penalty = self.sentence[rows], self.limit[rows], self.limit_penalty[rows]
        self.history = self.history[rows] if self.ngram else self.history
        self.encoded = self.encoded.select(rows)
        self.cache.select(rows)

    def hypotheses(self) -> list[Hypothesis]:
        """Follows the back pointers of all best hypotheses at once."""
        score, logprob, length, parent = (t[:, :1].cpu() for t in self.outcome)
        tokens, parents = self.tokens.cpu(), self.parents.cpu()
        ids = torch.zeros((self.longest, *parent.shape), dtype=torch.long)
        for t in range(int(length.max()) - 2, -1, -1):
            on_path = length - 2 >= t
            ids[t] = tokens[t].gather(1, parent)
            parent = torch.where(on_path, parents[t].gather(1, parent), parent)
        rows = zip(ids[..., 0].T.tolist(), score[:, 0].tolist(), logprob[:, 0].tolist(), length[:, 0].tolist(), strict=True)
        return [Hypothesis(y[: n - 1], s, p) for y, s, p, n in rows]
