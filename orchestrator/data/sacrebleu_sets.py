"""Test sets that sacreBLEU knows (`sacrebleu --list`): their names and their sentence pairs."""

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path

from orchestrator.data.corpus import parallel
from orchestrator.data.formats import Row
from orchestrator.data.hub import Unreachable
from orchestrator.errors import UserError
from orchestrator.specs.positions import nearest, shown


def rows(name: str, langpair: str) -> Iterator[Row]:
    """Yields source and references of each sentence; sacreBLEU downloads the set once. langpair: in its notation, as in `en-de`.

    Raises UserError for a set that sacreBLEU lacks in these languages or an archive with a wrong MD5, Unreachable for a failed download.
    """
    from sacrebleu import utils
    from sacrebleu.dataset import DATASETS

    if name not in DATASETS:
        raise UserError(f"{shown(name)}: no test set of sacreBLEU; {nearest(name, list(DATASETS))}")
    known = DATASETS[name]
    if langpair not in known.langpairs:
        raise UserError(f"sacreBLEU's {name} has no {langpair}; it has {', '.join(sorted(known.langpairs))}")
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            paths = [utils.get_source_file(name, langpair), *utils.get_reference_files(name, langpair)]
    except (Exception, SystemExit) as error:
        cause = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        raise Unreachable(f"sacrebleu could not deliver {name}; is there a network? ({cause})") from None
    for url, expected in zip(known.data or (), known.md5 or (), strict=False):
        archive = Path(paths[0]).parent / "raw" / f"{name.replace('/', '_')}.{url.rpartition('/')[2]}"
        found = f"found MD5 {utils.get_md5sum(archive)}" if archive.is_file() else "no such file"
        if found != f"found MD5 {expected}":
            raise UserError(f"{archive}: {found}; expected {expected}; remove {archive.parent.parent}, then it is downloaded again")
    yield from parallel([Path(path) for path in paths])
