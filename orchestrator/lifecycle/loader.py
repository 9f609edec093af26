"""The trained model of one row, for `translate`, the API and exported folders, where it reads lines from standard input:

    python translate.py < source.txt > target.txt

An exported folder holds a copy of this module. It needs torch, numpy and safetensors, sentencepiece for BPE or unigram subwords, and
sacremoses for Moses tokenisation.
"""

import hashlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import safetensors.torch
import torch

from models.transformer import Transformer, build
from orchestrator import cpu
from orchestrator.data import subword
from orchestrator.data.sentences import DocumentSegmenter, truncated
from orchestrator.data.tokenize import Tokenizer
from orchestrator.decoding.translate import lines_of, translate_lines
from orchestrator.errors import UserError
from orchestrator.specs.text_form import normalised


class TextProcessor:
    """Converts raw lines to token ids and back with the text processing of the training data.

    folder: of the vocabularies. config: section `text` of an exported `config.json`.
    """

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        documents, self.limit = config["documents"], config["truncate"] or {}
        self.normal_form = config.get("normal_form")
        loaded = {name: subword.load(folder / f"{name}.vocab", config["subword"]) for name in config["vocabularies"]}
        self.tokenizers, self.segmenters = {}, {}
        for side, language in zip(("src", "tgt"), config["languages"], strict=True):
            self.tokenizers[side] = Tokenizer(language, config["tokenizer"], config["lowercase"], documents=documents, form=config["form"])
            segmenter = loaded.get("joint") or loaded[side]
            self.segmenters[side] = DocumentSegmenter(segmenter, side) if documents else segmenter

    def encode(self, lines: list[str], side: str = "src") -> list[list[int]]:
        """Token ids of raw lines, truncated as in training."""
        tokens = self.tokenizers[side].tokenise_text(normalised(lines, self.normal_form))
        return [truncated(ids, self.limit.get(side)) for ids in self.segmenters[side].encode(tokens)]

    def decode(self, ids_list: list[list[int]], side: str = "tgt") -> list[str]:
        """Detokenised text of token ids."""
        lines = self.segmenters[side].decode([[int(i) for i in ids] for ids in ids_list])
        return self.tokenizers[side].detokenise(lines)


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
    try:
        if sys.stdin is None or sys.stdout is None:
            raise UserError("standard input or output is closed; expected both")
        translated = load(folder).translate(lines_of(sys.stdin.buffer.read()))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    for line in translated:
        sys.stdout.buffer.write(f"{line}\n".encode())
