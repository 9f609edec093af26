"""A user's own corpus: its catalogue entry (`nmt-ablate data add`), and a commented table to start from (`nmt-ablate new`)."""

import re
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from string import Template
from typing import Any

from orchestrator.data.check import Report, check
from orchestrator.data.expected_text import of_files
from orchestrator.data.text import CorpusText
from orchestrator.errors import UserError, raise_all
from orchestrator.files import atomic
from orchestrator.paths import own_search_spaces
from orchestrator.specs import corpora, index, languages
from orchestrator.specs.bleu_tokenizer import tokenizer_of
from orchestrator.specs.corpora import CorpusEntry, Split, load_entry
from orchestrator.specs.positions import display, shown
from orchestrator.specs.schema import ScoreSpec
from orchestrator.specs.show import dumped
from orchestrator.specs.table import SEGMENT_WORDS, segments

Files = Mapping[str, Sequence[Path]]
"""Files of each split."""


def add(
    name: str, src: str, tgt: str, files: Files, raw: Files | None = None, about: str = "Own files, by nmt-ablate data add.", **form: Any
) -> tuple[Path, Report]:
    """Checks parallel files and writes their entry to the user's own search spaces.

    src, tgt: Language codes.
    files: Source file and references of train, valid and test sets.
    raw: Test set -> untokenised references.
    about: Comment at the start of the entry.
    form: `text`, `pieces`, `normal_form` (default NFC) and `cleaned` of the entry.

    Returns the entry's file and the report of the check. The entry holds absolute paths, numbers of pairs and sha256: the files stay where
    they are. Raises UserError with everything that is wrong, for a name that is taken, and for unknown language codes.
    """
    form = {"normal_form": "NFC"} | form
    doubts = {"src": languages.unknown_code(src), "tgt": languages.unknown_code(tgt)}
    problems = [f"--{side}-lang: {doubt.partition(' (')[0]}" for side, doubt in doubts.items() if doubt]
    if not re.fullmatch(corpora.NAME, name):
        problems.append(f"{shown(name)}: no name of a corpus; expected letters, digits and ._- (first a letter or digit)")
    path = own_search_spaces() / "data" / f"{name}.yaml"
    if not path.exists() and name in corpora.list_entries():
        problems.append(f"{name}: the name of a corpus of the product; expected another")
    paths = {split: [str(file.resolve()) for file in each] for split, each in files.items()}
    unusual = [path for each in paths.values() for path in each if not path.isprintable()]
    raise_all(problems + [f"{shown(path, 300)}: found a path with unprintable characters; expected another" for path in unusual])
    splits = {split: Split(src=each[0], tgt=each[1:]) for split, each in paths.items()}
    entry = CorpusEntry.model_validate({"name": name, "src": src, "tgt": tgt, "splits": splits, **form})
    report = check(entry, None)
    raise_all(report.problems)
    text = of_files(entry, None, paths)
    own = {split: {"src": each[0], "tgt": each[1:]} | {kind: text[kind][split] for kind in text} for split, each in paths.items()}
    for split, references in (raw or {}).items():
        own[split]["raw"] = [str(path.resolve()) for path in references]
    content = f"# {about}\n{dumped({'src': src, 'tgt': tgt, **form, 'splits': own})}"
    entry = entry.model_copy(update={"splits": {split: Split(**each) for split, each in own.items()}})
    if path.exists() and _meaning(load_entry(name)) != _meaning(entry):
        raise UserError(f"{display(path)}: is there already, with other content; expected another name, or remove it first")
    atomic.write_text(path, content)
    return path, report


def _meaning(entry: CorpusEntry) -> dict[str, Any]:
    """Returns the entry without the paths of its files. Their sha256 stays."""
    return entry.model_dump(exclude={"splits": {"__all__": {"src", "tgt", "raw"}}})


def write_table(address: str, corpus: str, data_dir: Path | None) -> Path:
    """Writes the table `paper/table` for a corpus to the user's own search spaces and returns its file.

    The vocabulary depends on the size of the corpus, and is joint where the sides share most of their letters. Raises UserError for a
    malformed address, a file that exists, an unknown corpus, or text that is absent.
    """
    if not segments(address, 2, 2):
        raise UserError(f"{shown(address)}: no address of a table; expected PAPER/TABLE, such as mine/first: {SEGMENT_WORDS} each")
    paper, table = address.split("/")
    path = own_search_spaces() / paper / f"{table}.yaml"
    if path.exists():
        raise UserError(f"{display(path)}: is there already; expected another address")
    if paper in index.APART or address.casefold() in {other.casefold() for other in index.tables()[0]}:
        raise UserError(f"{address}: is taken by a table or a folder of search_spaces; expected another address, such as mine/{table}")
    entry = load_entry(corpus)
    if entry.generated is None and entry.lacks(["train"], data_dir):
        raise UserError(entry.missing_message(["train"], data_dir))
    rows = CorpusText(entry, data_dir).rows("train")
    sample = list(islice(rows, 2000))  # pairs whose letters are compared
    source, target = ({letter for row in sample for letter in row[side].lower() if letter.isalpha()} for side in (0, 1))
    pairs = len(sample) + sum(1 for _ in rows)
    joint = 2 * len(source & target) > len(source | target)
    size = 8000 if pairs >= 100_000 or len(source | target) > 1000 else 4000 if pairs >= 10_000 else 1000
    text = Template(Path(__file__).with_name("new_table.yaml").read_text(encoding="utf-8")).substitute(
        address=address,
        paper=paper,
        table=table,
        corpus=corpus,
        data=" --data-dir DIR" if entry.needs_data_dir else "",
        size=size,
        joint=str(joint).lower(),
        why=f"for {pairs:,} pairs; {'one vocabulary' if joint else 'a vocabulary for each side: they share few letters'}",
        tokenizer=tokenizer_of(ScoreSpec(), entry.tgt),
    )
    atomic.write_text(path, text)
    return path
