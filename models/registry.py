"""Registries of components: classes with a positional `Site` (place in the network) and keyword-only options (their schema).

Raise `version` when the meaning of a class changes. Results of the old meaning then do not count as results of the new one.
"""

import functools
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
"""The constructor that every component and stack of a model goes through: (class, site, other arguments) -> instance. Parameter counting
sets another one, which shares equal parts (`orchestrator.sweeps.parts`)."""


def construct(cls: Any, site: Any, *arguments: Any, **keywords: Any) -> Any:
    """Returns an instance of a component class, or of Stack, made by the current constructor."""
    return constructor.get()(cls, site, *arguments, **keywords)


REGISTRIES: dict[str, "Registry"] = {}
"""Kind of component -> its registry."""


class Registry:
    """Names and classes of one kind of component. The first use imports all modules of `models` that register components."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._classes: dict[str, type] = {}
        REGISTRIES[kind] = self

    def register(self, name: str, *, version: int = 1) -> Callable[[T], T]:
        def add(cls: T) -> T:
            if known := self._classes.get(name):
                raise ValueError(f"{self.kind} {name} is registered twice: in {known.__module__} and {cls.__module__}")
            cls.registry, cls.kind, cls.version = self.kind, name, version  # type: ignore[attr-defined]
            self._classes[name] = cls
            return cls

        return add

    def names(self) -> list[str]:
        _load()
        return sorted(self._classes)

    def get(self, name: str) -> Any:
        """Returns the class called `name`. KeyError: unknown name."""
        _load()
        return self._classes[name]

    def create(self, component: Component, site: Any) -> Any:
        """Returns the module of `{kind: NAME, **options}` at a site. KeyError: unknown kind."""
        return construct(self.get(component["kind"]), site, **options(component))


@functools.cache
def _load() -> None:
    """Imports the plain parts and all modules in the packages of `models`."""
    importlib.import_module("models.plain")
    for package in pkgutil.iter_modules(importlib.import_module("models").__path__, "models."):
        if package.ispkg:
            for module in pkgutil.iter_modules(importlib.import_module(package.name).__path__, f"{package.name}."):
                importlib.import_module(module.name)


CONNECTIONS = Registry("connection")
AGGREGATIONS = Registry("aggregation")
RESIDUALS = Registry("residual")
SELF_ATTENTIONS = Registry("self_attention")
CROSS_ATTENTIONS = Registry("cross_attention")
LAYERS = Registry("layer")
BRIDGES = Registry("bridge")
ENCODERS = Registry("extra_encoder")
CONTEXTS = Registry("context")
HEADS = Registry("head")
REGULARIZERS = Registry("regularizer")
