"""`nmt-ablate data add`: a catalogue entry for a user's own parallel files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from orchestrator.data.check import Report, check
from orchestrator.data.integrity import file_hash
from orchestrator.errors import UserError
from orchestrator.files import atomic
from orchestrator.paths import own_search_spaces
from orchestrator.specs import corpora, languages
from orchestrator.specs.corpus_files import CorpusFiles
from orchestrator.specs.positions import display, shown
from orchestrator.specs.show import dumped


def add(name: str, src: str, tgt: str, files: Mapping[str, Sequence[Path]]) -> tuple[Path, Report]:
    """Checks parallel files and writes their entry to the user's own search spaces.

    Args:
        src, tgt: Language codes.
        files: Split (train, valid, test) -> source file and references.

    Returns the entry's file and the report of the check. The entry holds absolute paths, numbers of pairs and sha256: the files stay where
    they are. Raises UserError with everything that is wrong, for a name that is taken, and for unknown language codes.
    """
    problems = [
        f"--{side}-lang: {doubt.partition(' (')[0]}"
        for side, code in (("src", src), ("tgt", tgt))
        if (doubt := languages.unknown_code(code))
    ]
    if not re.fullmatch(corpora.NAME, name):
        problems.append(f"{shown(name)}: no name of a corpus; expected letters, digits and ._- (first a letter or digit)")
    path = own_search_spaces() / "data" / f"{name}.yaml"
    if not path.exists() and name in corpora.list_entries():
        problems.append(f"{name}: the name of a corpus of the product; expected another")
    if problems:
        raise UserError(*problems)
    paths = {split: [str(file.resolve()) for file in each] for split, each in files.items()}
    entry = corpora.load_entry(CorpusFiles(src=src, tgt=tgt, **paths)).model_copy(update={"name": name})
    report = check(entry, None)
    if report.problems:
        raise UserError(*report.problems)
    splits = {
        split: {
            "src": each[0],
            "tgt": each[1:],
            "pairs": report.splits[split].pairs,
            "sha256": [file_hash(Path(file)) for file in each],
        }
        for split, each in paths.items()
    }
    text = f"# Own files, added by nmt-ablate data add.\n{dumped({'src': src, 'tgt': tgt, 'splits': splits})}"
    if path.exists() and path.read_text(encoding="utf-8") != text:
        raise UserError(f"{display(path)}: is there already, with other content; expected another name, or remove it first")
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic.write_text(path, text)
    return path, report
