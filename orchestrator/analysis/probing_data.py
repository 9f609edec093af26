"""Which sentences a row is probed with: SentEval's files, plain sentences of the user's, or what the built-in language's grammar draws."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from orchestrator.analysis.base import Context, Subject
from orchestrator.data import probing_derived, toy_probing
from orchestrator.data.corpus import read_lines
from orchestrator.data.senteval import NAME, SPLITS, Part, ProbingSet, Task, load
from orchestrator.data.toy_lexicon import ToyParams
from orchestrator.errors import UserError
from orchestrator.specs.corpora import load_entry
from orchestrator.specs.positions import shown


@dataclass(frozen=True)
class Source:
    """data: `senteval`, `derived` or `toy`; sets: name of the task -> instances; notes: what a reader must know of them."""

    data: str
    sets: dict[str, ProbingSet]
    notes: list[str] = field(default_factory=list)


class Sources:
    """The sentences of each row; files are read once, when the first row asks for them."""

    def __init__(self, context: Context, tasks: list[Task]) -> None:
        self.context, self.tasks = context, tasks
        self.files, self.plain, self.language = (context.options[name] for name in ("data", "derive", "language"))
        if self.files and self.plain:
            raise UserError("--option data and --option derive: found both; expected one of them")
        self._kept: Source | None = None

    def of(self, subject: Subject) -> Source | str:
        """The sentences, or why the row is left out. UserError for files that are absent or bad."""
        entry = load_entry(subject.spec.data.corpus)
        if entry.generated is not None and not self.files and not self.plain:
            return generated(entry.generated)
        if entry.src != self.language:
            at = "for files in that language" if self.files or self.plain else "with --option data or derive, for files in that language"
            return (
                f"{subject.row.id}: its source language is {entry.src}, that of the sentences {self.language}; "
                f"left out (--option language={entry.src} {at})"
            )
        if self._kept is None:
            self._kept = self._derived(Path(self.plain)) if self.plain else Source("senteval", load(self.tasks, self._folder()))
        return self._kept

    def _folder(self) -> Path:
        if self.files:
            if not Path(self.files).is_dir():
                raise UserError(f"--option data={shown(self.files)}: no such folder; expected one that holds sentence_length.txt and so on")
            return Path(self.files)
        if self.context.data_dir is None:
            raise UserError(f"probing: no --data-dir was given; get the sentences with: nmt-ablate data get {NAME} --data-dir DIR")
        return self.context.data_dir / NAME

    def _derived(self, path: Path) -> Source:
        try:
            sets = probing_derived.derive(read_lines(path))
        except UserError as error:
            raise UserError(*(f"--option derive={shown(self.plain)}: {line.removeprefix(f'{path}: ')}" for line in error.lines)) from None
        missing = [name for name in probing_derived.TASKS if name not in sets]
        small = f"; the text is too small for {', '.join(missing)}" if missing else ""
        made = f"derived: labels made from {path.name}, not SentEval's data; tasks that need a parser are left out{small}"
        return Source("derived", sets, [made])


@cache
def generated(params: ToyParams) -> Source:
    """Of the built-in language with these parameters."""
    missing = ", ".join(toy_probing.NOT_MADE)
    made = f"toy: sentences of the built-in language, not SentEval's data; not made for it: {missing}"
    return Source("toy", toy_probing.generate(params), [made])


def limited(instances: ProbingSet, limit: int | None, seed: int) -> ProbingSet:
    """At most `limit` instances a split, drawn from `seed`, in their order."""
    return instances if limit is None else {split: _drawn(instances[split], limit, random.Random(f"{seed}/{split}")) for split in SPLITS}


def _drawn(part: Part, limit: int, rng: random.Random) -> Part:
    chosen = sorted(rng.sample(range(len(part)), min(limit, len(part))))
    return Part([part.sentences[i] for i in chosen], [part.labels[i] for i in chosen])
