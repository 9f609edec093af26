"""Checks that a metric suits its references. BLEU by words is silently wrong on text without spaces and on tokens taken for raw text."""

from orchestrator.data.check import MAX_UNKNOWN
from orchestrator.data.expected_text import consequence, mismatch, unspaced
from orchestrator.data.store import Prepared
from orchestrator.scoring.rouge import without_marks
from orchestrator.specs import languages
from orchestrator.specs.bleu_tokenizer import BY_LANGUAGE, tokenizer_of
from orchestrator.specs.schema import DataSpec, ScoreSpec
from orchestrator.specs.text_form import RAW

SPLIT_BY_SPACES = ("13a", "intl", "none")


def metric_warnings(prepared: Prepared, data: DataSpec, score: ScoreSpec) -> list[str]:
    """Reasons why the figures of this scoring may be wrong, each a complete line."""
    if "generator" in prepared.manifest["text"]:
        return []
    target = prepared.target_language
    warnings = [f"corpus {data.corpus}: tgt: {problem}" for problem in [languages.unknown_code(target)] if problem]
    if data.subword.kind != "word" and (most := max(prepared.unknown(score.test))) > MAX_UNKNOWN:
        warnings.append(f"corpus {data.corpus}: {most:.1%} of the tokens of {score.test} are unknown; expected characters that train has")
    cased = data.lowercase and not score.lowercase and score.metric in ("sacrebleu", "mteval")  # multi-bleu: of tokens, in lower case
    if cased and any(line != line.lower() for line in prepared.reference_text(score.test)[0]):
        found = f"references of {score.test} have capitals, which data.lowercase takes from the outputs"
        warnings.append(f"corpus {data.corpus}: {found}; expected score.lowercase: true")
    for lines in map(without_marks, prepared.references(score.test)[:1]):
        subject = f"corpus {data.corpus}: references of {score.test}:"
        problem = None if prepared.documents else mismatch(lines, prepared.form)  # raw news highlights end in ` .`
        harmless = prepared.form == RAW and data.tokenizer == "none" and score.metric == "multi-bleu"
        if problem is not None and not harmless:
            warnings.append(f"{subject} {problem}, and its entry says text: {prepared.form}; {consequence(prepared.form)}")
        by = "multi-bleu" if score.metric == "multi-bleu" else tokenizer_of(score, target)
        if by in ("multi-bleu", *SPLIT_BY_SPACES) and unspaced(lines):
            expected = "" if score.metric == "rouge" else "metric sacrebleu with "
            better = BY_LANGUAGE.get(languages.primary_subtag(target), "char")
            warnings.append(f"{subject} hardly any spaces, by which {by} tells words; expected {expected}tokenize: {better} or char")
    return warnings
