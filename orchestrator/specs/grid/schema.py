"""Strict schema of a file's `grid:` section: a design space in which every combination is a row.

    grid:
      samples: 2                                   # draws of the random axes for each combination of the others
      axes:                                        # in order; a condition may use only axes above it
        side:        {words: {encoder: [encoder], both: [encoder, decoder]}}            # replaces <side> in keys
        aggregation: {key: model.<side>.aggregation, grid: {top: {kind: top}, mlrf: {kind: mlrf-self-attention}}}
        hops:        {when: {aggregation: mlrf}, key: model.<side>.aggregation.n_hop, grid: [2, 4]}
        depth:       {zip: {model.encoder.num_layers: [6, 12], model.decoder.num_layers: [6, 6]}}
        lambda:      {key: model.regularizers.diversity.weight, loguniform: {low: 0.01, high: 1}}
      exclude:
        - {when: {depth: {above: 24}, aggregation: mlrf}, reason: "..."}

Kinds of axes: `grid` (every value), `zip` (several keys in parallel), `loguniform` (drawn), `words`.
"""

import re
from typing import Annotated, Any

from pydantic import Field, model_validator

from orchestrator.specs.base import Seed, Strict

KINDS = ("grid", "zip", "loguniform", "words")
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,31}")
NAME_WORDS = "letters, digits and _ (at most 32, first a letter)"
UNSET = "unset"
"""A value that sets nothing; the row has the value of the file's sections."""

Condition = dict[str, Any]
"""Axis -> a value, a list of values, or {not: .., at_least: ..}. All entries must hold."""


class Range(Strict):
    """A range from which numbers are drawn."""

    low: Annotated[float, Field(gt=0)]
    """Smallest number, above 0."""
    high: float
    """Largest number."""
    digits: Annotated[int, Field(ge=1, le=6)] = 2
    """Significant digits to which a number is rounded."""

    @model_validator(mode="after")
    def _order(self) -> "Range":
        if self.low >= self.high:
            raise ValueError(f"low is {self.low:g}, high {self.high:g}; expected low below high")
        return self


class Axis(Strict):
    """One dimension of the grid, with exactly one of grid, zip, loguniform and words."""

    key: str | None = None
    """Dotted key that the values set, such as `model.encoder.num_layers`. <NAME> in it stands for the words of axis NAME. null: each value
    is a mapping of dotted keys."""
    grid: list[Any] | dict[str, Any] | None = None
    """All values of the axis: a list, or names with their values. The value `unset` sets nothing."""
    zip: dict[str, list[Any]] | None = None
    """Several dotted keys in parallel: key -> its values. All keys have equally many values."""
    names: list[str | int] = Field(default_factory=list)
    """Names of the positions of `zip`; empty: the values are the names."""
    loguniform: Range | None = None
    """Range from which a number is drawn for each sample, uniformly in its logarithm."""
    words: dict[str, list[str]] | None = None
    """Name -> words that replace <NAME OF THE AXIS> in the keys of other axes. The axis itself sets nothing."""
    when: Condition | None = None
    """Condition under which the axis applies: axis above it -> a value, a list of values, or a mapping with not, at_least, at_most, above,
    below. All must hold. null: always."""
    id: Annotated[str, Field(max_length=16, pattern=r"^[A-Za-z0-9._-]*$")] | None = None
    """Prefix of its values in row names; null: none for text, else the axis name."""

    @property
    def random(self) -> bool:
        return self.loguniform is not None

    @model_validator(mode="after")
    def _sound(self) -> "Axis":
        kinds = [kind for kind in KINDS if getattr(self, kind) is not None]
        if len(kinds) != 1:
            raise ValueError(f"found {' and '.join(kinds) or 'no values'}; expected one of {', '.join(KINDS)}")
        values = getattr(self, kinds[0])
        if not values:
            raise ValueError(f"{kinds[0]} is empty; expected at least one value")
        if self.key is not None and (self.zip or self.words):
            raise ValueError(f"found a key beside {kinds[0]}; expected none")
        if self.key is None and not isinstance(values, dict):
            raise ValueError("key is missing; expected the dotted key that the values are written to, as in model.encoder.num_layers")
        lengths = {len(values) for values in (self.zip or {}).values()}
        if self.zip and (len(lengths) != 1 or lengths == {0}):
            raise ValueError("zip has lists of different lengths; expected as many values for each key, and at least one")
        if self.names and ({len(self.names)} != lengths or len(set(map(str, self.names))) != len(self.names)):
            raise ValueError(f"names are {len(self.names)}; expected zip, and a name of its own for each of its positions")
        return self


class Exclusion(Strict):
    """Combinations that are not rows, and the reason."""

    when: Condition
    """Excluded combinations: axis -> a value, a list of values, or a mapping such as {above: 24}. All must hold."""
    reason: Annotated[str, Field(min_length=1, max_length=300)]
    """The reason; `nmt-ablate explain` prints it."""


class GridSection(Strict):
    """The `grid` section: every combination of the axes is a row (docs/sweeps.md)."""

    axes: Annotated[dict[str, Axis], Field(min_length=1)]
    """Name -> axis, in order; a condition may use only axes above it."""
    exclude: list[Exclusion] = Field(default_factory=list)
    """Combinations that are not rows."""
    samples: Annotated[int, Field(ge=1, le=10_000)] = 1
    """Number of draws of the random axes for each combination of the other axes."""
    seed: Seed = 1
    """Seed of the draws."""

    @model_validator(mode="after")
    def _names(self) -> "GridSection":
        for name in self.axes:
            if not NAME.fullmatch(name):
                raise ValueError(f"axes has {name[:60]!r}; expected {NAME_WORDS}")
        if self.samples > 1 and not any(axis.random for axis in self.axes.values()):
            raise ValueError(f"samples is {self.samples}; expected an axis of kind loguniform with it")
        return self
