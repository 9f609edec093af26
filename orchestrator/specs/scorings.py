"""Figures of a row besides its own score: other scorings of the same training (`also`), means of figures, its analysis, its significance
test, the BLEU below which it counts as failed, and its matched controls."""

from __future__ import annotations

from dataclasses import dataclass, field

from orchestrator.specs import check, profiles
from orchestrator.specs.positions import Document, KeyPath, Located, Position, nearest, shown
from orchestrator.specs.schema import RunSpec, ScoreSpec
from orchestrator.specs.table import FigureHeader, RowHeader


def _nothing() -> Located:
    return Located({}, Position("", ()))


@dataclass
class Figures:
    """Figures with source positions. also: name -> differences to the row's `score` section. means: name -> names of figures."""

    also: Located = field(default_factory=_nothing)
    means: Located = field(default_factory=_nothing)
    analysis: str | None = None
    significance: str | None = None
    failed_below: float | None = None
    controls: tuple[str, ...] = ()

    def merged(self, document: Document, at: KeyPath, head: FigureHeader) -> Figures:
        """Returns a copy with the mapping at `at` of a document on top; null removes a figure."""
        also, means = (_over(below, document, (*at, name)) for below, name in ((self.also, "also"), (self.means, "means")))
        bound = head.failed_below if "failed_below" in head.model_fields_set else self.failed_below
        controls = self.controls if head.controls is None else tuple(head.controls)
        return Figures(also, means, head.analysis or self.analysis, head.significance or self.significance, bound, controls)


def of_row(file: Figures, document: Document, at: KeyPath, head: RowHeader, problems: list[str]) -> Figures:
    """Returns the figures of the row at `at`, merged onto the file's, and appends one line per problem to `problems`.

    An analysis has only its analysis and significance, a quoted or external row nothing.
    """
    found = file.merged(document, at, head)
    if head.kind == "analysis" and found.analysis is None:
        problems.append(document.at(at).line("analysis is missing; expected the row or the file to name one"))
    if head.kind != "run":
        return Figures(analysis=found.analysis, significance=found.significance) if head.kind == "analysis" else Figures()
    for name, parts in found.means.data.items():
        problems += _mean_problems(found.means.at((name,)), name, parts, list(found.also.data))
    return found


def resolve(also: Located, spec: RunSpec, profile_test: str | None = None) -> tuple[dict[str, ScoreSpec], list[str]]:
    """Applies each scoring's differences to the `score` section of `spec`. Returns name -> section, and one line per problem.

    profile_test: the test set of a profile (see `profiles.test_set`).
    """
    found: dict[str, ScoreSpec] = {}
    problems: list[str] = []
    for name, differences in also.data.items():
        score = spec.score.model_dump() | differences
        score["test"] = profiles.test_set(score["test"], profile_test)
        if score == spec.score.model_dump():
            found[name] = spec.score
            continue
        positions: dict[KeyPath, Position] = {("score", key): also.at((name, key)) for key in differences}
        data = spec.model_dump(exclude={"seed", "init_from"}) | {"score": score}
        other, lines, _ = check.check(Located(data, also.at((name,)), positions))
        problems += lines
        if other is not None:
            found[name] = other.score
    return found, problems


def differences(score: ScoreSpec, own: ScoreSpec) -> dict[str, object]:
    """Returns the differences of `score` to the row's own section, as `also` states them."""
    mine = own.model_dump()
    return {key: value for key, value in score.model_dump().items() if value != mine[key]}


def _over(below: Located, document: Document, path: KeyPath) -> Located:
    value: object = document.data
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    if not isinstance(value, dict):
        return below
    found = below.merged(Located.of(document, path))
    found.data = {name: item for name, item in found.data.items() if item is not None}
    return found


def _mean_problems(position: Position, name: str, parts: list[str], also: list[str]) -> list[str]:
    if name in also:
        return [position.line("found the name of a figure in also; expected another name")]
    if not parts:
        return [position.line("found an empty list; expected figures named in also, or bleu")]
    unknown = next((part for part in parts if part != "bleu" and part not in also), None)
    return [] if unknown is None else [position.line(f"found '{shown(unknown)}'; {nearest(unknown, [*also, 'bleu'])}")]
