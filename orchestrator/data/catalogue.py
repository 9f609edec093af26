"""The corpora that specs name: one strict YAML entry each in `search_spaces/data/`."""

from __future__ import annotations

import difflib
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import Field, ValidationError, model_validator

from orchestrator.data.toy_lexicon import ToyParams
from orchestrator.errors import UserError
from orchestrator.spec import Positive, Strict

FOLDER = Path(__file__).resolve().parents[2] / "search_spaces" / "data"
REQUIRED = ("train", "valid", "test")
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Relative = Annotated[str, Field(pattern=r"^(?!.*\.\.)[A-Za-z0-9][A-Za-z0-9._/-]*$")]


class Split(Strict):
    """One file of sources, one or more of references; plain or with `.gz` appended. `sha256` is of the uncompressed bytes."""

    src: Relative
    tgt: Annotated[list[Relative], Field(min_length=1)]
    pairs: Positive | None = None
    sha256: list[Sha256] | None = None  # of src, then of each of tgt

    @model_validator(mode="after")
    def _hashes(self) -> Split:
        if self.sha256 is not None and len(self.sha256) != 1 + len(self.tgt):
            raise ValueError(f"found {len(self.sha256)} sha256 for {1 + len(self.tgt)} files")
        return self

    @property
    def files(self) -> list[str]:
        return [self.src, *self.tgt]


class HuggingFace(Strict):
    """A dataset of the Hub: our split -> theirs. `data_files` with builder `id: parquet` where a repository has only a script."""

    kind: Literal["huggingface"]
    id: str
    config: str | None = None
    revision: str | None = None
    data_files: dict[str, str] | None = None
    splits: dict[Name, str]
    field: str | None = "translation"  # holds {language: text}; null: the columns lie at the top
    columns: dict[Literal["src", "tgt"], str]


class MtData(Strict):
    """Corpora by mtdata's ids, joined in this order: our split -> ids."""

    kind: Literal["mtdata"]
    splits: dict[Name, list[str]]


class SacreBleu(Strict):
    """Test sets by sacreBLEU's names: our split -> name; `langpair` in its notation."""

    kind: Literal["sacrebleu"]
    langpair: str
    splits: dict[Name, str]


class User(Strict):
    """Supplied by the user: bought, or put there by hand. `obtain` says how."""

    kind: Literal["user"]
    obtain: str


class Generated(Strict):
    """The built-in toy languages."""

    kind: Literal["generated"]
    parameters: ToyParams = ToyParams()


Source = Annotated[HuggingFace | MtData | SacreBleu | User | Generated, Field(discriminator="kind")]


class Entry(Strict):
    """A corpus. Files are looked for in each of `folders` below the data directory, then in it itself; `data get` writes to the first."""

    name: Name
    description: str
    licence: str
    src: str
    tgt: str
    folders: list[Relative] = []
    splits: dict[Name, Split] = {}
    sources: Annotated[list[Source], Field(min_length=1)]

    @model_validator(mode="after")
    def _complete(self) -> Entry:
        if self.generated is not None:
            if self.splits or len(self.sources) > 1:
                raise ValueError("a generated corpus has neither splits nor further sources")
        elif missing := [name for name in REQUIRED if name not in self.splits]:
            raise ValueError(f"splits lack {', '.join(missing)}")
        elif not self.folders:
            raise ValueError("folders is empty; expected the folder that holds the files")
        return self

    @property
    def generated(self) -> ToyParams | None:
        return next((source.parameters for source in self.sources if isinstance(source, Generated)), None)

    def find(self, file: str, data_dir: Path) -> Path | None:
        """Where `file` of a split lies, plain before gzipped; None if nowhere."""
        for folder in (*self.folders, "."):
            for suffix in ("", ".gz"):
                path = data_dir / folder / (file + suffix)
                if path.is_file():
                    return path
        return None

    def locate(self, split: str, data_dir: Path) -> list[Path]:
        """Paths of sources and references. UserError naming each missing file, what lies there instead and how to get it."""
        wanted = self.splits[split].files
        found = [(file, self.find(file, data_dir)) for file in wanted]
        missing = [self.missing_message(file, data_dir) for file, path in found if path is None]
        if missing:
            raise UserError(*missing)
        return [path for _, path in found if path is not None]

    def missing_message(self, file: str, data_dir: Path | None) -> str:
        """One line: what is missing, the nearest name that exists, how to get it."""
        if data_dir is None:
            return f"corpus {self.name} needs files ({file}, ...) and no --data-dir was given; {self.how()}"
        if not data_dir.is_dir():
            return f"{data_dir}: no such directory (--data-dir of corpus {self.name}); {self.how()}"
        there = [p.name for folder in (*self.folders, ".") if (data_dir / folder).is_dir() for p in sorted((data_dir / folder).iterdir())]
        near = difflib.get_close_matches(Path(file).name, [name for name in there], n=1)
        hint = f" (there is {near[0]})" if near else ""
        return f"{data_dir / self.folders[0] / file}[.gz]: no such file{hint}; {self.how()}"

    def how(self) -> str:
        """How the files are obtained, one clause."""
        user = next((source.obtain for source in self.sources if isinstance(source, User)), None)
        fetched = any(not isinstance(source, User) for source in self.sources)
        return f"get it with: nmt-ablate data get {self.name} --data-dir DIR" if fetched else " ".join((user or "").split())


def list_entries() -> list[str]:
    """Names of all corpora."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def load_entry(name: str) -> Entry:
    """The entry of a corpus. UserError with the nearest name for an unknown one, one line per fault for a bad file."""
    path = FOLDER / f"{name}.yaml"
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name) or not path.is_file():
        near = difflib.get_close_matches(name, list_entries(), n=1, cutoff=0.4)
        hint = f"did you mean {near[0]}? " if near else ""
        raise UserError(f"unknown corpus {name!r}; {hint}known: {', '.join(list_entries())}")
    return parse_entry(load_yaml(path), name, str(path))


def parse_entry(data: Any, name: str, where: str) -> Entry:
    """Checks the content of a file; `where` opens each message."""
    if not isinstance(data, dict):
        raise UserError(f"{where}: expected a mapping")
    try:
        return Entry.model_validate({"name": name, **data})
    except ValidationError as error:
        lines = [f"{where}: {'.'.join(str(p) for p in item['loc']) or 'entry'}: {item['msg']}" for item in error.errors(include_url=False)]
        raise UserError(*lines) from None


def load_yaml(path: Path) -> Any:
    """Plain data of a YAML file."""
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        raise UserError(f"{path}: {' '.join(str(error).split())}") from None
