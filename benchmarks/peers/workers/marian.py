"""HuggingFace Marian: MarianMTModel with the Trainer's label smoothing and default optimizer (fused AdamW), and `generate`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
import transformers
from common import (
    BOS,
    EOS,
    FORBID,
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
from transformers.trainer_pt_utils import LabelSmoother

DIFFERS = "post-norm; fused AdamW without decay (its Trainer's default); batches by length as ours"


def config(size, dropout):
    """Dropout is not applied to attention weights."""
    side = {"layers": size["layers"], "ffn_dim": size["d_ff"], "attention_heads": size["num_heads"]}
    return transformers.MarianConfig(
        vocab_size=size["vocab"],
        decoder_vocab_size=size["vocab"],
        d_model=size["d_model"],
        **{f"{name}_{key}": value for name in ("encoder", "decoder") for key, value in side.items()},
        dropout=dropout,
        activation_dropout=dropout,
        attention_dropout=0.0,
        activation_function="relu",
        scale_embedding=True,
        max_position_embeddings=128,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        decoder_start_token_id=BOS,
        forced_eos_token_id=None,
    )


def make(job):
    set_up(job)
    model = transformers.MarianMTModel(config(job["size"], job["dropout"]))
    about = {"version": transformers.__version__, "params": parameters(model), "differs": DIFFERS}
    if job["task"] == "decode":
        return decoding(job, model.eval(), about)
    pairs = read_text(job)
    batches = [tensors(pairs, group) for group in bucketed(pairs, job["batch_tokens"])]
    optimizer = torch.optim.AdamW(model.parameters(), lr=job["lr"], betas=(0.9, 0.98), weight_decay=0.0, fused=True)
    smooth = LabelSmoother(epsilon=job["smoothing"])
    model.train()

    def update(payload):
        src, tgt_in, tgt_out = payload
        optimizer.zero_grad()
        output = model(input_ids=src, attention_mask=(src != PAD).long(), decoder_input_ids=tgt_in, use_cache=False)
        loss = smooth(output, tgt_out.masked_fill(tgt_out == PAD, -100))
        loss = loss if isinstance(loss, torch.Tensor) else loss[0]
        loss.backward()
        optimizer.step()
        return loss.item()

    return Training(job, batches, update, **about)


def decoding(job, model, about):
    with torch.no_grad():
        model.final_logits_bias[0, [EOS, PAD]] = FORBID

    def translate(group, beam, **_):
        src = padded([[*source, EOS] for source in group])
        found = model.generate(
            input_ids=src,
            attention_mask=(src != PAD).long(),
            num_beams=beam,
            do_sample=False,
            min_new_tokens=job["length"],
            max_new_tokens=job["length"],
            use_cache=True,
        )
        return [row[1:] for row in found.tolist()]

    return Decoding(job, translate, **about)


if __name__ == "__main__":
    serve(make)
