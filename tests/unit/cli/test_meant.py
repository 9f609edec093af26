"""Input that is well-formed but cannot be meant is refused in one line that names the option or key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

T = "quickstart/fusion"


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["table", T, "--profile", "smoke", "--profile=mini"], "--profile: found smoke and mini"),
        (["run", T, "--seed", "1", "--seed", "2"], "--seed: found 1 and 2"),
        (["plan", T, "--set", "train.max_steps=2", "--set", "train.max_steps=3"], "found --set train.max_steps=2 too"),
        (["table", T, "--columns", ""], "--columns"),
        (["table", T, "--columns", "row,,bleu"], "--columns"),
        (["plan", T, T, T], f"{T}: found twice"),
        (["plan", T, "--set", "train.threads=10000"], "train.threads"),
        (["plan", T, "--set", "decode.beam_size=100000"], "decode.beam_size"),
        (["run", T, "--workers", "4096"], "4096"),
    ],
)
def test_options(cli: Any, words: list[str], found: str) -> None:
    code, _, err = cli(*words)
    assert code == 2 and found in err and "Traceback" not in err, err


@pytest.mark.parametrize(
    ("rows", "claims", "found"),
    [
        ("  a: {compare_with: b}\n  b: {compare_with: c}\n  c: {compare_with: a}\n", "", "a -> b -> c -> a"),
        ("  a: {}\n  b: {}\n", "claims: [{row: b, effect: 1}, {row: b, effect: -1}]\n", "another claim on b"),
        ("  a: {workers: 4096}\n", "", "workers"),
    ],
)
def test_keys(cli: Any, tmp_path: Path, rows: str, claims: str, found: str) -> None:
    file = tmp_path / "t.yaml"
    extends = Path(__file__).parents[3] / "search_spaces" / "quickstart.yaml"
    file.write_text(f"extends: {extends}\nsource: {{paper: mine, table: t}}\n{claims}rows:\n{rows}")
    code, _, err = cli("plan", file)
    assert code == 2 and f"{file}:" in err and found in err, err
