"""`nmt-ablate data clean`: a filtered copy of a corpus, as the user's own corpus. Its entry contains the rules."""

import contextlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from orchestrator.data import own_corpus
from orchestrator.data.check import Report
from orchestrator.data.joined import written
from orchestrator.data.oddities import Watch
from orchestrator.data.rules import Filter
from orchestrator.data.text import CorpusText
from orchestrator.errors import UserError
from orchestrator.specs.corpora import REQUIRED, Rules, load_entry


def clean(name: str, to: str, rules: Rules, data_dir: Path | None) -> tuple[Path, Report, Counter[str]]:
    """Copies the other splits and the training pairs that break no rule. Returns the new entry's file, check, and rule -> number of pairs.

    Raises UserError like `own_corpus.add`, for text that is absent or malformed, and for rules that leave no pair.
    """
    entry = load_entry(name)
    if entry.documents is not None or entry.generated is not None:
        raise UserError(f"{name}: found {'a generated corpus' if entry.generated else 'documents'}; expected sentence pairs in files")
    text, removed = CorpusText(entry, data_dir), Counter[str]()
    splits = [split for split in entry.splits if split in REQUIRED or not entry.lacks([split], data_dir)]
    rule = Filter(rules, Watch(text, [split for split in splits if split != "train"]))

    def kept() -> Iterator[tuple[str, ...]]:
        for row in text.rows("train"):
            removed.update(faults := list(rule.faults(row))[:1])
            if not faults:
                yield row

    with contextlib.ExitStack() as undo:
        rows = {split: kept() if split == "train" else text.rows(split) for split in splits}
        files = {split: written(split, own, f"{name} without what the rules leave out", undo) for split, own in rows.items()}
        raw = {split: found for split in splits if (found := entry.raw_references(split, data_dir))}
        about = f"{name} without the training pairs that `cleaned` names, by nmt-ablate data clean."
        form = {"text": entry.text, "normal_form": entry.normal_form, "cleaned": rules.model_dump(exclude_defaults=True)}
        path, report = own_corpus.add(to, entry.src, entry.tgt, files, raw, about, **form)
        undo.pop_all()
    return path, report, removed
