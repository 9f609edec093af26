"""Language codes of corpus entries: ISO 639-1 (`de`), ISO 639-3 (`ceb`), or either with subtags (BCP 47: `zh-TW`)."""

import difflib
import re
from pathlib import Path

LONGER = {longer: code for code, longer in (pair.split("-") for pair in Path(__file__).with_name("languages.txt").read_text().split())}
"""Three-letter code (ISO 639-3, 639-2, and the main language of some macrolanguages) -> two-letter code."""
CODES = frozenset(LONGER.values())
MEANT = {"cn": "zh", "jp": "ja", "cz": "cs", "gr": "el", "dk": "da", "ua": "uk", "vn": "vi", "in": "id", "iw": "he"}
"""Country codes and withdrawn codes that are often mistaken for language codes -> the language code that is probably meant."""


def primary_subtag(code: str) -> str:
    """Returns the language subtag in lower case: `zh` for `zh-TW`, `zh_Hans` and `zho`."""
    first = re.split("[-_]", code.lower())[0]
    return LONGER.get(first, first)


def unknown_code(code: str) -> str | None:
    """Returns a message about a code that is no language code, with the nearest known one, or None. Three letters pass (not qaa to qtz)."""
    subtag = primary_subtag(code)
    if re.fullmatch(r"[a-z]{2,3}([-_][a-z0-9]{1,8})*", code.lower()) and (subtag in CODES or re.fullmatch("(?!q[a-t])[a-z]{3}", subtag)):
        return None
    start = LONGER.get(subtag[:3]) or (subtag[:2] if subtag[:2] in CODES else None)
    near = MEANT.get(subtag) or start or next(iter(difflib.get_close_matches(subtag, sorted(CODES), 1, 0.5)), None)
    hint = f"; did you mean {near}?" if near else ""
    return f"{code!r} is no language code of ISO 639 or BCP 47{hint} (its text is tokenised as English, its BLEU is of 13a's words)"
