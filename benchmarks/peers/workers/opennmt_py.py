"""OpenNMT-py: its dynamic iterator (buckets sorted by length), model, loss, optimizer, gradient accumulation and Translator."""

import sys
from pathlib import Path
from types import ModuleType

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
for unused in ("spacy", "fasttext"):  # imported by transforms that are not used here
    sys.modules.setdefault(unused, ModuleType(unused))

import torch  # noqa: E402
from common import FORBID, Decoding, Prepared, Training, padded, parameters, set_up  # noqa: E402
from onmt import __version__  # noqa: E402
from onmt.bin.train import _get_parser, train  # noqa: E402
from onmt.trainer import Trainer  # noqa: E402
from onmt.translate import GNMTGlobalScorer, Translator  # noqa: E402
from onmt.utils import Statistics  # noqa: E402
from protocol import serve  # noqa: E402
from toolkit import catch, write_files, write_json  # noqa: E402

DIFFERS = "pre-norm; no bias in query, key and value maps; output bias; source without EOS; stock Adam"


def make(job):
    set_up(job)
    files, size = write_files(job), job["size"]
    vocab = files.folder / "vocab"
    vocab.write_text("".join(f"{w}\t1\n" for w in files.words))
    config = {
        "save_data": str(files.folder / "run"),
        "save_model": str(files.folder / "model"),
        "data": {"corpus": {"path_src": str(files.src), "path_tgt": str(files.tgt), "transforms": []}},
        "src_vocab": str(vocab),
        "tgt_vocab": str(vocab),
        "share_vocab": True,
        "n_sample": 0,
        "num_workers": 0,
        "bucket_size": 262144,
        "batch_type": "tokens",
        "batch_size": job["batch_tokens"],
        "batch_size_multiple": 1,
        "normalization": "tokens",
        "accum_count": [1],
        "encoder_type": "transformer",
        "decoder_type": "transformer",
        "enc_layers": size["layers"],
        "dec_layers": size["layers"],
        "hidden_size": size["d_model"],
        "word_vec_size": size["d_model"],
        "transformer_ff": size["d_ff"],
        "heads": size["num_heads"],
        "position_encoding": True,
        "share_embeddings": True,
        "share_decoder_embeddings": True,
        "dropout": [job["dropout"]],
        "attention_dropout": [0.0],
        "label_smoothing": job["smoothing"],
        "optim": "adam",
        "adam_beta2": 0.998,
        "learning_rate": job["lr"],
        "decay_method": "none",
        "max_grad_norm": 0,
        "param_init": 0.0,
        "param_init_glorot": True,
        "train_steps": 10**6,
        "report_every": 10**9,
        "valid_steps": 10**9,
        "save_checkpoint_steps": 10**9,
        "world_size": 1,
        "gpu_ranks": [],
        "seed": job["seed"],
    }
    options, _ = _get_parser().parse_known_args(["-config", str(write_json(files.folder / "config.yaml", config))])
    trainer, (batches, *_), _ = catch(Trainer, "train", lambda: train(options))
    about = {"version": __version__, "params": parameters(trainer.model), "differs": DIFFERS}
    return (decoding if job["task"] == "decode" else training)(job, trainer, batches, about)


def training(job, trainer, iterator, about):
    source = iterator.__iter__()
    pad = trainer.train_loss.padding_idx
    ready, seen = [], 0
    for batch, _ in source:
        tgt = batch["tgt"][:, 1:, 0]
        ready.append(Prepared((batch, None, tgt), int(batch["srclen"].sum()), int(tgt.ne(pad).sum()), batch["src"].numel() + tgt.numel()))
        seen += len(tgt)
        if seen >= job["sentences"] * 0.9:  # the iterator never ends
            break
    trainer.model.train()

    def update(payload):
        stats = Statistics()
        count = int(payload[2].ne(pad).sum())
        trainer._gradient_accumulation([payload[0]], count, stats, Statistics())
        return stats.loss / stats.n_words

    return Training(job, ready, update, **about)


def decoding(job, trainer, iterator, about):
    model, vocabs = trainer.model.eval(), trainer.scoring_preparator.vocabs
    src, tgt = vocabs["src"], vocabs["tgt"]
    with torch.no_grad():
        model.generator.bias[tgt.lookup_token("</s>")] = FORBID
    pad = src.lookup_token("<blank>")

    def translate(group, beam, **_):
        translator = Translator(
            model,
            vocabs,
            min_length=job["length"] - 1,
            max_length=job["length"],
            max_length_ratio=0,
            beam_size=beam,
            global_scorer=GNMTGlobalScorer(0.6, 0.0, "wu", "none"),
            report_score=False,
        )
        rows = [[src.lookup_token(f"w{i}") for i in source] for source in group]
        batch = {"src": padded(rows, pad)[:, :, None], "srclen": torch.tensor([len(row) for row in rows])}
        found = translator.translate_batch(batch, False)
        return [best[0].tolist() for best in found["predictions"]]

    return Decoding(job, translate, **about)


if __name__ == "__main__":
    serve(make)
