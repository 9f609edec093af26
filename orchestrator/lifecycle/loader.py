"""Translates with an exported row, line by line from standard input to standard output:

    python translate.py < source.txt > target.txt

Needs torch and numpy, sentencepiece for BPE or unigram subwords, and sacremoses for Moses tokenisation. Search, text processing and model
are copies of the code that scored the row. The weights are verified before use.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import torch

from models.transformer import Transformer, build
from orchestrator import cpu
from orchestrator.data import subword
from orchestrator.data.sentences import DocumentSegmenter, truncated
from orchestrator.data.tokenize import Tokenizer
from orchestrator.decoding.translate import lines_of, translate_lines
from orchestrator.errors import UserError
from orchestrator.lifecycle.plain_spec import DecodeSpec

DTYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "F64": torch.float64}


class TextProcessor:
    """Converts raw lines to token ids and back with the text processing of the training data."""

    def __init__(self, folder: Path, config: dict[str, Any]) -> None:
        documents, self.limit = config["documents"], config["truncate"] or {}
        loaded = {name: subword.load(folder / f"{name}.vocab", config["subword"]) for name in config["vocabularies"]}
        self.tokenizers, self.segmenters = {}, {}
        for side, language in zip(("src", "tgt"), config["languages"], strict=True):
            self.tokenizers[side] = Tokenizer(language, config["tokenizer"], config["lowercase"], documents=documents, form=config["form"])
            segmenter = loaded.get("joint") or loaded[side]
            self.segmenters[side] = DocumentSegmenter(segmenter, side) if documents else segmenter

    def encode(self, lines: list[str], side: str = "src") -> list[list[int]]:
        """Token ids of raw lines, truncated as in training."""
        tokens = self.tokenizers[side].tokenise_text(lines)
        return [truncated(ids, self.limit.get(side)) for ids in self.segmenters[side].encode(tokens)]

    def decode(self, ids_list: list[list[int]], side: str = "tgt") -> list[str]:
        """Detokenised text of token ids."""
        lines = self.segmenters[side].decode([[int(i) for i in ids] for ids in ids_list])
        return self.tokenizers[side].detokenise(lines)


class Translator:
    """The model of an exported folder. Raises ValueError if the weights differ from the exported ones."""

    def __init__(self, folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        cpu.use(config["threads"])
        self.decode = DecodeSpec.of(config["decode"])
        self.text = TextProcessor(folder, config["text"])
        self.model: Transformer = build(config["model"], config["src_size"], config["tgt_size"], config["seed"])
        weights = tensors(folder / "model.safetensors", config["sha256"]["model.safetensors"])
        with torch.no_grad():
            for name, parameter in self.model.named_parameters():
                parameter.copy_(weights[name])
        self.model.to("cuda" if torch.cuda.is_available() else "cpu").eval()

    def translate(self, lines: Sequence[str], log: Callable[[str], None] = lambda line: None) -> list[str]:
        """Translations of raw lines (see `translate_lines`); `log` receives warnings."""
        return translate_lines(self.model, self.text, lines, cast(Any, self.decode), log)


def tensors(path: Path, sha256: str) -> dict[str, torch.Tensor]:
    """Reads a safetensors file: 8 bytes with the length of a JSON header (little endian), the header, then the data.

    Raises ValueError if the sha256 of the file differs.
    """
    data = bytearray(path.read_bytes())
    if hashlib.sha256(data).hexdigest() != sha256:
        raise ValueError(f"{path.name}: sha256 differs from config.json")
    start = 8 + int.from_bytes(data[:8], "little")
    loaded_tensors = {}
    for name, entry in json.loads(data[8:start]).items():
        if name != "__metadata__":
            first, last = entry["data_offsets"]
            dtype = DTYPES[entry["dtype"]]
            flat = torch.frombuffer(data[start + first : start + last], dtype=dtype) if last > first else torch.empty(0, dtype=dtype)
            loaded_tensors[name] = flat.reshape(entry["shape"])
    return loaded_tensors


def main(folder: Path) -> None:
    """Translates UTF-8 lines from standard input to standard output. Invalid input gives one line on stderr and exit code 2."""
    try:
        if sys.stdin is None or sys.stdout is None:
            raise UserError("standard input or output is closed; expected both")
        lines = lines_of(sys.stdin.buffer.read())
        translated = Translator(folder).translate(lines, log=lambda line: print(line, file=sys.stderr))
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    for line in translated:
        sys.stdout.buffer.write(f"{line}\n".encode())
