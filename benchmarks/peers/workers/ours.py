"""Our model, batcher, objective and optimizer in training, `decode_corpus` in decoding; `switches` turns fast paths on or off."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve()
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parents[2]), str(HERE.parents[3])]

import contextlib  # noqa: E402
from typing import get_args  # noqa: E402

import switches  # noqa: E402
import torch  # noqa: E402
from common import EOS, FORBID, Decoding, Prepared, Training, parameters, read_text, set_up  # noqa: E402
from protocol import serve  # noqa: E402
from sizes import Size  # noqa: E402
from training_step import store  # noqa: E402

from models.inference import Precision, prepared  # noqa: E402
from models.paths import PATHS  # noqa: E402
from models.transformer import build  # noqa: E402
from orchestrator import cpu  # noqa: E402
from orchestrator.decoding.translate import decode_corpus  # noqa: E402
from orchestrator.specs.schema import BatchSpec, DecodeSpec, LengthPenalty, OptimSpec  # noqa: E402
from orchestrator.training.batches import UpdateLoader  # noqa: E402
from orchestrator.training.objective import Normalizer, Objective  # noqa: E402
from orchestrator.training.optim import build_optimizer, set_lr  # noqa: E402


class OurTraining(Training):
    @contextlib.contextmanager
    def arithmetic(self, precision="fp32", fast=True, off=""):
        switches.set(fast, off=off)
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            yield


class OurDecoding(Decoding):
    model = None

    def arithmetic(self, **_):
        return contextlib.nullcontext()

    def round(self, *, beam, precision="fp32", fast=True, off="", **options):
        switches.set(fast, off=off)
        # weights are packed once per round, as the product does once per corpus
        with prepared(self.model, precision):
            return super().round(beam=beam, precision=precision, fast=fast, **options)


def make(job):
    set_up(job)
    path = cpu.use(job["threads"])
    size = Size(**job["size"])
    forbid = job["task"] == "decode"
    config = size.model(dropout=job["dropout"], output_bias=forbid)
    model = build(config, size.vocab, size.vocab, job["seed"])
    about = {"version": f"torch {torch.__version__}, {path}", "params": parameters(model)}
    if forbid:
        with torch.no_grad():
            model.output.bias[EOS] = FORBID
        return decoding(job, model.eval(), about)
    return training(job, model.train(), about)


def training(job, model, about):
    feed = UpdateLoader(store(read_text(job)), BatchSpec(unit="tokens", size=job["batch_tokens"]), seed=job["seed"])
    updates = [update for update, _ in zip(feed.updates(0, 0), range(feed.updates_of(0, 1)), strict=False)]
    ready = [Prepared(u, u.src_tokens, u.tgt_tokens, u.padded_tokens) for u in updates]
    objective, optimizers = Objective(model, job["smoothing"]), {}

    def update(payload):
        if PATHS.fused_optimizer not in optimizers:
            set_lr(optimizers.setdefault(PATHS.fused_optimizer, build_optimizer(model, OptimSpec())), job["lr"])
        optimizer = optimizers[PATHS.fused_optimizer]
        optimizer.zero_grad(set_to_none=True)
        total = 0.0
        for batch in payload.micro_batches:
            loss, log = objective(batch.src, batch.tgt_in, batch.tgt_out, Normalizer(payload.src_tokens, payload.tgt_tokens, 1.0))
            loss.backward()
            total += log["loss"].item()
        optimizer.step()
        return total / payload.tgt_tokens

    return OurTraining(job, ready, update, lambda b: b.tgt_tokens / b.payload.micro_batches[0].tgt_out.shape[0], **about)


def decoding(job, model, about):
    def translate(group, beam, precision="fp32", fast=True):
        penalty = LengthPenalty(kind="gnmt", alpha=0.6)
        spec = DecodeSpec(beam_size=beam, length_penalty=penalty, max_ratio=1e-6, max_extra=job["length"], precision=precision)
        # a group of up to 32 is one batch; all sources at once are batched by the product
        tokens = {"batch_tokens": 10**9} if len(group) <= 32 else {}
        found = decode_corpus(model, group, spec, **tokens)
        return [[*hypothesis.ids, EOS] for hypothesis in found]

    decoding = OurDecoding(job, translate, precisions=list(get_args(Precision)), **about)
    decoding.model = model
    return decoding


if __name__ == "__main__":
    serve(make)
