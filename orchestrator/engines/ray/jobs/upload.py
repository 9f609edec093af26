"""The upload of a job: a copy of the checkout's files, without secrets and what .rayignore names. Ray packs it."""

import os
import re
import shutil
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path, PurePath

from orchestrator.errors import UserError, raise_all
from orchestrator.files import atomic
from orchestrator.ledger.provenance import CODE, COMMIT_FILE, git, run_git
from orchestrator.specs.positions import display, shown

MIB = 2**20
MAX_BYTES = 100 * MIB
"""Ray's limit for one request; compared with sizes before compression."""

SOURCES = (*CODE, "search_spaces", "cluster")
"""Folders of which files that git does not track yet, and does not ignore, are uploaded too: code and tables."""
SUFFIXES = (".py", ".c", ".h", ".yaml")
DOCS = "docs"
"""Folder that the job does not need: documentation and the shipped results."""

SECRET_FOLDER = re.compile(r"\.(git|ssh|aws|azure|kube|gnupg|ray|docker|config|venv|peers)")
SECRET_NAME = re.compile(
    r"[._]netrc|\.(pgpass|git-credentials|htpasswd|npmrc|pypirc)|kubeconfig.*|id_(rsa|dsa|ecdsa|ed25519).*|service-account.*\.json"
    r"|\.env(\..*)?|.*\.(env|pem|key|p12|pfx|jks|kdbx|ppk)"
)
SECRET_WORD = re.compile(r"token|secret|passw|credential")


def is_secret(path: PurePath) -> bool:
    """Returns whether a file's name marks it as a secret, even where git tracks it. path: relative to the upload."""
    *folders, name = path.as_posix().lower().split("/")
    if any(map(SECRET_FOLDER.fullmatch, folders)) or SECRET_NAME.fullmatch(name):
        return True
    return not name.endswith((".py", ".pyi", ".sh", ".md")) and SECRET_WORD.search(name) is not None  # `tokenize.py` is no secret


@dataclass(frozen=True)
class Upload:
    """files: sorted paths relative to `root`. withheld: paths left out because their names look like a secret's."""

    root: Path
    files: tuple[PurePath, ...]
    withheld: tuple[PurePath, ...]

    @property
    def bytes(self) -> int:
        return sum((self.root / name).stat().st_size for name in self.files)


def collect(root: Path, needed: Collection[Path] = ()) -> Upload:
    """Collects the files that git tracks under `root`, without DOCS and symbolic links, and new files in SOURCES.

    UserError outside of a git repository, for a `needed` file that is not uploaded, and for too large an upload.
    """
    root = root.resolve()
    new = {name for name in _names(root, "--others", "--exclude-standard", "--", *SOURCES) if name.suffix in SUFFIXES}
    tracked = _names(root, "--", ".", f":!{DOCS}") - _names(root, "--ignored", "--cached", "--exclude-per-directory=.rayignore")
    wanted = sorted(name for name in tracked | new if (root / name).resolve() == root / name and (root / name).is_file())
    upload = Upload(root, tuple(name for name in wanted if not is_secret(name)), tuple(filter(is_secret, wanted)))
    there = {root / name for name in upload.files}
    expected = f"not in the upload of {root}; expected a file inside this checkout that git does not ignore"
    problems = [f"{display(path)}: {expected}" for path in needed if path.resolve() not in there]
    if upload.bytes >= MAX_BYTES:
        problems.append(f"the upload has {mib(upload.bytes)}; Ray takes less than {mib(MAX_BYTES)}; expected large files in .rayignore")
    raise_all(problems)
    return upload


def _names(root: Path, *options: str) -> set[PurePath]:
    """The files under `root` that `git ls-files` lists, relative to it."""
    listed = run_git("ls-files", "-z", *options, root=root)
    if listed is None:
        raise UserError(f"{display(root)}: git lists no files there; expected a git checkout, since submit uploads what git tracks")
    return {PurePath(os.fsdecode(name)) for name in listed.split(b"\0") if name}


def copy(upload: Upload, folder: Path, token: str) -> None:
    """Writes the upload and the commit to `folder`. UserError for a file that contains the cluster's token."""
    problems = []
    for name in upload.files:
        if name.name in (".gitignore", ".rayignore"):  # by which Ray would leave out needed files
            continue
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        with atomic.naming(target):  # not the source: the folder of temporary files may be full
            shutil.copy(upload.root / name, target)
        if token and token.encode() in target.read_bytes():
            problems.append(f"{shown(name.as_posix(), 200)}: holds the cluster's token; take it out of the checkout")
    raise_all(problems)
    commit, dirty = git()
    atomic.write_json(folder / COMMIT_FILE, {"git_commit": commit, "dirty_sha256": dirty})


def mib(size: int) -> str:
    return f"{size / MIB:.1f} MiB"
