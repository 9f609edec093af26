"""One table of the page, and its headline in words."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestrator.report.cells import seed_list, state
from orchestrator.report.find import Finder, SeedResult
from orchestrator.report.table import Line, Table
from orchestrator.scoring.rouge import PRINCIPAL
from orchestrator.scoring.significance.verdicts import ONE_SEED
from orchestrator.specs.row import Row, short_id, starts
from orchestrator.specs.table import SCORED
from orchestrator.tables import counted


@dataclass(frozen=True)
class Section:
    """A table with its rows and their results.

    base: the row given by --baseline. scale: how the setting differs from the published one. arguments: options after the address of a row
    or table on a command line, with a leading space. asked: options that only the table needs. second: other corpora, with the same table
    on each. searches: tuned row -> the record of its search (`tuning.choice`).
    """

    table: Table
    rows: Sequence[Row]
    outcomes: Mapping[str, Sequence[SeedResult]]
    finder: Finder
    base: str | None = None
    scale: str = ""
    arguments: str = ""
    asked: str = ""
    second: Mapping[str, Table] = field(default_factory=dict)
    searches: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def starts(self) -> dict[str, str]:
        """Returns row -> the row with which it is compared."""
        return starts(self.rows, self.base)

    def done(self, row: str) -> list[SeedResult]:
        return [o for o in self.outcomes.get(row, ()) if o.status == "done" and o.bleu is not None]


@dataclass(frozen=True)
class Headline:
    """The question, the result, and the verdicts: word -> short names of its rows."""

    asked: str
    found: str
    verdicts: dict[str, list[str]]


def headline(section: Section) -> Headline:
    lines = section.table.rows
    run = [line for line in lines if line.kind in SCORED]
    done = [line for line in run if line.score is not None]
    seeds = sorted({seed for line in run if line.ours is not None for seed in line.ours.seeds})
    started = [section.starts[line.id] for line in (done or run) if line.id in section.starts]
    against = Counter(started).most_common(1)
    of_rows = {tuple(line.ours.seeds) for line in done if line.ours is not None}
    parts = [counted(len(done or run), "row")]
    if len(of_rows) > 1:
        parts.append(f"up to {counted(max(map(len, of_rows)), 'seed')}")
    elif seeds:
        parts.append(f"seeds {seed_list(seeds)}" if len(seeds) > 1 else "one seed")
    parts += [f"on {', '.join(sorted({str(line.ours.data) for line in done if line.ours}))}"] if done else []
    asked = ", ".join(parts) + (f" ({section.scale})" if section.scale else "")
    asked += f". Each row is compared with {short_id(against[0][0])} where nothing else is said." if against else "."
    verdicts: dict[str, list[str]] = {}
    judged = [*((line, line.judged.own, "") for line in lines), *((line, line.judged.nll, " in nll") for line in lines)]
    for line, one, where in judged:
        if one is not None:
            word = "with one seed" if one.verdict.word == ONE_SEED else one.verdict.word
            verdicts.setdefault(word + where, []).append(short_id(line.id))
    return Headline(asked, _found(run, done), verdicts)


def _found(run: Sequence[Line], done: Sequence[Line]) -> str:
    if not done:
        return f"None of the {len(run)} rows has figures yet." if len(run) != 1 else "Its row has no figures yet."
    corpora: dict[str, list[Line]] = {}
    for line in done:
        corpora.setdefault(str(line.ours and line.ours.data), []).append(line)
    text = " ".join(_highest(own, f" on {corpus}" if len(corpora) > 1 else "") for corpus, own in corpora.items())
    left = Counter(state(line).partition(":")[0] for line in run if line.score is None)
    return text + (f" Without figures: {', '.join(f'{count} {word}' for word, count in left.items())}." if left else "")


def _highest(done: Sequence[Line], where: str) -> str:
    best = max(done, key=lambda line: (line.score or 0.0, "@" not in line.id))  # a control may be its baseline, trained once
    assert best.ours is not None
    name = "ROUGE-L" if PRINCIPAL in best.ours.scores else "BLEU"
    text = f"{short_id(best.id)} ({best.label}) has the highest {name}{where}, {best.score:.2f}"
    text += f" ± {best.ours.bleu_spread:.2f} over its seeds" if best.ours.bleu_spread is not None and name == "BLEU" else ""
    own = best.judged.own
    if own is None or own.effect is None:
        return f"{text}."
    return f"{text}: {own.effect.interval} against {short_id(own.effect.against)}, {own.verdict.word}."
