"""The README of an exported row."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from orchestrator.safe_text import markdown

TITLES = {"bleu": "BLEU", "chrf": "chrF", "rouge1": "ROUGE-1", "rouge2": "ROUGE-2", "rougeL": "ROUGE-L"}


def model_card(metadata: Mapping[str, Any], weights_sha256: str) -> str:
    """Returns Markdown. metadata: see `export_row`. Figures appear as in the ledger, with their signatures."""
    source, target = map(markdown, metadata["languages"])
    lines = [
        f"# {markdown(metadata['id'])}, seed {metadata['seed']}",
        "",
        f"{markdown(metadata['label'])}. A translation model from {source} to {target}, trained as one row of an ablation table.",
        "",
        "    python translate.py < source.txt > target.txt        # needs torch; see requirements below",
        "",
        "| | |",
        "|---|---|",
        f"| parameters | {metadata['params']:,} |",
        f"| updates | {metadata['steps']:,} |",
        f"| corpus | {markdown(metadata['corpus'])} (prepared data {metadata['data_key'][:16]}) |",
        f"| weights | {markdown(metadata['checkpoint'])}, sha256 of the tensors {weights_sha256} |",
        f"| search | beam {metadata['beam_size']}, options in config.json |",
    ]
    if metadata["init_from"]:
        lines.append(f"| started from | {markdown(metadata['init_from'])} |")
    lines += [f"| {name} key | {key} |" for name, key in metadata["keys"].items()]
    lines += ["", "## Figures", ""]
    lines += _scores(metadata["scores"]) or ["Not scored."]
    lines += ["", "One training with one seed: no spread is known from this folder alone."]
    if metadata["assumed"]:
        lines += ["", "## Assumed (not stated by the paper)", "", *(f"- {markdown(text)}" for text in metadata["assumed"])]
    lines += [
        "",
        "## Capsule: what it was trained with",
        "",
        "| | |",
        "|---|---|",
        *(f"| {markdown(name)} | {_text(value)} |" for name, value in metadata["capsule"].items()),
        "",
        "## Files",
        "",
        "`model.safetensors` weights, `*.vocab` subwords, `config.json` model, text processing and search, `row.yaml` the resolved row",
        "(`nmt-ablate run row.yaml` trains it again), `capsule.json`, `SHA256SUMS` (`sha256sum -c SHA256SUMS`), `models/` and",
        "`translator/` the code.",
        "",
        "Requirements: torch, numpy and safetensors; sentencepiece for BPE and unigram vocabularies, sacremoses where `config.json` says",
        "`moses`.",
        "",
        "The code is Apache-2.0. The licence of the corpus holds for what is made of it: look it up before you pass the weights on.",
        "",
    ]
    return "\n".join(lines)


def _scores(scores: Mapping[str, Mapping[str, Any]]) -> list[str]:
    if not scores:
        return []
    rows = ["| test set | figure | signature |", "|---|---|---|"]
    for name, found in scores.items():
        figures = [f"{title} {_figure(found[key])}" for key, title in TITLES.items() if key in found]
        rows.append(f"| {markdown(name)} | {', '.join(figures)} | {markdown(str(found.get('signature', '')))} |")
    return rows


def _figure(value: Any) -> str:
    value = value.get("score", value) if isinstance(value, Mapping) else value
    return f"{value:.2f}" if isinstance(value, (int, float)) else _text(value)


def _text(value: Any) -> str:
    return markdown(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
