"""`nmt-ablate data get NAME`: fetches a corpus from HuggingFace or sacreBLEU and writes it in the layout of its entry.

Text that differs from the entry's `pairs` or `sha256` is refused, and none of its files is written. HuggingFace's library is optional.
Without it, or without a network, the error is one line.
"""

import contextlib
import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from orchestrator.data.corpus import iter_lines
from orchestrator.data.integrity import file_hash, file_lines
from orchestrator.errors import UserError
from orchestrator.files import atomic
from orchestrator.specs.corpora import REQUIRED, CorpusEntry, HuggingFace, SacreBleu, load_entry

Row = tuple[str, ...]


def get(name: str, data_dir: Path | None, log: Callable[[str], None] = lambda line: None) -> list[Path]:
    """Fetches the missing splits of a corpus. Returns the files written, none if all exist.

    Each split comes from the first source of the entry that has it and works. Raises UserError for files that the user must supply (with
    their layout), a missing library, a missing network, and text that is not the entry's, fetched now or there already.
    """
    entry = load_entry(name)
    if entry.generated is not None or not entry.sources:
        return []
    if data_dir is None:
        raise UserError(f"data get {name} needs --data-dir DIR, the directory to write to")
    written: list[Path] = []
    failures: dict[str, list[str]] = {}
    for split in entry.splits:
        if not entry.lacks([split], data_dir):
            paths = entry.locate(split, data_dir)
            if fault := _fault(entry, split, paths, paths):
                failures.setdefault(f"{fault}; remove it, then {entry.how()}", []).append(split)
            continue
        sources = [source for source in entry.sources if isinstance(source, HuggingFace | SacreBleu) and split in source.splits]
        reasons = [] if sources or split not in REQUIRED else [entry.how()]
        for source in sources:
            log(f"{name}: {split} from {source.kind}")
            try:
                written += _write(entry, data_dir, split, _rows(source, split))
                reasons = []
                break
            except UserError as error:
                reasons += [line + _own_copy(source) for line in error.lines]
            except (Exception, SystemExit) as error:
                cause = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
                reasons.append(f"{source.kind} could not deliver it; is there a network? ({cause}){_own_copy(source)}")
        if reasons:
            failures.setdefault("; or: ".join(reasons), []).append(split)
    if failures:
        raise UserError(*(f"{name} ({', '.join(splits)}): {reason}" for reason, splits in failures.items()))
    return written


def _write(entry: CorpusEntry, data_dir: Path, split: str, rows: Iterable[Row]) -> list[Path]:
    names = entry.splits[split].files if entry.csv is None else [entry.splits[split].src]
    paths = [data_dir / entry.folders[0] / name for name in names]
    paths[0].parent.mkdir(parents=True, exist_ok=True)
    count = 0
    with contextlib.ExitStack() as stack:
        temporary = [stack.enter_context(atomic.replacing(path)) for path in paths]
        outs = [stack.enter_context(path.open("w", encoding="utf-8", newline="")) for path in temporary]
        records = csv.writer(outs[0])
        if entry.csv is not None:
            records.writerow([entry.csv.src, entry.csv.tgt])
        for row in rows:
            count += 1
            if entry.csv is not None:
                records.writerow(row)
            elif len(row) != len(outs):
                raise UserError(f"found {len(row) - 1} references, expected {len(outs) - 1}")
            else:
                for out, text in zip(outs, row, strict=True):
                    out.write(" ".join(text.replace("\0", " ").splitlines()) + "\n")
        if not count:
            raise UserError("the source delivered no pairs")
        for out in outs:
            out.flush()
        if fault := _fault(entry, split, paths, temporary, records=count):
            raise UserError(fault)
    return paths


def _fault(entry: CorpusEntry, split: str, paths: Sequence[Path], texts: Sequence[Path], records: int | None = None) -> str | None:
    """A line for the first of `paths` whose text, now in `texts`, has not the number of pairs or the sha256 of the entry.

    records: number of records of a CSV file; without it, these are not compared.
    """
    expected = entry.splits[split]
    for path, text, digest in zip_longest(paths, texts, expected.sha256 or []):
        lines = file_lines(text) if entry.csv is None else records
        if None not in (lines, expected.pairs) and expected.records is None and lines != expected.pairs:
            return f"{path}: found {lines:,} pairs, expected {expected.pairs:,}"
        if digest is not None and (found := file_hash(text)) != digest:
            return f"{path}: found sha256 {found[:16]}.., expected {digest[:16]}.."
    return None


def _own_copy(source: HuggingFace | SacreBleu) -> str:
    """How to make sacreBLEU download again. It never checks a file that is in its own folder."""
    if isinstance(source, HuggingFace):
        return ""
    from sacrebleu.utils import SACREBLEU_DIR

    return f"; if sacreBLEU's own copy in {SACREBLEU_DIR} is damaged, remove it"


def _rows(source: HuggingFace | SacreBleu, split: str) -> Iterator[Row]:
    """Yields source and references of each pair. Raises what the libraries raise."""
    if isinstance(source, SacreBleu):
        from sacrebleu.utils import get_reference_files, get_source_file

        with contextlib.redirect_stdout(io.StringIO()):
            paths = [get_source_file(source.splits[split], source.langpair), *get_reference_files(source.splits[split], source.langpair)]
        yield from zip(*(iter_lines(Path(path)) for path in paths), strict=True)
        return
    try:
        import datasets
    except ImportError:
        raise UserError("needs the HuggingFace library; install it with: pip install datasets") from None
    options: dict[str, Any] = {"revision": source.revision} if source.revision else {}
    if source.data_files:
        options["data_files"] = source.data_files
    for record in datasets.load_dataset(source.id, source.config, split=source.splits[split], **options):
        texts = record[source.field] if source.field else record
        yield texts[source.columns["src"]], texts[source.columns["tgt"]]
