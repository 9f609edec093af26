"""Options shared by several commands, with their form on the command line. It imports only light modules, since `--help` loads it."""

import hashlib
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from orchestrator.files.folders import checked
from orchestrator.ledger import object_store
from orchestrator.ledger.bucket import attach
from orchestrator.paths import profile_names
from orchestrator.specs.positions import existing_file

PARTS = ("search", "tuned")
"""Sweeps that belong to one command: NAME:PART; they share its cap."""
RESULTS = Path("results")
CACHE = Path(".data-cache")


def folder(name: str, text: str, variable: str | None = None) -> Any:
    """Returns an option whose value is a folder."""
    return Option(name, envvar=variable, parser=lambda value: checked(value, name), help=text)


Sets = Annotated[list[str] | None, Option("--set", metavar="KEY=VALUE", help="Override a key of the spec; may be repeated.")]
Profile = Annotated[str | None, Option("--profile", metavar="NAME|FILE.yaml", help=f"Scale: {', '.join(profile_names())}, or a file.")]
DataDir = Annotated[Path | None, folder("--data-dir", "Folder of the corpora.", "NMT_DATA_DIR")]
CacheDir = Annotated[Path, folder("--cache-dir", "Folder of the prepared corpora.", "NMT_CACHE_DIR")]
LEDGER = "The ledger: a folder, or s3://bucket/prefix."
Results = Annotated[Path, Option("--results", envvar="NMT_RESULTS", parser=attach.place, metavar="DIR|URL", help=LEDGER)]
NoTracking = Annotated[bool, Option("--no-tracking", help="Write nothing to MLflow now; `reconcile` adds the runs later.")]
URI = "MLflow server (http://HOST:PORT) or database (postgresql://..). Default: a file in the results folder. Login: \
MLFLOW_TRACKING_USERNAME, MLFLOW_TRACKING_PASSWORD."
TrackingUri = Annotated[str | None, Option("--tracking-uri", envvar="MLFLOW_TRACKING_URI", metavar="URI", help=URI)]
AsJson = Annotated[bool, Option("--json", help="Print JSON only on stdout; messages go to stderr.")]
Engine = Annotated[str, Option("--engine", help="local: on this machine (see --jobs); ray: Ray Tune and Train; auto: what the rows need.")]
Jobs = Annotated[str, Option("--jobs", metavar="N|auto", help="Processes of the local engine; auto: as many as fit; 1: in this one.")]
UntilDecided = Annotated[bool, Option("--until-decided", help="3 seeds, then all seeds of undecided rows. Needs a cap on hours.")]
Tune = Annotated[bool, Option("--tune", help="Search every row by the section `tune`, then judge each row's best configuration.")]
BY = "Tuned by the section `tune` of this file."
TuneWith = Annotated[Path | None, Option("--tune-with", parser=existing_file, metavar="FILE.yaml", help=BY)]
Ladder = Annotated[str | None, Option("--ladder", metavar="NAME,NAME,..|file", help="At several sizes: profiles, smallest first.")]
MATCHED = "Matched controls in place of the file's: the baseline with a variant's parameters or operations. Empty: none."


def whole_name(sweep: str) -> str:
    """NAME for a part, NAME:PART; other names as they are."""
    whole, _, part = sweep.rpartition(":")
    return whole if part in PARTS else sweep


@dataclass(frozen=True, kw_only=True)
class RowOptions:
    """How rows are resolved, and the locations of their data and results. `cli.options.expand_options` makes options of the fields."""

    profile: Profile = None
    sets: Sets = None
    data_dir: DataDir = None
    results: Results = RESULTS
    cache_dir: CacheDir = CACHE
    controls: Annotated[str | None, Option("--controls", metavar="params,flops", help=MATCHED)] = None
    tune: Tune = False
    tune_with: TuneWith = None
    ladder: Ladder = None

    @property
    def arguments(self) -> str:
        """Command-line arguments that identify the same row in the same ledger when appended to its address; with a leading space."""
        words = ["--profile", self.profile] if self.profile else []
        words += [word for text in self.sets or [] for word in ("--set", text)]
        words += [] if self.results == RESULTS else ["--results", object_store.display_path(self.results)]
        return quoted(words)

    @property
    def table_arguments(self) -> str:
        """`arguments` with those that a table of the rows needs besides: where the corpora are, the controls, and the search."""
        words = ["--data-dir", str(self.data_dir)] if self.data_dir is not None else []
        words += [] if self.cache_dir == CACHE else ["--cache-dir", str(self.cache_dir)]
        return self.arguments + quoted(words) + self.judged

    @property
    def judged(self) -> str:
        """Arguments that say what the rows of a table are judged against, and by which search they are tuned."""
        words = [] if self.controls is None else ["--controls", self.controls]
        return quoted(words + ([] if self.tune_with is None else ["--tune-with", str(self.tune_with)]))


def quoted(words: Iterable[str]) -> str:
    """Words as a shell reads them, each after a space."""
    return "".join(f" {shlex.quote(word)}" for word in words)


def file_name(name: str, most: int = 200) -> str:
    """The name for files: what a ledger does not take in a name (`ledger.layout`) is replaced, and a digest keeps it unique."""
    plain = name.replace("/", "-").replace(":", "-")
    taken = re.sub(r"[^A-Za-z0-9@+._-]", "-", plain)[:most]
    return plain if plain == taken else f"{taken[: most - 9]}+{hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()[:8]}"


@dataclass(frozen=True, kw_only=True)
class ExecutionOptions(RowOptions):
    """How rows are executed. Nothing here is part of a key. Fields without a form on the command line are set by the commands.

    engine: `local`, `ray`, or `auto`, in whose place `engines.execute.choose_engine` puts one of them.
    name: Name of the sweep.
    sweep: The `sweep` section of the spec as plain data, resources included.
    claims: Claims of the tables, as `specs.claims.as_data` gives them.
    mirrors: Read-only ledgers that complement `results`.
    dropped: Runs, as `ROW:SEED`, that a look has dropped.
    train_only: Read no test set: runs are trained, and decoded and scored at most on the validation set (`Row.also`).
    until: Row -> the rung at which its runs save and stop.
    """

    engine: Engine = "local"
    jobs: Jobs = "1"
    workers: Annotated[int | None, Option("--workers", min=1, max=1024, help="Workers of each run; 2 or more need --engine ray.")] = None
    no_tracking: NoTracking = False
    tracking_uri: TrackingUri = None
    resources: Annotated[str | None, Option("--resources", metavar="gpu=auto,memory=12G", help="Of each worker, over the file's.")] = None
    as_json: AsJson = False
    name: str = ""
    sweep: dict[str, Any] | None = None
    claims: list[dict[str, Any]] = field(default_factory=list)
    mirrors: tuple[Path, ...] = ()
    max_hours: Annotated[float | None, Option("--max-gpu-hours", "--max-core-hours", help="Cap on the sweep's device-hours.")] = None
    until_decided: UntilDecided = False
    dropped: frozenset[str] = frozenset()
    train_only: bool = False
    until: Mapping[str, int] = field(default_factory=dict)

    @property
    def slug(self) -> str:
        return file_name(self.name)

    @property
    def has_workers(self) -> bool:
        """Returns whether rows run in separate processes, which the sweep's stop file stops."""
        return self.engine == "ray" or self.jobs != "1"

    @property
    def scheduler(self) -> dict[str, Any]:
        return (self.sweep or {}).get("scheduler") or {"kind": "fifo"}
