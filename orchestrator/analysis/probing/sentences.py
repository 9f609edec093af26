"""Labelled sentences for probing: SentEval's files, plain sentences of the user's, or sentences of the built-in language's grammar."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from functools import cache, cached_property
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
    """data: `senteval`, `derived` or `toy`. sets: name of the task -> instances."""

    data: str
    sets: dict[str, ProbingSet]
    notes: list[str] = field(default_factory=list)


class Sources:
    """The sentences of each row. Options `data`, `derive` and `language` choose files, which are read once."""

    def __init__(self, context: Context, tasks: list[Task]) -> None:
        self.context, self.tasks = context, tasks
        self.folder, self.plain, self.language = (context.options[name] for name in ("data", "derive", "language"))
        if self.folder and self.plain:
            raise UserError("--option data and --option derive: found both; expected one of them")

    def of(self, subject: Subject) -> Source | str:
        """The sentences, or why the row is left out. Raises UserError for absent or bad files."""
        entry = load_entry(subject.spec.data.corpus)
        files = bool(self.folder or self.plain)
        if entry.generated is not None and not files:
            return generated(entry.generated)
        if entry.src != self.language:
            hint = "for files in that language" if files else "with --option data or derive, for files in that language"
            return (
                f"{subject.row.id}: its source language is {entry.src}, that of the sentences {self.language}; "
                f"left out (--option language={entry.src} {hint})"
            )
        return self.files

    @cached_property
    def files(self) -> Source:
        return self._derived(Path(self.plain)) if self.plain else Source("senteval", load(self.tasks, self._senteval_folder()))

    def _senteval_folder(self) -> Path:
        if self.folder:
            if not Path(self.folder).is_dir():
                raise UserError(
                    f"--option data={shown(self.folder)}: no such folder; expected one that holds sentence_length.txt and so on"
                )
            return Path(self.folder)
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
        note = f"derived: labels made from {path.name}, not SentEval's data; tasks that need a parser are left out{small}"
        return Source("derived", sets, [note])


@cache
def generated(params: ToyParams) -> Source:
    """Sentences of the built-in language with these parameters."""
    missing = ", ".join(toy_probing.NOT_MADE)
    note = f"toy: sentences of the built-in language, not SentEval's data; not made for it: {missing}"
    return Source("toy", toy_probing.generate(params), [note])


def limited(instances: ProbingSet, limit: int | None, seed: int) -> ProbingSet:
    """At most `limit` instances per split, drawn by `seed`, in their order."""
    return instances if limit is None else {split: _sample(instances[split], limit, random.Random(f"{seed}/{split}")) for split in SPLITS}


def _sample(part: Part, limit: int, rng: random.Random) -> Part:
    indices = sorted(rng.sample(range(len(part)), min(limit, len(part))))
    return Part([part.sentences[i] for i in indices], [part.labels[i] for i in indices])
