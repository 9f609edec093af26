"""Corpus catalogue: one strict YAML entry per corpus in `search_spaces/data/`, the product's or the user's own."""

import difflib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from models.config import Probability
from orchestrator.errors import UserError
from orchestrator.files.folders import the_file
from orchestrator.paths import SEARCH_SPACES, search_spaces
from orchestrator.specs import yaml_file
from orchestrator.specs.base import Natural, Positive, Strict
from orchestrator.specs.messages import valid
from orchestrator.specs.positions import Document, nearest
from orchestrator.specs.text_form import RAW, Form, NormalForm, Pieces

FOLDER = SEARCH_SPACES / "data"
CONVERTED = "refs/convert/parquet"
"""Branch on the Hub with Parquet files that the Hub converts from datasets in other formats."""
PACKED = (".gz", ".bz2", ".xz", ".zst")
"""Suffixes of compressed files."""
REQUIRED = ("train", "valid", "test")
NAME = r"[A-Za-z0-9][A-Za-z0-9._-]*"
Name = Annotated[str, Field(pattern=f"^{NAME}$")]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Relative = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*$")]
File = Annotated[str, Field(pattern=r"^(/.+|[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*)$")]
"""A path below the entry's folders in the data directory, or an absolute path."""


class ToyParams(Strict):
    """Size and difficulty of a generated corpus. `vocabulary` counts lemmas, not function words."""

    seed: Natural = 1
    vocabulary: Annotated[int, Field(ge=50, le=60000)] = 400
    train: Positive = 12000
    valid: Positive = 400
    test: Positive = 500
    min_words: Annotated[int, Field(ge=3)] = 3
    max_words: Annotated[int, Field(ge=12)] = 40
    complexity: Probability = 0.3  # probability of each optional phrase: modifiers, clauses, coordination
    ambiguity: Probability = 0.2  # share of the lemmas with two meanings
    idioms: Probability = 0.08  # share of the transitive clauses

    @model_validator(mode="after")
    def _ordered(self) -> "ToyParams":
        if self.min_words > self.max_words:
            raise ValueError(f"min_words {self.min_words} is above max_words {self.max_words}; expected at most that")
        return self


class Split(Strict):
    """One source file and one or more reference files, plain or compressed (suffixes of PACKED). `sha256` is of the uncompressed bytes."""

    src: File
    tgt: Annotated[list[File], Field(min_length=1)]
    pairs: Positive | None = None
    records: Annotated[list[Natural], Field(min_length=2, max_length=2)] | None = None  # of a CSV file: first, behind the last
    sha256: list[Sha256] | None = None  # of src, then of each file of tgt
    raw: list[File] | None = None  # of a tokenised corpus: untokenised text of each file of tgt; used if all exist

    @model_validator(mode="after")
    def _sound(self) -> "Split":
        if self.sha256 is not None and len(self.sha256) != 1 + len(self.tgt):
            raise ValueError(f"found {len(self.sha256)} sha256 for {1 + len(self.tgt)} files")
        if self.raw is not None and len(self.raw) != len(self.tgt):
            raise ValueError(f"found {len(self.raw)} raw files for {len(self.tgt)} of references")
        if self.records is not None and self.records[0] >= self.records[1]:
            raise ValueError(f"records {self.records} hold nothing; expected [first, behind the last]")
        return self

    @property
    def files(self) -> list[str]:
        return [self.src, *self.tgt]


class Columns(Strict):
    """Names of the columns of each side."""

    src: str
    tgt: str


class HuggingFace(Strict):
    """A dataset of the Hugging Face Hub, read as Parquet; `splits` maps our splits to theirs.

    The files of a split are those of the branch of converted files (CONVERTED), or of `files`: a pattern for each of our splits.
    revision: branch, tag or commit; default: CONVERTED, and `main` with `files`. columns: null tries the usual names.
    """

    kind: Literal["huggingface"]
    id: Annotated[str, Field(pattern=r"^[\w.-]+(/[\w.-]+)?$")]
    config: str | None = None
    revision: str | None = None
    files: dict[Name, str] | None = None
    splits: dict[Name, str]
    columns: Columns | None = None


class SacreBleu(Strict):
    """Test sets from sacreBLEU; `splits` maps our splits to its names, `langpair` uses its notation."""

    kind: Literal["sacrebleu"]
    langpair: str
    splits: dict[Name, str]


class User(Strict):
    """Data that the user must supply, for example under licence. `obtain` says how."""

    kind: Literal["user"]
    obtain: str


class Generated(Strict):
    """A corpus of the built-in toy languages."""

    kind: Literal["generated"]
    parameters: ToyParams = ToyParams()


Source = Annotated[HuggingFace | SacreBleu | User | Generated, Field(discriminator="kind")]


class Documents(Strict):
    """How each side is split into sentences: `rule` (`data.sentences.split`) or `lines` (one sentence per line)."""

    src: Literal["rule", "lines"] = "rule"
    tgt: Literal["rule", "lines"] = "lines"


class Rules(Strict):
    """Pairs that `data clean` leaves out of train. Lengths are in characters."""

    max_characters: Positive | None = None
    """A side is longer than this."""
    max_ratio: Annotated[float, Field(gt=1)] | None = None
    """The ratio of the sides' lengths exceeds this many times its usual value (ratio of mean lengths of the held-out text)."""
    copies: bool = False
    """Both sides are equal."""
    other_language: bool = False
    """A side may be in another language: its trigrams fit the other side's held-out text better, or no held-out text has its letters."""
    duplicates: bool = False
    """The pair repeats an earlier one."""
    leaks: bool = False
    """The source is in a held-out split, up to punctuation and case."""


class CorpusEntry(Strict):
    """A corpus of parallel text.

    Files are searched for in each of `folders` below the data directory, then in the data directory; `data get` writes to the first.
    csv: each split is one CSV file with these columns. documents: texts are documents of several sentences.
    text: form of the lines; tokenised lines are not tokenised again, and are detokenised for scores on running text.
    pieces: kind of the subwords in the lines, which are joined when the lines are read; null: the lines have words.
    normal_form: Unicode normal form into which the lines are brought when they are read; null: they stay as they are.
    cleaned: rules by which `data clean` filtered the training text; they are part of the data's key.
    """

    name: str
    description: str = ""
    licence: str = ""
    src: str
    tgt: str
    text: Form = RAW
    pieces: Pieces | None = None
    normal_form: NormalForm | None = None
    csv: Columns | None = None
    documents: Documents | None = None
    cleaned: Rules | None = None
    folders: list[Relative] = Field(default_factory=list)
    splits: dict[Name, Split] = Field(default_factory=dict)
    sources: list[Source] = Field(default_factory=list)

    @model_validator(mode="after")
    def _complete(self) -> "CorpusEntry":
        if self.generated is not None:
            if self.splits or len(self.sources) > 1:
                raise ValueError("a generated corpus has neither splits nor further sources")
        elif missing := [name for name in REQUIRED if name not in self.splits]:
            raise ValueError(f"splits lack {', '.join(missing)}")
        elif not self.folders and self.needs_data_dir:
            raise ValueError("folders is empty; expected the folder that holds the files")
        if self.documents is not None and self.csv is None:
            raise ValueError("documents are read from CSV files alone; expected csv, the columns")
        if self.documents is not None and self.pieces is not None:
            raise ValueError("documents are split into sentences by their words; expected no pieces")
        for name, split in self.splits.items():
            if self.text == RAW and split.raw is not None:
                raise ValueError(f"split {name}: raw references are of tokenised corpora; expected text: tokenised or tokenised-escaped")
            if self.csv is not None and split.tgt != [split.src]:
                raise ValueError(f"split {name}: src and tgt differ; expected one CSV file, as in {{src: {split.src}, tgt: [{split.src}]}}")
            if self.csv is None and split.records is not None:
                raise ValueError(f"split {name}: records are of CSV files; expected csv, the columns")
        return self

    @property
    def generated(self) -> ToyParams | None:
        return next((source.parameters for source in self.sources if isinstance(source, Generated)), None)

    @property
    def needs_data_dir(self) -> bool:
        return any(not file.startswith("/") for split in self.splits.values() for file in split.files)

    def find(self, file: str, data_dir: Path | None) -> Path | None:
        """Returns the path of `file`, plain before compressed, or None. Raises UserError if only something other than a file exists."""
        if data_dir is None and not file.startswith("/"):
            return None
        folders = [Path("/")] if data_dir is None else [data_dir / folder for folder in (*self.folders, ".")]
        return the_file([folder / (file + suffix) for folder in folders for suffix in ("", *PACKED)])

    def locate(self, split: str, data_dir: Path | None) -> list[Path]:
        """Returns the paths of sources and references. Raises UserError (see `missing_message`) if one is missing."""
        found = self._find_all(self.splits[split].files, data_dir)
        if found is None:
            raise UserError(self.missing_message([split], data_dir))
        return found

    def raw_references(self, split: str, data_dir: Path | None) -> list[Path]:
        """Returns the untokenised text of each reference; empty if the entry names none or a file is missing."""
        return self._find_all(self.splits[split].raw or [], data_dir) or []

    def _find_all(self, files: list[str], data_dir: Path | None) -> list[Path] | None:
        found = [path for file in files if (path := self.find(file, data_dir)) is not None]
        return found if len(found) == len(files) else None

    def lacks(self, splits: Iterable[str], data_dir: Path | None) -> list[str]:
        return list(dict.fromkeys(file for name in splits for file in self.splits[name].files if self.find(file, data_dir) is None))

    def missing_message(self, splits: Iterable[str], data_dir: Path | None) -> str:
        """Returns one line with the missing files of these splits, the closest existing name and how to get them."""
        if absolute := [file for file in self.lacks(splits, data_dir) if file.startswith("/")]:
            return f"corpus {self.name}: no such file: {', '.join(f'{file}[.gz]' for file in absolute)}"
        if data_dir is None:
            return f"corpus {self.name} lies in files and no --data-dir was given; {self.how()}"
        if not data_dir.is_dir():
            return f"{data_dir}: no such directory (--data-dir of corpus {self.name}); {self.how()}"
        first, *more = self.lacks(splits, data_dir)
        places = [data_dir / folder for folder in (*self.folders, ".") if (data_dir / folder).is_dir()]
        near = difflib.get_close_matches(Path(first).name, [path.name for place in places for path in sorted(place.iterdir())], n=1)
        hint = f" (there is {near[0]})" if near else ""
        others = f", nor {', '.join(more[:3])}{', ...' if len(more) > 3 else ''}" if more else ""
        return f"{data_dir / self.folders[0] / first}[.gz]: no such file{hint}{others}; {self.how()}"

    def how(self) -> str:
        """Returns one clause on how to get the files."""
        by_hand = [" ".join(source.obtain.split()) for source in self.sources if isinstance(source, User)]
        fetched = any(not isinstance(source, User) for source in self.sources)
        if not self.sources:
            return f"expected your own files of {self.name} there"
        return " or ".join([f"get it with: nmt-ablate data get {self.name} --data-dir DIR"] * fetched + by_hand)


def folders() -> list[Path]:
    """The folders of entries: the product's, then the user's own."""
    return [FOLDER, *(folder / "data" for folder in search_spaces()[1:])]


def list_entries() -> list[str]:
    return sorted({path.stem for folder in folders() for path in folder.glob("*.yaml")})


def load_entry(corpus: str) -> CorpusEntry:
    """Raises UserError like `entry_file`, or for a bad file (one line per fault)."""
    return parse_entry(yaml_file.load(entry_file(corpus)), corpus)


def entry_file(corpus: str) -> Path:
    """Returns the file of an entry. Raises UserError for an unknown name, with the closest one."""
    if (path := find_entry(corpus)) is None:
        raise UserError(f"unknown corpus {corpus!r}; {nearest(corpus, list_entries())}")
    return path


def find_entry(corpus: str) -> Path | None:
    found = (folder / f"{corpus}.yaml" for folder in folders() if re.fullmatch(NAME, corpus))
    return next((path for path in found if path.is_file()), None)


def parse_entry(document: Document, name: str) -> CorpusEntry:
    """Validates the content of an entry's file. Raises UserError with one line per fault: file, line, key."""
    document.data["name"] = name
    return valid(document, CorpusEntry)
