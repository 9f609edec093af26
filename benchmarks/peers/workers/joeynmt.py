"""JoeyNMT: its loader (random batches, as it has no buckets), model, loss, optimizer, training step and search."""

import sys
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from common import EOS, FORBID, Decoding, Prepared, Training, padded, parameters, set_up
from joeynmt.batch import Batch
from joeynmt.config import load_config
from joeynmt.search import search
from joeynmt.training import TrainManager, train
from protocol import serve
from toolkit import catch, write_files, write_json

DIFFERS = "pre-norm; dropout also on attention weights; random batches, so much padding and fewer real tokens a batch; stock Adam"


def make(job):
    set_up(job)
    files, size = write_files(job), job["size"]
    vocab = files.folder / "vocab.txt"
    vocab.write_text("\n".join(["<unk>", "<pad>", "<s>", "</s>", *files.words]) + "\n")
    for name in ("train", "dev"):
        for side in ("src", "tgt"):
            text = (files.folder / (side if name == "train" else f"valid.{side}")).read_text()
            (files.folder / f"{name}.{side}").write_text(text)
    side = {"level": "word", "voc_file": str(vocab), "max_length": 100, "lowercase": False}
    stack = {
        "type": "transformer",
        "num_layers": size["layers"],
        "num_heads": size["num_heads"],
        "embeddings": {"embedding_dim": size["d_model"], "scale": True, "dropout": job["dropout"]},
        "hidden_size": size["d_model"],
        "ff_size": size["d_ff"],
        "dropout": job["dropout"],
        "layer_norm": "pre",
    }
    config = {
        "name": "peer",
        "model_dir": str(files.folder / "model"),
        "use_cuda": False,
        "fp16": False,
        "random_seed": job["seed"],
        "data": {
            "train": str(files.folder / "train"),
            "dev": str(files.folder / "dev"),
            "dataset_type": "plain",
            "src": {"lang": "src", **side},
            "trg": {"lang": "tgt", **side},
        },
        "testing": {"beam_size": 1},
        "training": {
            "optimizer": "adam",
            "adam_betas": [0.9, 0.98],
            "learning_rate": job["lr"],
            "loss": "crossentropy",
            "label_smoothing": job["smoothing"],
            "normalization": "tokens",
            "batch_size": job["batch_tokens"],
            "batch_type": "token",
            "early_stopping_metric": "loss",
            "scheduling": "exponential",  # steps at the end of an epoch only
            "epochs": 1,
        },
        "model": {
            "initializer": "xavier_uniform",
            "embed_initializer": "xavier_uniform",
            "tied_embeddings": True,
            "tied_softmax": True,
            "encoder": stack,
            "decoder": stack,
        },
    }
    config = load_config(write_json(files.folder / "config.yaml", config))
    (files.folder / "model").mkdir()
    manager, args, given = catch(TrainManager, "train_and_validate", lambda: train(0, 1, config, skip_test=True))
    about = {"version": version("joeynmt"), "params": parameters(manager.model), "differs": DIFFERS}
    if job["task"] == "decode":
        return decoding(job, manager.model.eval(), about)
    return training(job, manager, given.get("train_data") or args[0], about)


def training(job, manager, data, about):
    model = manager.model
    loader = data.make_iter(
        batch_size=job["batch_tokens"],
        batch_type="token",
        seed=job["seed"],
        shuffle=True,
        pad_index=model.pad_index,
        eos_index=model.eos_index,
        device=torch.device("cpu"),
    )
    ready = []
    for batch, _ in zip(loader, range(100), strict=False):
        src = int(batch.src_length.sum())
        ready.append(Prepared((batch, None, batch.trg), src, batch.ntokens, batch.src.numel() + batch.trg.numel()))
    model.train()
    model.zero_grad()

    def update(payload):
        manager.autocast = {"device_type": "cpu", "enabled": torch.is_autocast_enabled("cpu"), "dtype": torch.bfloat16}
        loss, _ = manager._train_step(payload[0])
        manager.optimizer.step()
        model.zero_grad()
        return loss

    return Training(job, ready, update, **about)


def decoding(job, model, about):
    with torch.no_grad():
        layer = model.decoder.output_layer
        layer.bias = torch.nn.Parameter(torch.zeros(layer.weight.shape[0]))
        layer.bias[model.eos_index] = FORBID

    def translate(group, beam, **_):
        rows = [[*source, EOS] for source in group]
        lengths = torch.tensor([len(row) for row in rows])
        batch = Batch(
            src=padded(rows, model.pad_index),
            src_length=lengths,
            src_prompt_mask=None,
            trg=None,
            trg_prompt_mask=None,
            indices=torch.arange(len(rows)),
            device=torch.device("cpu"),
            pad_index=model.pad_index,
            eos_index=model.eos_index,
            is_train=False,
        )
        autocast = {"device_type": "cpu", "enabled": torch.is_autocast_enabled("cpu"), "dtype": torch.bfloat16}
        options = {"max_output_length": job["length"], "beam_size": beam, "beam_alpha": 0.6, "n_best": 1, "autocast": autocast}
        output, _, _ = search(model, batch, **options)
        return output.tolist()

    return Decoding(job, translate, every=3, **about)


if __name__ == "__main__":
    serve(make)
