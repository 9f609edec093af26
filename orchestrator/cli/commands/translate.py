"""`translate`: stdin to stdout through the trained model of one row."""

from __future__ import annotations

import sys

from orchestrator.cli.commands.rows import resolve_one
from orchestrator.decoding.translate import lines_of
from orchestrator.files.folders import need_folder
from orchestrator.lifecycle.translator import load_translator
from orchestrator.safe_text import log
from orchestrator.sweeps.options import RowOptions


def translate(target: str, seed: int | None, options: RowOptions) -> None:
    """UserError where the row was not trained, its weights are gone, or stdin is not UTF-8."""
    need_folder(options.data_dir, "--data-dir")
    translator = load_translator(resolve_one(target, seed, options), options)
    for line in translator.translate(lines_of(sys.stdin.buffer.read()), log):
        sys.stdout.write(line + "\n")
