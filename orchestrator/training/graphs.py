"""CUDA graphs for updates: kernels of both passes are captured once per batch shape and replayed, since most launches outlast a kernel."""

import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from models.layout import Shape
from models.paths import PATHS
from models.transformer import Transformer
from orchestrator.data.batching import Batch
from orchestrator.specs.schema import TrainSpec
from orchestrator.training.batches import PINNING, captured, packed, rounded
from orchestrator.training.objective import Normalizer
from orchestrator.training.runtime import Runtime

MOST = 16
"""Maximum number of captured shapes. A shape is captured at its second batch. Batches of other shapes run kernel by kernel."""

Run = Callable[[Batch, Normalizer], dict[str, Tensor]]


def form_on(runtime: Runtime, model: Transformer, train: TrainSpec) -> Callable[[Batch], Batch] | None:
    """Returns the form of batches on a GPU; None: a CPU. `packed`: for bf16, if the model attends to packed rows. `captured`: if also no
    part of the model waits for the device within a pass. Otherwise `rounded`, within the learned positions."""
    if runtime.device.type != "cuda":
        return None
    packs = all(model.packable.values()) and model.max_positions is None and not model.bridge.by_sentence
    if train.precision != "bf16" or not PATHS.layouts or not packs:
        return partial(rounded, most=model.max_positions or sys.maxsize)
    waits = model.extra_encoder is not None or train.recompute != "none" or runtime.world_size > 1
    return packed if waits or not PATHS.graphs else captured


def both_passes(objective: nn.Module, device: torch.device, *, bf16: bool) -> Run:
    """Returns a function that runs forward and backward pass of a batch, adds to the gradients and returns sums for the log."""

    def run(batch: Batch, normalizer: Normalizer) -> dict[str, Tensor]:
        log: dict[str, Tensor]
        with torch.autocast(device.type, torch.bfloat16, enabled=bf16):
            loss, log = objective(batch.src, batch.tgt_in, batch.tgt_out, normalizer, batch.layouts)
            loss.backward()
        return log

    return run


class Graphs:
    """Calls `run` for a batch, or replays a graph if its shape was captured. Both add to the gradients and return sums for the log."""

    def __init__(self, run: Run, parameters: Iterable[nn.Parameter], device: torch.device) -> None:
        self.run, self.parameters, self.device = run, list(parameters), device
        self.pool = torch.cuda.graph_pool_handle() if device.type == "cuda" else None  # replays never overlap, so all graphs share memory
        self.met: Counter[Shape] = Counter()
        self.graphs: dict[Shape, _Graph] = {}
        self.capturable = True

    def __call__(self, batch: Batch, normalizer: Normalizer, *, alone: bool = True) -> dict[str, Tensor]:
        """batch: in pinned host memory. alone: the only batch of its update, so its gradients may stay in the graph's memory."""
        shape = batch.shape
        if shape is not None and shape not in self.graphs and self.capturable:
            self.met[shape] += 1
            if self.met[shape] > 1 and len(self.graphs) < MOST:
                self._capture(shape, batch, normalizer)
        if shape not in self.graphs:
            return self.run(batch.map(lambda t: t.to(self.device, non_blocking=True)), normalizer)
        return self._replay(self.graphs[shape], batch, normalizer, alone=alone)

    def forget(self) -> None:
        """Deletes all graphs and counts, when other batch shapes follow."""
        self.met.clear()
        self.graphs.clear()

    def _capture(self, shape: Shape, batch: Batch, normalizer: Normalizer) -> None:
        """Captures a graph for the shape. If the model waits for the device within a pass, it warns, and kernels run one by one."""
        stream, generator = torch.cuda.current_stream(), torch.cuda.default_generators[torch.cuda.current_device()]
        before = [parameter.grad for parameter in self.parameters]
        for parameter in self.parameters:
            parameter.grad = None
        graph, ours, tokens = torch.cuda.CUDAGraph(), batch.map(lambda t: t.to(self.device)), torch.ones(2, device=self.device)
        try:
            with PINNING, torch.cuda.graph(graph, pool=self.pool, capture_error_mode="thread_local"):
                log = self.run(ours, Normalizer(tokens[0], tokens[1], normalizer.scale))
            self.graphs[shape] = _Graph(graph, ours, tokens, log, [parameter.grad for parameter in self.parameters])
        except RuntimeError as error:
            self.capturable = False
            # torch restores neither stream nor generator after a failed capture; earlier graphs would not see the new generator's seeds
            torch.cuda.set_stream(stream)
            generator.graphsafe_set_state(generator.clone_state())
            self.graphs.clear()
            warnings.warn(f"not captured, which is slower: {_cause(error)}", stacklevel=2)
        for parameter, grad in zip(self.parameters, before, strict=True):
            parameter.grad = grad

    def _replay(self, graph: "_Graph", batch: Batch, normalizer: Normalizer, *, alone: bool) -> dict[str, Tensor]:
        for ours, given in zip(graph.batch.tensors(), batch.tensors(), strict=True):
            ours.copy_(given, non_blocking=True)
        graph.tokens[0], graph.tokens[1] = normalizer.src_tokens, normalizer.tgt_tokens
        graph.graph.replay()
        for parameter, grad in zip(self.parameters, graph.gradients, strict=True):
            if grad is not None and parameter.grad is not grad:  # else the replay has overwritten the kept gradient
                grad = grad if alone else grad.clone()
                parameter.grad = grad if parameter.grad is None else parameter.grad.add_(grad)
        return {name: value.clone() for name, value in graph.log.items()}


def _cause(error: BaseException) -> str:
    """Returns the first error and its place. The end of the capture also fails, but only as a consequence."""
    while error.__context__ is not None:
        error = error.__context__
    where = traceback.extract_tb(error.__traceback__)[-1]
    return f"{str(error).splitlines()[0]} ({where.filename}, line {where.lineno})"


class _Graph(NamedTuple):
    """A captured graph and its memory. Inputs: batch and tokens (its normalizer). Outputs: log and gradients."""

    graph: torch.cuda.CUDAGraph
    batch: Batch
    tokens: Tensor
    log: dict[str, Tensor]
    gradients: list[Tensor | None]
