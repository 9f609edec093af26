"""x-transformers: XTransformer with its flash attention; it has no trainer, so batches by length and fused Adam are used."""

import sys
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from common import (
    BOS,
    EOS,
    PAD,
    Decoding,
    Training,
    bucketed,
    padded,
    parameters,
    read_text,
    set_up,
    tensors,
)
from protocol import serve
from torch.nn import functional as F
from x_transformers import XTransformer

DIFFERS = "pre-norm; no dropout on residuals; no bias in linear layers; learned positions; fused Adam"


def make(job):
    set_up(job)
    size = job["size"]
    side = {
        "num_tokens": size["vocab"],
        "max_seq_len": 128,
        "depth": size["layers"],
        "heads": size["num_heads"],
        "attn_dim_head": size["d_model"] // size["num_heads"],
        "ff_mult": size["d_ff"] // size["d_model"],
        "attn_flash": True,
        "emb_dropout": job["dropout"],
        "ff_dropout": job["dropout"],
    }
    both = {f"{name}_{key}": value for name in ("enc", "dec") for key, value in side.items()}
    model = XTransformer(dim=size["d_model"], tie_token_emb=True, pad_value=PAD, ignore_index=PAD, **both)
    net = model.decoder.net
    net.to_logits.weight = net.token_emb.emb.weight
    torch.nn.init.normal_(net.token_emb.emb.weight, std=size["d_model"] ** -0.5)
    about = {"version": version("x-transformers"), "params": parameters(model), "differs": DIFFERS}
    if job["task"] == "decode":
        return decoding(job, model.eval(), about)
    pairs = read_text(job)
    batches = [tensors(pairs, group) for group in bucketed(pairs, job["batch_tokens"])]
    optimizer = torch.optim.Adam(model.parameters(), lr=job["lr"], betas=(0.9, 0.98), eps=1e-9, fused=True)
    model.train()

    def update(payload):
        src, tgt_in, tgt_out = payload
        optimizer.zero_grad()
        mask = src != PAD
        encoded = model.encoder(src, mask=mask, return_embeddings=True)
        logits = net(tgt_in, context=encoded, context_mask=mask)
        loss = F.cross_entropy(logits.flatten(0, 1).float(), tgt_out.flatten(), ignore_index=PAD, label_smoothing=job["smoothing"])
        loss.backward()
        optimizer.step()
        return loss.item()

    return Training(job, batches, update, **about)


def decoding(job, model, about):
    def translate(group, beam, **_):
        if beam > 1:
            raise NotImplementedError("XTransformer.generate has no beam search")
        src = padded([[*source, EOS] for source in group])
        start = torch.full((len(src), 1), BOS)
        return model.generate(src, start, job["length"], mask=src != PAD, temperature=0.0).tolist()

    return Decoding(job, translate, **about)


if __name__ == "__main__":
    serve(make)
