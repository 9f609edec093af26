"""Text that trains without an error but is not what its owner thinks: each fault is said, and sound text is not accused."""

import random
from itertools import pairwise
from pathlib import Path

import pytest

from orchestrator.data.check import check
from orchestrator.data.prepare import prepare
from orchestrator.specs.schema import DataSpec, Subword

SIZES = {"train": 300, "valid": 60, "test": 60}
WORDS = {
    "a": "der hund läuft über die straße und sieht einen großen ball".split(),  # noqa: SIM905
    "b": "dog runs over the street and sees a big ball".split(),  # noqa: SIM905
}
Pairs = dict[str, list[tuple[str, str]]]


@pytest.fixture
def pairs() -> Pairs:
    """German and English of fitting lengths, each pair once."""
    chance = random.Random(1)

    def pair(name: str) -> tuple[str, str]:
        length = chance.randint(4, 20)
        source, target = (" ".join(chance.choice(WORDS[side]) for _ in range(length)) for side in "ab")
        return f"{source} {name}.", f"{target} {name}."

    return {split: [pair(f"{split[0]}{i}") for i in range(size)] for split, size in SIZES.items()}


def write(data_dir: Path, pairs: Pairs) -> None:
    for split, rows in pairs.items():
        for side, lines in zip("ab", zip(*rows, strict=True), strict=True):
            (data_dir / "tiny" / f"{split}.{side}").write_text("".join(line + "\n" for line in lines), encoding="utf-8", newline="")


def change(rows: list[tuple[str, str]], old: str, new: str) -> list[tuple[str, str]]:
    return [(source, target.replace(old, new)) for source, target in rows]


ODD = {
    "swapped": ("test", lambda rows, _: [(b, a) for a, b in rows], "test.b look swapped: each is more like the other side of train"),
    "a line too many": ("train", lambda rows, _: [(a, b) for (_, b), (a, _) in pairwise(rows)], "source one line before"),
    "a line is missing": ("train", lambda rows, _: [(a, b) for (a, _), (_, b) in pairwise(rows)], "source one line after"),
    "five times": ("train", lambda rows, _: rows * 5, "tiny: about 80% of the pairs of train repeat earlier ones"),
    "leak": ("test", lambda rows, train: rows[3:] + train[:3], "tiny: 3 sources of test (5.0%) are in train too"),
    "leak but for case": (
        "test", lambda rows, train: rows[3:] + [(a.upper().replace(".", " !"), b) for a, b in train[:3]],
        "tiny: 3 sources of test (5.0%) are in train too up to punctuation and case",
    ),
    "encoded twice": (
        "valid", lambda rows, _: [(a.replace("ü", "Ã¼"), b) for a, b in rows[:1]] + [("müde mÃ¼de ü", "tired")] + rows[2:],
        "looks like UTF-8 encoded twice",
    ),
    "apostrophes encoded twice": ("valid", lambda rows, _: change(rows, "dog", "dogâ€™s"), "looks like UTF-8 encoded twice, the first of"),
    "segments": ("test", lambda rows, _: [(a, f"<seg id='1'> {b} </seg>") for a, b in rows], "test.b: line 1 is SGML, the"),
    "files joined": ("train", lambda rows, _: [*rows[:9], (f"\ufeff{rows[9][0]}", "a"), *rows[10:]], "line 10 has a byte order mark"),
    "CR": ("train", lambda rows, _: [*rows[:9], (rows[9][0], "a\rb"), *rows[10:]], "train.b: line 10 has a CR inside: a"),
}  # fmt: skip


@pytest.mark.parametrize("what", ODD)
def test_each_oddity_is_one_warning(tiny: Path, tiny_entry, pairs: Pairs, what: str) -> None:
    split, spoil, expected = ODD[what]
    write(tiny, pairs | {split: spoil(pairs[split], pairs["train"])})
    report = check(tiny_entry(), tiny)
    warnings = [line for line in report.warnings if "do not occur in train" not in line]  # such small text lacks letters
    assert report.problems == [] and [line for line in warnings if expected in line] == warnings != []
    assert len(warnings) == 1


def test_sound_text_is_not_accused(tiny: Path, tiny_entry, pairs: Pairs) -> None:
    rows = change(pairs["valid"], "dog", "«NÃO» AMANHÃ” AMANHÃ… 5 < 6 señor Ñ ÂGE café")
    write(tiny, pairs | {"valid": rows})
    assert [line for line in check(tiny_entry(), tiny).warnings if "do not occur in train" not in line] == []
    same = {split: [("ein hund " + a[-4:], "one dog  " + b[-4:]) for a, b in rows] for split, rows in pairs.items()}
    write(tiny, same)
    assert not [line for line in check(tiny_entry(), tiny).warnings if "source one line" in line], "lines of nearly one length"


def test_preparing_an_entry_written_by_hand_says_it_once(tiny: Path, pairs: Pairs, tmp_path, capfd) -> None:
    write(tiny, pairs | {"test": pairs["test"][1:] + pairs["train"][:1]})
    for expected in (1, 0):
        prepared = prepare(DataSpec(corpus="tiny", subword=Subword(size=100)), tiny, tmp_path / "cache")
        assert prepared.stats["leaked"] == {"test": [1, 0, 60]}
        assert capfd.readouterr().err.count("warning: tiny: 1 sources of test (1.7%) are in train too\n") == expected
