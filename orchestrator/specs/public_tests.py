"""Test sets that sacreBLEU knows (`sacrebleu --list`). A row whose corpus is running text in their languages may be scored on them."""

from collections.abc import Sequence

from orchestrator.specs.corpora import CorpusEntry
from orchestrator.specs.languages import primary_subtag
from orchestrator.specs.positions import nearest, shown
from orchestrator.specs.text_form import RAW


def identity(name: str, languages: Sequence[str]) -> list[object] | None:
    """Returns the identity of a test set's text: name, languages and MD5 of its archives. None: sacreBLEU lacks it in these languages."""
    from sacrebleu.dataset import DATASETS

    pair, known = "-".join(languages), DATASETS.get(name)
    return None if known is None or pair not in known.langpairs else ["sacrebleu", name, pair, known.md5]


def refusal(name: str, entry: CorpusEntry, splits: Sequence[str]) -> str | None:
    """Returns why a row of this corpus cannot be scored on the test set; None if it can. splits: splits of the corpus."""
    from sacrebleu.dataset import DATASETS

    languages = primary_subtag(entry.src), primary_subtag(entry.tgt)
    pair = "-".join(languages)
    own = f"expected one of {', '.join(splits)}"
    if name not in DATASETS:
        return f"found {shown(name)!r}; {nearest(name, [*splits, *(each for each, known in DATASETS.items() if pair in known.langpairs)])}"
    if identity(name, languages) is None:
        return f"found {name}, which sacreBLEU has in {', '.join(sorted(DATASETS[name].langpairs))}; expected {pair}, or {own[9:]}"
    if entry.text != RAW or entry.documents is not None:
        return f"found {name}, single sentences of running text, for {'tokens' if entry.text != RAW else 'documents'}; {own}"
    return None
