"""Scores of one decoded test set in percent, each with the signature of its computation.

`score` reports all figures; its `bleu` is the one that the spec selects. The spec's case and compound splitting apply to all but chrF.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from sacrebleu.metrics.chrf import CHRF

from orchestrator.errors import UserError
from orchestrator.scoring.bleu import check_counts, mteval, multi_bleu, sacre_bleu, signature_of
from orchestrator.scoring.rouge import rouge, without_marks
from orchestrator.specs.bleu_tokenizer import rouge_tokenizer_of, tokenizer_of
from orchestrator.specs.schema import ScoreSpec


class References(Protocol):
    """The part of the prepared data that scoring needs: the reference streams of a test set, as corpus lines and as running text."""

    @property
    def target_language(self) -> str: ...
    def references(self, split: str) -> list[list[str]]: ...
    def reference_text(self, split: str) -> list[list[str]]: ...
    def tokenise(self, lines: list[str], side: str) -> list[str]: ...


def score(
    hypotheses_text: Sequence[str], hypotheses_tokens: Sequence[str], prepared: References, split: str, spec: ScoreSpec
) -> dict[str, Any]:
    """Scores the detokenised and the tokenised hypotheses, given one line per sentence in the order of the test set.
    Returns {"bleu", "signature", "metric", "sentences", "sacrebleu": {..}, "tokenised": {..}, "mteval": {..}, "chrf": {..}} for JSON.
    Metric rouge adds "rouge1", "rouge2", "rougeL" and sets their signature; its BLEU figures are of the summaries as running text.
    Raises UserError if the numbers of hypotheses and references differ.
    """
    references, text = prepared.references(split), prepared.reference_text(split)
    by = tokenizer_of(spec, prepared.target_language)
    try:
        check_counts(hypotheses_text, references)
        check_counts(hypotheses_tokens, references)
    except ValueError as error:
        raise UserError(f"test set {split}: {error}") from error
    summaries = rouge(hypotheses_text, text, rouge_tokenizer_of(spec, prepared.target_language)) if spec.metric == "rouge" else {}
    if summaries:
        hypotheses_text, hypotheses_tokens = without_marks(hypotheses_text), without_marks(hypotheses_tokens)
        references, text = ([without_marks(stream) for stream in streams] for streams in (references, text))
    tokenised = [prepared.tokenise(list(stream), "tgt") for stream in references]
    figures: dict[str, dict[str, Any]] = {
        "sacrebleu": sacre_bleu(hypotheses_text, text, lowercase=spec.lowercase, tokenize=by),
        "tokenised": multi_bleu(hypotheses_tokens, tokenised, lowercase=spec.lowercase, split_compounds=spec.split_compounds),
        "mteval": mteval(hypotheses_text, text, lowercase=spec.lowercase, tokenize=by),
        "chrf": chrf(hypotheses_text, text),
    }
    chosen = figures[{"multi-bleu": "tokenised", "mteval": "mteval"}.get(spec.metric, "sacrebleu")]
    return {
        "bleu": chosen["score"],
        "signature": chosen["signature"],
        "metric": spec.metric,
        "sentences": len(hypotheses_text),
        **summaries,
        **figures,
    }


def chrf(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, Any]:
    """chrF2: character 6-gram F-score with beta 2 (Popovic 2015), with sacreBLEU's own signature. Raises ValueError like `check_counts`."""
    check_counts(hypotheses, references)
    metric = CHRF()
    metric.num_refs = len(references)
    value = metric.corpus_score(list(hypotheses), [list(stream) for stream in references]).score if hypotheses else 0.0
    return {"score": value, "signature": signature_of("chrF2", metric)}
