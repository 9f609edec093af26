"""BLEU in three variants (Papineni et al. 2002), all computed by sacreBLEU (Post 2018), in percent.

* `sacre_bleu`: detokenised text with sacreBLEU's own signature.
* `multi_bleu`: tokenised text as Moses' `multi-bleu.perl` scores it: tokens as given, no smoothing, so that a precision of 0 gives BLEU 0.
* `mteval`: detokenised text as NIST's `mteval-v13a.pl` scores it (moses-smt/mosesdecoder, scripts/generic): tokenisation 13a; closest
  reference lengths in the brevity penalty; precisions without a match are smoothed by 1/2, 1/4, ... of a match. The script ignores the
  case of A-Z unless `-c` is given; here `lowercase` decides.

Hypotheses are one line per sentence; references are one list of such lines per reference stream. All functions raise ValueError if there
is no reference stream or the numbers of lines differ.
"""

import re
import string
from collections.abc import Callable, Sequence
from typing import Any

import sacrebleu
from sacrebleu.metrics.bleu import BLEU, BLEUScore

from orchestrator.ledger.statistics import MAX_ORDER
from orchestrator.specs.bleu_tokenizer import DEFAULT

EMPTY = BLEUScore(0.0, [0] * MAX_ORDER, [0] * MAX_ORDER, [0.0] * MAX_ORDER, 0.0, 0, 0)

_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
_COMPOUND = re.compile(r"([^ \t\n\r\f\v])-([^ \t\n\r\f\v])")
_OTHER_SPACE = {ord(c): 0xF0000 + ord(c) for c in map(chr, range(0x3001)) if c.isspace() and c not in " \t\n\r\f\v"}
"""Maps non-ASCII white space to private characters, because multi-bleu.perl reads bytes and splits at ASCII white space only."""


def sacre_bleu(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]], *, lowercase: bool = False, tokenize: str = DEFAULT
) -> dict[str, Any]:
    """BLEU of detokenised lines by sacreBLEU: score, signature, precisions, brevity_penalty and the lengths in tokens."""
    metric, _ = metric_and_form("sacrebleu", lowercase=lowercase, tokenize=tokenize)
    metric.num_refs = len(references)
    result = corpus_score(metric, hypotheses, references)
    return _figures(result, float(result.bp), signature_of("BLEU", metric))


def multi_bleu(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]], *, lowercase: bool = False, split_compounds: bool = False
) -> dict[str, Any]:
    """BLEU of tokenised lines by multi-bleu.perl, as `sacre_bleu`. `split_compounds`: see `split_hyphenated`."""
    metric, form = metric_and_form("multi-bleu", lowercase=lowercase, split_compounds=split_compounds)
    result = corpus_score(metric, form(hypotheses), [*map(form, references)])
    case, tok = "lc" if lowercase else "mixed", "data+compounds" if split_compounds else "data"
    signature = f"multi-bleu|nrefs:{len(references)}|case:{case}|tok:{tok}|smooth:none|bp:closest"
    return _figures(result, float(result.bp) if result.ref_len else 0.0, signature)


def _figures(result: BLEUScore, brevity_penalty: float, signature: str) -> dict[str, Any]:
    """Score and precisions in percent, lengths in tokens. The signature names everything that the score depends on."""
    return {
        "score": min(result.score, 100.0),
        "signature": signature,
        "precisions": [float(p) for p in result.precisions],
        "brevity_penalty": brevity_penalty,
        "hypothesis_length": int(result.sys_len),
        "reference_length": int(result.ref_len),
    }


def mteval(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]], *, lowercase: bool = False, tokenize: str = DEFAULT
) -> dict[str, Any]:
    """BLEU of detokenised lines by mteval-v13a.pl: score and signature. tokenize: a tokenisation of sacreBLEU."""
    metric, form = metric_and_form("mteval", lowercase=lowercase, tokenize=tokenize)
    result = corpus_score(metric, form(hypotheses), [*map(form, references)])
    about = f"nrefs:{len(references)}|case:{'lc' if lowercase else 'mixed'}|tok:{metric.tokenizer_signature}"
    signature = f"mteval-v13a|{about}|smooth:exp|bp:closest|sacrebleu:{sacrebleu.__version__}"
    return {"score": min(result.score, 100.0), "signature": signature}


Form = Callable[[Sequence[str]], list[str]]


def metric_and_form(kind: str, *, lowercase: bool = False, split_compounds: bool = False, tokenize: str = DEFAULT) -> tuple[BLEU, Form]:
    """The metric of sacreBLEU for a kind of BLEU (of `ScoreSpec.metric`), and the function that brings lines into the form it reads.

    Nothing is checked here: `sweeps.metric_compatibility` checks that the text fits the metric.
    """
    if kind == "multi-bleu":
        return BLEU(tokenize="none", smooth_method="none", force=True), lambda lines: _as_multi_bleu(lines, lowercase, split_compounds)
    if kind == "mteval":  # lowercases only A-Z, sacreBLEU all of Unicode
        return BLEU(tokenize=tokenize, force=True), lambda lines: [lower_ascii(line) if lowercase else line for line in lines]
    return BLEU(lowercase=lowercase, tokenize=tokenize, force=True), list


def _as_multi_bleu(lines: Sequence[str], lowercase: bool, split_compounds: bool) -> list[str]:
    """Tokenised lines in a form that sacreBLEU splits into the tokens of multi-bleu.perl."""
    prepared = [line.translate(_OTHER_SPACE) for line in lines]
    if split_compounds:
        prepared = [split_hyphenated(line) for line in prepared]
    return [lower_ascii(line) for line in prepared] if lowercase else prepared


def corpus_score(metric: BLEU, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> BLEUScore:
    """sacreBLEU's score, or EMPTY for a corpus without sentences, which sacreBLEU does not define."""
    check_counts(hypotheses, references)
    return metric.corpus_score(list(hypotheses), [list(stream) for stream in references]) if hypotheses else EMPTY


def signature_of(name: str, metric: Any) -> str:
    """The name of the score and the signature of the metric, as sacreBLEU prints them."""
    return f"{name}|{metric.get_signature()}"


def check_counts(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> None:
    """Raises ValueError if there is no reference stream, or if one differs from the hypotheses in its number of lines."""
    if not references:
        raise ValueError("no reference stream to score against")
    for number, stream in enumerate(references):
        if len(stream) != len(hypotheses):
            raise ValueError(f"{len(hypotheses)} hypotheses but {len(stream)} lines in reference stream {number}")


def lower_ascii(line: str) -> str:
    """Lowercases A-Z and nothing else, like `lc` of bytes (multi-bleu) and `tr` (mteval-v13a)."""
    return line.translate(_LOWER)


def split_hyphenated(line: str) -> str:
    """WMT14 En-De compound splitting: `rich-text` becomes `rich ##AT##-##AT## text`, `a-b-c` `a ##AT##-##AT## b-c`. Source: tensor2tensor's
    `get_ende_bleu.sh` (after Luong et al. 2015)."""
    return _COMPOUND.sub(r"\1 ##AT##-##AT## \2", line)
