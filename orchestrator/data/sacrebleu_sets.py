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

    Raises UserError for a set that sacreBLEU does not have in these languages, Unreachable for a failed download.
    """
    from sacrebleu import utils
    from sacrebleu.dataset import DATASETS

    if name not in DATASETS:
        raise UserError(f"{shown(name)}: no test set of sacreBLEU; {nearest(name, list(DATASETS))}")
    if langpair not in DATASETS[name].langpairs:
        raise UserError(f"sacreBLEU's {name} has no {langpair}; it has {', '.join(sorted(DATASETS[name].langpairs))}")
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            paths = [utils.get_source_file(name, langpair), *utils.get_reference_files(name, langpair)]
    except (Exception, SystemExit) as error:
        cause = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        raise Unreachable(f"sacrebleu could not deliver {name}; is there a network? ({cause})") from None
    yield from parallel([Path(path) for path in paths])


def remedy() -> str:
    """How to make sacreBLEU download again. It never checks a file that is in its own folder."""
    from sacrebleu.utils import SACREBLEU_DIR

    return f"; if sacreBLEU's own copy in {SACREBLEU_DIR} is damaged, remove it"
