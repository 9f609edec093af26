"""The trained model of one row, for `translate`, the API and exported folders, where it reads lines from standard input:

    python translate.py < source.txt > target.txt

Exported folders hold a copy. It needs torch, numpy, safetensors, sentencepiece for BPE or unigram, and sacremoses for Moses tokenisation.
"""

import hashlib
import json
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import safetensors.torch
import torch

from models.transformer import Transformer, build
from orchestrator import cpu
from orchestrator.data.text_processor import TextProcessor
from orchestrator.decoding.translate import lines_of, translate_lines
from orchestrator.errors import UserError


class Translator:
    """Translates running text with the search that scored the row.

    folder: of the vocabularies. config: an exported `config.json`.
    """

    def __init__(self, folder: Path, config: Mapping[str, Any], weights: Mapping[str, torch.Tensor]) -> None:
        cpu.use(config["threads"])
        search = config["decode"]
        self.search: Any = SimpleNamespace(**search | {"length_penalty": SimpleNamespace(**search["length_penalty"])})
        self.text = TextProcessor(folder, config["text"])
        self.model: Transformer = build(config["model"], config["src_size"], config["tgt_size"], config["seed"])
        with torch.no_grad():
            for name, parameter in self.model.named_parameters():
                parameter.copy_(weights[name])
        self.model.to("cuda" if torch.cuda.is_available() else "cpu").eval()

    def translate(self, lines: Sequence[str], warn: Callable[[str], None] = lambda line: print(line, file=sys.stderr)) -> list[str]:
        """Translations in the order of `lines`, one sentence each. warn: called with a message for each line that is cut."""
        if isinstance(lines, str):
            raise UserError("translate: found a str; expected a list of sentences")
        return translate_lines(self.model, self.text, lines, self.search, warn)


def load(folder: Path) -> Translator:
    """The model of an exported folder. Raises ValueError if the weights differ from the exported ones."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    data = (folder / "model.safetensors").read_bytes()
    if hashlib.sha256(data).hexdigest() != config["sha256"]["model.safetensors"]:
        raise ValueError("model.safetensors: sha256 differs from config.json")
    return Translator(folder, config, safetensors.torch.load(data))


def main(folder: Path) -> None:
    """Translates UTF-8 lines from standard input to standard output. Invalid input gives one line on stderr and exit code 2."""
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # a reader that ends, as `head`, ends it too
    try:
        if sys.argv[1:]:
            raise UserError(f"found the argument {sys.argv[1]!r}; expected none: sentences come from standard input, one a line")
        if sys.stdin is None or sys.stdout is None:
            raise UserError("standard input or output is closed; expected both")
        translated = load(folder).translate(lines_of(sys.stdin.buffer.read()))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    for line in translated:
        sys.stdout.buffer.write(f"{line}\n".encode())
