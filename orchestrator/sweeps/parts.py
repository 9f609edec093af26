"""Parameters of models that share parts: each part is built once for all models in which its constructor would do the same.

A constructor sees its options and a `Site`. What it looks at there is noted; whoever comes with the same options and the same values
at the places looked at is given the count of the first, and nothing is built. So what a count depends on is found out, not declared.
The Transformer itself is such a constructor, but for its two stacks, which it asks for anew in every model.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from unittest.mock import patch

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

import models.transformer
from models.config import ModelConfig, StackConfig
from models.initialise import NoInitialValueError, require
from models.registry import Registry
from models.site import Site
from orchestrator.sweeps.recorder import NAMES, Place, WatchedConfig, WatchedSite, frozen, read, unwatched, watch

_FILLS = frozenset({"uniform_", "normal_", "trunc_normal_", "kaiming_uniform_", "xavier_uniform_"})
_FACTORIES = frozenset({torch.empty, torch.zeros, torch.ones, torch.full, torch.tensor, torch.arange, torch.rand, torch.randn})
_FIELDS: tuple[Place, ...] = tuple((name,) for name in sorted(NAMES[Site] - {"config", "shared"}))
_LOCK = threading.Lock()


class Counted(nn.Module):
    """Stands for modules that were counted before; other attributes are those of the first of them. shared: name -> count of what it
    shares with other parts of a model, which is not in `count`."""

    def __init__(self, count: int, shared: dict[str, int], first: nn.Module) -> None:
        super().__init__()
        self.__dict__.update(count=count, shared=shared, first=first)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["first"], name)


class _Stack(nn.Module):
    """A stack that the Transformer asked for; notes what it looks at in it."""

    def __init__(self, counted: Counted) -> None:
        super().__init__()
        self.__dict__.update(counted=counted, asked={})

    def __getattr__(self, name: str) -> Any:
        self.__dict__["asked"][name] = None
        return getattr(self.__dict__["counted"], name)


@dataclass
class _Table:
    """Places that were looked at -> the values there -> what was made of them."""

    entries: dict[tuple[Place, ...], dict[tuple[Any, ...], Any]] = field(default_factory=dict)

    def find(self, read: Callable[[Place], Any]) -> Any:
        """read: place -> the value there."""
        for places, known in self.entries.items():
            found = known.get(tuple(map(read, places)))
            if found is not None:
                return found
        return None

    def keep(self, root: Any, looked: Mapping[Place, None], made: Any) -> Any:
        places = tuple(looked)
        self.entries.setdefault(places, {})[tuple(read(root, place) for place in places)] = made
        return made


_Call: TypeAlias = "tuple[_Maker, Site, tuple[Any, ...], dict[str, Any], _Table]"


@dataclass
class _Around:
    """A Transformer without its stacks. calls: how it asks for each; asked: what it looks at in each, by which `counts` differ."""

    calls: list[_Call]
    asked: list[tuple[str, ...]]
    counts: dict[tuple[Any, ...], tuple[int, dict[str, int]]] = field(default_factory=dict)


_last: list[tuple[ModelConfig, dict[Place, Any]]] = []
_parts: dict[tuple[Any, ...], _Table] = {}
_around: dict[tuple[int, int], _Table] = {}


@dataclass(frozen=True)
class Counts:
    """Trainable numbers of a model: of all of it, and of its two stacks."""

    whole: int
    encoder: int
    decoder: int


def count(model: Mapping[str, Any], src_vocab: int, tgt_vocab: int) -> Counts:
    """Distinct trainable numbers of the model; the whole is equal to `models.count_parameters`.

    NoInitialValueError: for a parameter that nothing gives an initial value, so that it is known before anything trains.
    """
    config = ModelConfig.of(model)
    flat = _flat(config)
    with _LOCK:
        table = _around.setdefault((src_vocab, tgt_vocab), _Table())
        known: _Around | None = table.find(flat.__getitem__)
        if known is None:
            return _run(config, src_vocab, tgt_vocab, table)
        stacks = [_asked_for(call, config, flat) for call in known.calls]
        rest = known.counts.get(_looks(stacks, known.asked))
        return _run(config, src_vocab, tgt_vocab, table) if rest is None else _sum(stacks, *rest)


def _asked_for(call: _Call, config: ModelConfig, flat: Mapping[Place, Any]) -> Counted:
    """The stack that such a call makes in another model."""
    maker, site, arguments, options, table = call
    found: Counted | None = table.find(functools.partial(_at, site, flat))
    if found is None:
        with _counting(), _Shapes():
            found = maker(_of(config, site), *arguments, **options)
    return found


def _run(config: ModelConfig, src_vocab: int, tgt_vocab: int, table: _Table) -> Counts:
    """Runs the Transformer's constructor and keeps what it did."""
    looked: dict[Place, None] = {}
    shared: dict[str, nn.Module] = {}
    calls: list[_Call] = []
    stacks: list[_Stack] = []

    def stack(site: Site, *arguments: Any, **options: Any) -> nn.Module:
        bare = _of(config, site)
        calls.append((make, bare, arguments, options, make.table(arguments, options)))
        stacks.append(_Stack(make(bare, *arguments, **options)))
        return stacks[-1]

    with _counting(), _Shapes():
        make = _Maker(("stack",), models.transformer.Stack, _FIELDS)
        with patch.object(models.transformer, "Stack", stack):
            whole = models.transformer.Transformer(watch(WatchedConfig, config, (), looked, shared), src_vocab, tgt_vocab)
    rest = _tally(whole, shared)
    known: _Around | None = table.find(lambda place: read(config, place))
    asked = [tuple(each.__dict__["asked"]) for each in stacks]
    if known is None or known.asked != asked:
        known = table.keep(config, looked, _Around(calls, asked))
    found = [each.__dict__["counted"] for each in stacks]
    known.counts[_looks(found, asked)] = rest
    return _sum(found, *rest)


def _of(config: ModelConfig, site: Site) -> Site:
    """The site in another model of the same outline."""
    plain = {name: getattr(site, name) for name in NAMES[Site]}
    return Site(**(plain | {"config": config, "shared": {}}))


def _looks(stacks: list[Counted], asked: list[tuple[str, ...]]) -> tuple[Any, ...]:
    return tuple(id(getattr(stack, name)) for stack, names in zip(stacks, asked, strict=True) for name in names)


def _sum(stacks: list[Counted], count: int, shared: dict[str, int]) -> Counts:
    together = dict(shared)
    for stack in stacks:
        count += stack.count
        together |= stack.shared
    each = [int(stack.count + sum(stack.shared.values())) for stack in stacks]
    return Counts(count + sum(together.values()), each[0], each[1])


@contextmanager
def _counting() -> Iterator[None]:
    """Within it, registries give makers in place of classes."""
    get = Registry.get
    with (
        patch.object(Registry, "get", lambda registry, name: _Maker((registry.kind, name), get(registry, name))),
        patch.object(nn.Linear, "reset_parameters", lambda _: None),
        patch.object(nn.LayerNorm, "reset_parameters", lambda _: None),
    ):
        yield


class _Maker:
    """Calls a class, or finds what an equal call made. Class attributes are there as on the class."""

    def __init__(self, name: tuple[str, ...], cls: Callable[..., nn.Module], fields: tuple[Place, ...] = ()) -> None:
        self.name, self.cls, self.fields = name, cls, fields

    def __getattr__(self, name: str) -> Any:
        return getattr(self.cls, name)

    def _plain(self, site: Site, looked: dict[Place, None], shared: dict[str, nn.Module]) -> Site:
        """A site of which the configuration alone is watched: quicker for a stack, which makes a copy for each layer."""
        own = {place[0]: getattr(site, place[0]) for place in self.fields}
        return Site(**own, config=watch(WatchedConfig, site.config, ("config",), looked, shared), shared=shared)

    def table(self, arguments: tuple[Any, ...], options: dict[str, Any]) -> _Table:
        key = (*self.name, frozen(arguments) if arguments else (), frozen(options) if options else ())
        found = _parts.get(key)
        if found is None:
            found = _parts[key] = _Table()
        return found

    def __call__(self, site: Site, *arguments: Any, **options: Any) -> Counted:
        table = self.table(arguments, options)
        config, watchers = unwatched(site.config)
        flat = _flat(config)
        value_at = functools.partial(_at, site, flat)
        for places, known in table.entries.items():
            found: Counted | None = known.get(tuple(map(value_at, places)))
            if found is not None:
                for looked, below in watchers:
                    looked.update(dict.fromkeys((*below, *place[1:]) for place in places if place[0] == "config"))
                return found
        looked = dict.fromkeys(self.fields)
        shared: dict[str, nn.Module] = {}
        watched = self._plain(site, looked, shared) if self.fields else watch(WatchedSite, site, (), looked, shared)
        made = self.cls(watched, *arguments, **options)
        try:
            counted = Counted(*_tally(made, shared), made)
        except NoInitialValueError as error:
            raise NoInitialValueError(f"{' '.join(self.name)}: {error}") from error
        table.keep(site, looked, counted)
        return counted


class _Shapes(TorchFunctionMode):
    """Tensors are made on the meta device, and drawing numbers for them does nothing (nor loads what torch would need for it)."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in _FACTORIES:
            return func(*args, **(kwargs | {"device": "meta"}))
        if getattr(func, "__name__", "") in _FILLS:
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)


def _at(site: Site, flat: Mapping[Place, Any], place: Place) -> Any:
    """The value at a place of a site, whose configuration is `flat`."""
    return flat[place[1:]] if place[0] == "config" else frozen(getattr(site, place[0]))


def _flat(config: ModelConfig) -> dict[Place, Any]:
    """Every place of a configuration and the value there; kept for the last one asked for."""
    if _last and _last[0][0] is config:
        return _last[0][1]
    names = NAMES[ModelConfig] - {"encoder", "decoder"}
    found: dict[Place, Any] = {(name,): frozen(getattr(config, name)) for name in names}
    for side in ("encoder", "decoder"):
        section = getattr(config, side)
        found |= {(side, name): frozen(getattr(section, name)) for name in NAMES[StackConfig]}
    _last[:] = [(config, found)]
    return found


def _tally(module: nn.Module, shared: Mapping[str, nn.Module]) -> tuple[int, dict[str, int]]:
    """Trainable numbers of a module's own, each once, and of what it shares with others, by name."""
    names: dict[str, int] = {}
    seen: set[int] = set()
    for name, each in shared.items():
        names[name] = _own(each, seen, names)
    return _own(module, seen, names), names


def _own(module: nn.Module, seen: set[int], names: dict[str, int]) -> int:
    """A `Counted` counts wherever it stands, for it stands for several modules."""
    if isinstance(module, Counted):
        names.update(module.shared)
        return int(module.count)
    if isinstance(module, _Stack) or id(module) in seen:
        return 0
    seen.add(id(module))
    total = 0
    for name, parameter in module._parameters.items():
        if parameter is not None and id(parameter) not in seen:
            seen.add(id(parameter))
            require(module, name, name)
            total += parameter.numel() if parameter.requires_grad else 0
    return total + sum(_own(child, seen, names) for child in module._modules.values() if child is not None)
