"""The upload of a job: a copy of what git tracks in the checkout, without secrets and what .rayignore names. Ray packs it."""

import os
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath

from orchestrator.errors import UserError, raise_all
from orchestrator.ledger.provenance import CODE, COMMIT_FILE, dump_commit, git, run_git
from orchestrator.specs.positions import display, shown

MIB = 2**20
MAX_BYTES = 100 * MIB
"""Ray's limit for one request; compared with sizes before compression."""

SOURCES = (".py", ".c", ".h", ".yaml")
"""Suffixes of files that git must track in CODE and PROFILES."""
PROFILES = "search_spaces/profiles"
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


def collect(root: Path, needed: Iterable[Path] = ()) -> Upload:
    """Collects the files that git tracks under `root`, without DOCS and symbolic links, and the `needed` ones.

    UserError outside of a git repository, for code that git does not track, for a needed file that cannot be uploaded, and for too large
    an upload.
    """
    root = root.resolve()
    code = [name for name in _names(root, "--others", "--exclude-standard", "--", *CODE, PROFILES) if name.suffix in SOURCES]
    if code:
        raise UserError(*(f"{shown(str(name), 200)}: git does not track it, and the job would lack it: git add -N {name}" for name in code))
    tracked = _names(root, "--", ".", f":!{DOCS}") - _names(root, "--ignored", "--cached", "--exclude-per-directory=.rayignore")
    wanted = {name for name in tracked if (root / name).resolve() == root / name and (root / name).is_file()}
    problems = []
    for file in dict.fromkeys(path.resolve() for path in needed):
        if not file.is_relative_to(root) or not file.is_file() or is_secret(file.relative_to(root)):
            problems.append(f"{display(file)}: not in {display(root)}, or named like a secret: not uploaded, so the job could not read it")
        else:
            wanted.add(file.relative_to(root))
    upload = Upload(root, tuple(sorted(name for name in wanted if not is_secret(name))), tuple(sorted(filter(is_secret, wanted))))
    if upload.bytes >= MAX_BYTES:
        largest = max(upload.files, key=lambda name: (root / name).stat().st_size)
        problems.append(f"the upload has {mib(upload.bytes)}; Ray takes less than {mib(MAX_BYTES)}: the largest file is {largest}")
    raise_all(problems)
    return upload


def _names(root: Path, *options: str) -> set[PurePath]:
    """The files under `root` that `git ls-files` lists, relative to it."""
    listed = run_git("ls-files", "-z", *options, root=root)
    if listed is None:
        raise UserError(f"{display(root)}: git lists no files there; expected a git checkout, since submit uploads what git tracks")
    return {PurePath(os.fsdecode(name)) for name in listed.split(b"\0") if name}


def copy(upload: Upload, folder: Path, extra: Mapping[str, bytes], token: str) -> None:
    """Writes the upload, `extra` files and the commit to `folder`. UserError for a file that contains the cluster's token."""
    problems = []
    for name in (*upload.files, *map(PurePath, extra)):
        if name.name in (".gitignore", ".rayignore"):  # by which Ray would leave out needed files
            continue
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if name.as_posix() in extra:
            target.write_bytes(extra[name.as_posix()])
        else:
            shutil.copy(upload.root / name, target)
        if token and token.encode() in target.read_bytes():
            problems.append(f"{shown(name.as_posix(), 200)}: holds the cluster's token; take it out of the checkout")
    raise_all(problems)
    (folder / COMMIT_FILE).write_bytes(dump_commit(*git()))


def mib(size: int) -> str:
    return f"{size / MIB:.1f} MiB"
