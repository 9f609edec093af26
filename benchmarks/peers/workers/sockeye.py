"""Sockeye: its buckets, model (traced in training), loss, optimizer and training step, and its Translator, also in int8."""

import math
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch
from common import EOS, FORBID, Decoding, Prepared, Training, parameters, set_up
from protocol import serve
from sockeye import __version__, arguments, inference
from sockeye.model import load_models
from sockeye.train import train
from sockeye.training import EarlyStoppingTrainer, TrainState
from toolkit import catch, write_files, write_json

DIFFERS = (
    "pre-norm; dropout 0.1 at the same sites; output bias; buckets of 8 tokens; own label smoothing formula; stock Adam; greedy is beam 1"
)


def make(job):
    set_up(job)
    files, size = write_files(job), job["size"]
    vocab = write_json(files.folder / "vocab.json", {w: i for i, w in enumerate(["<pad>", "<unk>", "<s>", "</s>", *files.words])})
    output, drop = files.folder / "model", str(job["dropout"])
    options = {
        "source": files.src,
        "target": files.tgt,
        "validation-source": f"{files.folder}/valid.src",
        "validation-target": f"{files.folder}/valid.tgt",
        "source-vocab": vocab,
        "target-vocab": vocab,
        "output": output,
        "num-layers": size["layers"],
        "transformer-model-size": size["d_model"],
        "transformer-attention-heads": size["num_heads"],
        "transformer-feed-forward-num-hidden": size["d_ff"],
        "transformer-dropout-attention": "0.0",
        "transformer-dropout-act": drop,
        "transformer-dropout-prepost": drop,
        "embed-dropout": drop,
        "weight-tying-type": "src_trg_softmax",
        "batch-type": "max-word",
        "batch-size": job["batch_tokens"],
        "batch-sentences-multiple-of": 1,
        "max-seq-len": 95,
        "label-smoothing": job["smoothing"],
        "optimizer": "adam",
        "initial-learning-rate": job["lr"],
        "learning-rate-scheduler-type": "none",
        "gradient-clipping-type": "none",
        "checkpoint-interval": 10**9,
        "max-updates": 10**9,
        "seed": job["seed"],
    }
    parser = arguments.ConfigArgumentParser()
    arguments.add_train_cli_args(parser)
    flags = ["--shared-vocab", "--use-cpu", "--no-logfile"]
    args = parser.parse_args([*(part for key, value in options.items() for part in (f"--{key}", str(value))), *flags])
    trainer, _, given = catch(EarlyStoppingTrainer, "fit", lambda: train(args))
    about = {"version": __version__, "params": parameters(trainer.sockeye_model), "differs": DIFFERS}
    if job["task"] == "decode":
        return decoding(job, trainer.sockeye_model, output, about)
    return training(job, trainer, given["train_iter"], about)


def training(job, trainer, iterator, about):
    trainer.state = TrainState(trainer.config.early_stopping_metric)
    ready = []
    while iterator.iter_next():
        batch = iterator.next()
        labels = batch.labels["target_label"]
        src, tgt = int(batch.source_length[:, 0].sum()), int((labels != 0).sum())
        ready.append(Prepared((batch, None, labels), src, tgt, batch.source.shape[0] * batch.source.shape[1] + labels.numel()))
    trainer.model_object.train()
    metric = trainer.loss_functions[0].metric

    def update(payload):
        metric.reset()
        trainer._step(payload[0])
        return math.log(metric.get())  # the metric is the perplexity

    return Training(job, ready, update, **about)


def decoding(job, model, output, about):
    with torch.no_grad():
        model.output_layer.bias[EOS] = FORBID
    model.save_config(str(output))
    model.save_version(str(output))
    model.save_parameters(str(output / "params.best"))
    translators = {}

    def translator(beam, precision):
        if (beam, precision) not in translators:
            kind = {"fp32": "float32", "int8": "int8"}[precision]
            models, sources, targets = load_models(torch.device("cpu"), [str(output)], dtype=kind, inference_only=True)
            for loaded in models:
                loaded.eval()
            made = inference.Translator(
                device=torch.device("cpu"),
                ensemble_mode="linear",
                scorer=inference.CandidateScorer(1.0, 0.0, brevity_penalty_weight=0.0),
                batch_size=32,
                beam_size=beam,
                beam_search_stop="all",
                models=models,
                source_vocabs=sources,
                target_vocabs=targets,
                greedy=False,  # its greedy search takes one sentence at a time, so that beam search is faster at beam 1
                constant_length_ratio=-1.0,
            )
            made._get_max_output_length = lambda _: job["length"]
            translators[beam, precision] = made
        return translators[beam, precision]

    def translate(group, beam, precision="fp32", **_):
        inputs = [inference.TranslatorInput(i, [f"w{w}" for w in source]) for i, source in enumerate(group)]
        return [found.tokens for found in translator(beam, precision).translate(inputs)]

    return Decoding(job, translate, precisions=["fp32", "int8"], **about)


if __name__ == "__main__":
    serve(make)
