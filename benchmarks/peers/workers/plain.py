"""Plain torch (benchmarks/plain.py) with stock Adam, torch's default matmul and batches by length."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve()
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parents[2])]

import torch  # noqa: E402
from common import EOS, FORBID, Decoding, Training, bucketed, padded, parameters, read_text, set_up, tensors  # noqa: E402
from plain import PlainTransformer, beam_search, loss  # noqa: E402
from protocol import serve  # noqa: E402


def make(job):
    set_up(job)
    size = job["size"]
    model = PlainTransformer(size["vocab"], size["d_model"], size["d_ff"], size["num_heads"], size["layers"], job["dropout"])
    about = {"version": torch.__version__, "params": parameters(model)}
    if job["task"] == "decode":
        model.eval().bias = torch.zeros(size["vocab"])
        model.bias[EOS] = FORBID
        return Decoding(job, lambda group, beam, **_: beam_search(model, padded([[*s, EOS] for s in group]), beam, job["length"]), **about)
    pairs = read_text(job)
    batches = [tensors(pairs, group) for group in bucketed(pairs, job["batch_tokens"])]
    optimizer = torch.optim.Adam(model.parameters(), lr=job["lr"], betas=(0.9, 0.98), eps=1e-9)
    model.train()

    def update(payload):
        optimizer.zero_grad()
        value = loss(model, *payload, job["smoothing"])
        value.backward()
        optimizer.step()
        return value.item()

    return Training(job, batches, update, **about)


if __name__ == "__main__":
    serve(make)
