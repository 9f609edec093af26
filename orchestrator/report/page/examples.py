"""Example translations: sentences of the test set with the source, a reference and every row's output, differences marked."""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from sacrebleu.metrics.chrf import CHRF

from orchestrator.report.page.section import Section
from orchestrator.specs.row import short_id
from orchestrator.specs.schema import RunSpec

EVEN, EXTREME = 6, 3
"""Number of sentences at even distances over the test set, and of sentences with the largest gains and losses."""
Word = tuple[str, bool]
"""A word, and whether it differs from the compared text."""


@dataclass(frozen=True)
class Example:
    """One sentence. number: its number in the test set, from 1. why: reason for its choice. outputs: (short name, words) of each row."""

    number: int
    why: str
    source: str | None
    reference: str | None
    outputs: list[tuple[str, list[Word]]]


@dataclass(frozen=True)
class Examples:
    """Examples of one table. seed: seed of the outputs. test: name of the test set. compared: text against which differences are marked."""

    seed: int
    test: str
    compared: str
    sentences: list[Example]


def examples(section: Section, rows: Sequence[str]) -> Examples | None:
    """The examples of `rows` (addresses; the first is the baseline, the second the best) that share a test set; None without texts."""
    specs = {row.id: row.spec for row in section.rows}
    outputs: dict[str, list[str]] = {}
    test, seed = "", 0
    for row_id in rows:
        spec = specs[row_id]
        done = next((o for o in section.done(row_id) if not outputs or o.seed == seed), None)
        if spec is None or done is None or (outputs and spec.score.test != test) or len(outputs) == 12:
            continue
        record = section.finder.ledger.read_decode(str(done.keys.train), str(done.keys.decode))
        if record is not None and (not outputs or len(record["hypotheses"]) == len(next(iter(outputs.values())))):
            test, seed, outputs[row_id] = spec.score.test, done.seed, record["hypotheses"]
    if not outputs:
        return None
    base, best = [*outputs, *outputs][:2]
    count, names = len(outputs[base]), {row_id: short_id(row_id) for row_id in outputs}
    texts = _texts(section, specs[base], test, count)
    chosen = {round((i + 0.5) * count / EVEN - 0.5): "at an even distance" for i in range(min(EVEN, count))}
    if texts is not None and best != base:
        chosen |= _extremes(outputs[base], outputs[best], texts[1], f"{names[best]} against {names[base]}")
    sentences = []
    for i in sorted(chosen):
        against = outputs[base][i] if texts is None else texts[1][i]
        marked = [(names[row_id], marks(lines[i], against)) for row_id, lines in outputs.items()]
        sentences.append(Example(i + 1, chosen[i], texts and texts[0][i], texts and texts[1][i], marked))
    return Examples(seed, test, names[base] if texts is None else "the reference", sentences)


def _texts(section: Section, spec: RunSpec | None, test: str, count: int) -> tuple[list[str], list[str]] | None:
    """Returns sources and first references of a test set; None if the corpus is not prepared here or differs."""
    prepared = None if spec is None else section.finder.data.prepared(spec.data)
    if prepared is None:
        return None
    sources, references = prepared.sources(test), prepared.references(test)[0]
    return (sources, references) if len(sources) == count else None


def _extremes(base: Sequence[str], best: Sequence[str], references: Sequence[str], pair: str) -> dict[int, str]:
    """Returns the sentences with the largest gains and losses in chrF of one row over another. pair: names of the rows."""
    metric = CHRF()
    gains = {
        i: metric.sentence_score(b, [r]).score - metric.sentence_score(a, [r]).score
        for i, (a, b, r) in enumerate(zip(base, best, references))
        if a != b
    }
    order = sorted(gains, key=lambda i: gains[i])
    lost = {i: f"a large loss of {pair}: {gains[i]:+.0f} chrF" for i in order[:EXTREME] if gains[i] <= -1}
    return lost | {i: f"a large gain of {pair}: {gains[i]:+.0f} chrF" for i in order[::-1][:EXTREME] if gains[i] >= 1}


def marks(text: str, against: str) -> list[Word]:
    """Returns the words of `text`. Words outside a longest common subsequence with `against` are marked."""
    words, others = text.split(), against.split()
    matched = SequenceMatcher(a=[w.casefold() for w in words], b=[w.casefold() for w in others], autojunk=False).get_matching_blocks()
    same = {i for block in matched for i in range(block.a, block.a + block.size)}
    return [(word, i not in same) for i, word in enumerate(words)]
