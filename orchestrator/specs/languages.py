"""Language codes of corpus entries: ISO 639-1, optionally with a script or region (`zh-tw`)."""

import difflib
import re

_TWO_LETTERS = """
aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de dv dz ee el en eo es et eu fa
ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id ie ig ii ik io is it iu ja jv ka kg ki kj kk kl km kn ko kr
ks ku kv kw ky la lb lg li ln lo lt lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl nn no nr nv ny oc oj om or os pa pi pl
ps pt qu rm rn ro ru rw sa sc sd se sg sh si sk sl sm sn so sq sr ss st su sv sw ta te tg th ti tk tl tn to tr ts tt tw ty ug uk
ur uz ve vi vo wa wo xh yi yo za zh zu
"""
CODES = frozenset(_TWO_LETTERS.split())
LONGER = {"chi": "zh", "cmn": "zh", "jpn": "ja", "kor": "ko", "zho": "zh"}
"""Three-letter code -> two-letter code."""
MEANT = {"cn": "zh", "jp": "ja", "cz": "cs", "gr": "el", "dk": "da", "ua": "uk", "vn": "vi", "in": "id", "iw": "he"}
"""Country codes and withdrawn codes that are often mistaken for language codes -> the language code that is probably meant."""


def primary_subtag(code: str) -> str:
    """Returns the language subtag in lower case: `zh` for `zh-TW`, `zh_Hans` and `zho`."""
    first = re.split("[-_]", code.lower())[0]
    return LONGER.get(first, first)


def unknown_code(code: str) -> str | None:
    """Returns a message about an unknown language code, with the nearest known one, or None if the code is known."""
    if primary_subtag(code) in CODES:
        return None
    subtag = primary_subtag(code)
    start = subtag[:2] if subtag[:2] in CODES else None
    near = MEANT.get(subtag) or start or next(iter(difflib.get_close_matches(subtag, sorted(CODES), 1, 0.5)), None)
    hint = f"; did you mean {near}?" if near else ""
    return f"{code!r} is no language code of ISO 639-1{hint} (its text is tokenised as English, its BLEU is of 13a's words)"
