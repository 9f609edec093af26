"""CTranslate2 with our weights (a safetensors file and the model's config) in fp32 and int8, with batches of 32 or its own batching."""

import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import ctranslate2
import ctranslate2_model
from common import Decoding, read_text, set_up
from protocol import serve
from safetensors.numpy import load_file

TYPES = {"fp32": "float32", "int8": "int8"}
DIFFERS = "our weights; its own search; int8: weights and activations of linear layers"


def make(job):
    set_up(job)
    config = json.loads(Path(job["config"]).read_text())
    arrays = ctranslate2_model.variables(load_file(job["weights"]), config)
    folder = tempfile.TemporaryDirectory(prefix="ct2-")
    ctranslate2_model.convert(arrays, config, Path(folder.name))
    translators = {
        name: ctranslate2.Translator(folder.name, device="cpu", compute_type=kind, inter_threads=1, intra_threads=job["threads"])
        for name, kind in TYPES.items()
    }
    count = sum(value.size for value in arrays.values()) - arrays["decoder/projection/weight"].size * 2
    count -= arrays["encoder/position_encodings/encodings"].size * 2
    about = {"version": ctranslate2.__version__, "params": count, "precisions": list(TYPES), "differs": DIFFERS}
    length = job["length"]

    def translate(group, beam, precision="fp32", **options):
        found = translators[precision].translate_batch(
            [[f"w{i}" for i in source] for source in group],
            beam_size=beam,
            max_batch_size=32 if len(group) <= 32 else 2048,
            batch_type="examples" if len(group) <= 32 else "tokens",
            **({"min_decoding_length": length, "max_decoding_length": length} | options),
        )
        return [result.hypotheses[0] for result in found]

    if job["task"] == "quality":
        return Quality(job, translate, about, arrays["decoder/projection/weight"].shape[0])
    return Decoding(job, translate, **about)


class Quality:
    """Decodes without forced length and returns ids."""

    def __init__(self, job, translate, about, vocab):
        self.sources, self.translate, self.about = [source for source, _ in read_text(job)], translate, about
        self.ids = {token: i for i, token in enumerate(ctranslate2_model.tokens(vocab))}
        self.limit = job["length"]

    def round(self, beam, precision):
        outputs = self.translate(
            self.sources,
            beam,
            precision,
            min_decoding_length=1,
            max_decoding_length=self.limit,
            length_penalty=0.0,
            suppress_sequences=[["<pad>"], ["<s>"]],
        )
        return {"seconds": 0.0, "outputs": [[self.ids[token] for token in out] for out in outputs]}


if __name__ == "__main__":
    serve(make)
