"""Registries of components. A variant is one file in one package that registers one class.

A registered class takes a positional `Site` (its place in the network) and keyword-only options (its schema). `version` is raised when
the meaning of a class changes, so that results of the old meaning are not taken for results of the new one.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, TypeVar

from models.config import Component, options

T = TypeVar("T", bound=type)


def _call(cls: Any, site: Any, *arguments: Any, **keywords: Any) -> Any:
    return cls(site, *arguments, **keywords)


constructor: ContextVar[Callable[..., Any]] = ContextVar("constructor", default=_call)
"""Called with a class, its site and its other arguments for every component and stack of a model. A context in which models are only
counted sets another one, which shares equal parts (`orchestrator.sweeps.parts`)."""


def construct(cls: Any, site: Any, *arguments: Any, **keywords: Any) -> Any:
    """An instance of a component class, or of Stack, by the constructor of this context."""
    return constructor.get()(cls, site, *arguments, **keywords)


class Registry:
    """Names of one kind of component; the modules of its package are imported at first use."""

    def __init__(self, kind: str, package: str) -> None:
        self.kind, self.package = kind, package
        self._classes: dict[str, type] = {}
        self._loaded = False

    def register(self, name: str, *, version: int = 1) -> Callable[[T], T]:
        def add(cls: T) -> T:
            if name in self._classes:
                raise ValueError(f"{self.kind} {name} is registered twice")
            cls.registry, cls.kind, cls.version = self.kind, name, version  # type: ignore[attr-defined]
            self._classes[name] = cls
            return cls

        return add

    def names(self) -> list[str]:
        self._load()
        return sorted(self._classes)

    def get(self, name: str) -> Any:
        """The class called `name`; KeyError where there is none."""
        self._load()
        return self._classes[name]

    def create(self, component: Component, site: Any) -> Any:
        """The module of `{kind: NAME, **options}` at a site; KeyError where there is no such kind."""
        return construct(self.get(component["kind"]), site, **options(component))

    def _load(self) -> None:
        if self._loaded:
            return
        package = importlib.import_module(self.package)
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{self.package}.{module.name}")
        self._loaded = True


CONNECTIONS = Registry("connection", "models.connections")
AGGREGATIONS = Registry("aggregation", "models.aggregations")
RESIDUALS = Registry("residual", "models.residuals")
SELF_ATTENTIONS = Registry("self_attention", "models.self_attention")
CROSS_ATTENTIONS = Registry("cross_attention", "models.cross_attention")
LAYERS = Registry("layer", "models.layers")
BRIDGES = Registry("bridge", "models.bridges")
ENCODERS = Registry("extra_encoder", "models.encoders")
CONTEXTS = Registry("context", "models.contexts")
HEADS = Registry("head", "models.heads")
REGULARIZERS = Registry("regularizer", "models.regularizers")

REGISTRIES = {
    registry.kind: registry
    for registry in (
        CONNECTIONS,
        AGGREGATIONS,
        RESIDUALS,
        SELF_ATTENTIONS,
        CROSS_ATTENTIONS,
        LAYERS,
        BRIDGES,
        ENCODERS,
        CONTEXTS,
        HEADS,
        REGULARIZERS,
    )
}
