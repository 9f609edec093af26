"""Parameter counts of many models, constructing each distinct part only once. Needs no data and allocates no weights.

Components and stacks are constructed through `models.registry.construct`. While counting, it returns the module already constructed from
the same class, arguments and values of the site fields that the constructor reads, which are recorded while it runs. A model therefore
holds one module in several places, and each place adds to its count.
"""

import dataclasses
import functools
import operator
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from models.config import ModelConfig, StackConfig
from models.initialise import NoInitialValueError, require
from models.registry import REGULARIZERS, constructor
from models.site import Site
from models.transformer import Transformer
from orchestrator.errors import UserError, raise_all
from orchestrator.specs.schema import ModelSpec, RunSpec

_FACTORIES = frozenset({torch.empty, torch.rand, torch.randn})
_FILLS = frozenset({"fill_", "zero_", "uniform_", "normal_", "trunc_normal_", "kaiming_uniform_", "xavier_uniform_"})


class Counts(NamedTuple):
    """Numbers of trainable parameters: of the whole model, its two stacks, their layers, and the extra encoder."""

    whole: int
    encoder: int
    decoder: int
    encoder_layers: int
    decoder_layers: int
    extra: int


_ANY_SIZE = 8
"""Placeholder for an unknown vocabulary size, which does not affect initial values."""


def params(spec: RunSpec, src_vocab: int, tgt_vocab: int) -> int:
    """Returns the number of distinct trainable parameters of the row's model. Raises UserError as `count` does."""
    return count(spec.model, src_vocab, tgt_vocab).whole


def declared(spec: RunSpec) -> tuple[int, int] | None:
    """Returns the source and target vocabulary sizes if the spec declares both, else None."""
    vocab = spec.data.vocab
    return None if vocab.src is None or vocab.tgt is None else (vocab.src, vocab.tgt)


def check_initial(specs: Iterable[tuple[str, RunSpec]]) -> None:
    """Raises UserError with one line per parameter without a declared initial value, naming the first row with it. specs: (row, spec)."""
    found: dict[str, str] = {}
    for row, spec in specs:
        try:
            params(spec, *(declared(spec) or (_ANY_SIZE, _ANY_SIZE)))
        except UserError as error:
            found.setdefault(str(error), row)
    raise_all(f"{row}: {line}" for line, row in found.items())


def count(model: ModelSpec, src_vocab: int, tgt_vocab: int) -> Counts:
    """Counts the distinct trainable parameters of a model; `whole` equals `models.count_parameters`.

    Regularizers are counted apart, as many rows differ in them alone. UserError for a parameter without a declared initial value.
    """
    key = (model.model_dump_json(exclude={"regularizers"}), src_vocab, tgt_vocab)
    token = constructor.set(_PARTS.construct)
    try:
        with _Shapes():
            if key not in _models:
                transformer = Transformer(ModelConfig.of(model.model_dump(exclude={"regularizers"})), src_vocab, tgt_vocab)
                stacks = transformer.encoder, transformer.decoder
                modules = (transformer, *stacks, *(stack.layers for stack in stacks), transformer.extra_encoder or nn.Module())
                _models[key] = transformer.config, [_PARTS.count(module) for module in modules]
            config, (bare, *others) = _models[key]
            site = Site("encoder", 0, config.encoder.num_layers, config)  # as in Transformer
            more = _PARTS.count(nn.ModuleList(REGULARIZERS.create(each, site) for each in model.regularizers))
            return Counts(_Count(bare.own + more.own, bare.shared | more.shared).total, *(each.total for each in others))
    except NoInitialValueError as error:
        raise UserError(str(error)) from error
    finally:
        constructor.reset(token)


class _Count(NamedTuple):
    """Trainable parameters of a part. own: of the part itself; shared: by name, of modules shared with other parts of the model."""

    own: int
    shared: dict[str, int]

    @property
    def total(self) -> int:
        return self.own + sum(self.shared.values())


class _Parts:
    """Constructed parts and their counts.

    _modules: class and arguments -> site fields that the constructor read -> their values -> module.
    """

    def __init__(self) -> None:
        self._modules: dict[Any, dict[tuple[str, ...], dict[str, nn.Module]]] = {}
        self._counts: dict[int, _Count] = {}

    def construct(self, cls: Any, site: Site, *arguments: Any, **options: Any) -> nn.Module:
        key = tuple(each if isinstance(each, nn.Module) else repr(each) for each in arguments)  # modules by identity
        known = self._modules.setdefault((cls, key, repr(options)), {})
        for fields in reversed(known):  # the latest first: layers of one stack are alike
            if (module := known[fields].get(repr(_getter(*fields)(site)))) is not None:
                known[fields] = known.pop(fields)
                return module
        reads = {"side": None}  # attrgetter needs at least one field
        shared: dict[str, nn.Module] = {}
        made: nn.Module = cls(_recording(site.at(shared=shared), reads), *arguments, **options)
        try:
            self._counts[id(made)] = self.count(made, shared)
        except NoInitialValueError as error:
            raise NoInitialValueError(f"{cls.registry} {cls.kind}: {error}") from error
        fields = tuple(sorted(reads))
        known.setdefault(fields, {})[repr(_getter(*fields)(site))] = made
        return made

    def count(self, module: nn.Module, shared: Mapping[str, nn.Module] | None = None) -> _Count:
        """Counts a part once per place where it occurs, and every other parameter once. shared: modules to count separately, by name."""
        seen: set[int] = set()
        with torch._C.DisableTorchFunction():
            names = {name: self._sum(each, seen, {}) for name, each in (shared or {}).items()}
            return _Count(self._sum(module, seen, names), names)

    def _sum(self, module: nn.Module, seen: set[int], shared: dict[str, int]) -> int:
        if (known := self._counts.get(id(module))) is not None:
            shared.update(known.shared)
            return known.own
        if id(module) in seen:
            return 0
        seen.add(id(module))
        total = 0
        for name, parameter in module._parameters.items():
            if parameter is not None and id(parameter) not in seen:
                seen.add(id(parameter))
                require(module, name, name)
                total += parameter.numel() if parameter.requires_grad else 0
        return total + sum(self._sum(child, seen, shared) for child in module._modules.values() if child is not None)


_PARTS = _Parts()
_models: dict[tuple[str, int, int], tuple[ModelConfig, list[_Count]]] = {}
"""Model without regularizers, and sizes of the vocabularies -> its configuration, and the counts of it and its parts."""


def _field(name: str) -> functools.cached_property[Any]:
    """A field of a recording. The first read is recorded, and the value stays in the instance, where later reads find it.

    A copy by `dataclasses.replace` reads all fields and records none; a copy by `Site.at` records what is read of it.
    """

    def read(recording: Any) -> Any:
        value, path = getattr(recording._target, name), recording._prefix + name
        if isinstance(value, (ModelConfig, StackConfig)):
            return _recording(value, recording._reads, f"{path}.")
        if name != "shared":
            recording._reads[path] = None
        return value

    return functools.cached_property(read)


def _recording(target: Any, reads: dict[str, None], prefix: str = "") -> Any:
    """Wraps `target` so that the dotted names of fields read (`config.encoder.num_layers`) are added to `reads`."""
    recording: Any = object.__new__(_recording_class(type(target)))  # type: ignore[arg-type]
    recording.__dict__.update(_target=target, _reads=reads, _prefix=prefix)
    return recording


@functools.cache
def _recording_class(cls: type) -> type:
    names = [each.name for each in dataclasses.fields(cls)]
    if isinstance(vars(cls).get(names[0]), functools.cached_property):
        return cls
    return type(cls.__name__, (cls,), {name: _field(name) for name in names})


_getter = functools.cache(operator.attrgetter)


class _Shapes(TorchFunctionMode):
    """Creates tensors without given values on the meta device. Skips random initialisation, and the imports that torch needs for it."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in _FACTORIES:
            return func(*args, **(kwargs | {"device": "meta"}))
        if getattr(func, "__name__", "") in _FILLS:
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)
