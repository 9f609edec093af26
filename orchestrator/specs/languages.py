"""Language codes of corpus entries: ISO 639-1 (`de`), ISO 639-3 (`ceb`), or either with subtags (BCP 47: `zh-TW`)."""

import difflib
import re

_PAIRS = """
aa-aar ab-abk ae-ave af-afr ak-aka am-amh an-arg ar-ara as-asm av-ava ay-aym az-aze ba-bak be-bel bg-bul bh-bih bi-bis bm-bam bn-ben
bo-bod br-bre bs-bos ca-cat ce-che ch-cha co-cos cr-cre cs-ces cu-chu cv-chv cy-cym da-dan de-deu dv-div dz-dzo ee-ewe el-ell en-eng
eo-epo es-spa et-est eu-eus fa-fas ff-ful fi-fin fj-fij fo-fao fr-fra fy-fry ga-gle gd-gla gl-glg gn-grn gu-guj gv-glv ha-hau he-heb
hi-hin ho-hmo hr-hrv ht-hat hu-hun hy-hye hz-her ia-ina id-ind ie-ile ig-ibo ii-iii ik-ipk io-ido is-isl it-ita iu-iku ja-jpn jv-jav
ka-kat kg-kon ki-kik kj-kua kk-kaz kl-kal km-khm kn-kan ko-kor kr-kau ks-kas ku-kur kv-kom kw-cor ky-kir la-lat lb-ltz lg-lug li-lim
ln-lin lo-lao lt-lit lu-lub lv-lav mg-mlg mh-mah mi-mri mk-mkd ml-mal mn-mon mr-mar ms-msa mt-mlt my-mya na-nau nb-nob nd-nde ne-nep
ng-ndo nl-nld nn-nno no-nor nr-nbl nv-nav ny-nya oc-oci oj-oji om-orm or-ori os-oss pa-pan pi-pli pl-pol ps-pus pt-por qu-que rm-roh
rn-run ro-ron ru-rus rw-kin sa-san sc-srd sd-snd se-sme sg-sag sh-hbs si-sin sk-slk sl-slv sm-smo sn-sna so-som sq-sqi sr-srp ss-ssw
st-sot su-sun sv-swe sw-swa ta-tam te-tel tg-tgk th-tha ti-tir tk-tuk tl-tgl tn-tsn to-ton tr-tur ts-tso tt-tat tw-twi ty-tah ug-uig
uk-ukr ur-urd uz-uzb ve-ven vi-vie vo-vol wa-wln wo-wol xh-xho yi-yid yo-yor za-zha zh-zho zu-zul
sq-alb hy-arm eu-baq my-bur zh-chi zh-cmn cs-cze nl-dut et-ekk fr-fre ka-geo de-ger el-gre is-ice lv-lvs mk-mac mi-mao ms-may or-ory fa-per
ro-rum sk-slo bo-tib cy-wel
"""
LONGER = {longer: code for code, longer in (pair.split("-") for pair in _PAIRS.split())}
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
