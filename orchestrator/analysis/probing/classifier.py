"""The classifier of the probing tasks, trained with the protocol of SentEval (classifier.py and validation.py in senteval/tools).

Adam (rate 0.001) on batches of 64. The accuracy on va is computed every 4 epochs. Training ends after the sixth evaluation without
improvement, or after 200 epochs, and the best state is used. Hidden units and dropout (as in Conneau et al. 2018), then the weight decay
(as in the toolkit) are chosen on va.

Shapes: N sentences, D and R the widths of their two vectors, C classes.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from sklearn.metrics import accuracy_score
from torch import Tensor, nn
from torch.nn import functional as F

from orchestrator.analysis.probing.features import Features

BATCH, EPOCHS_A_ROUND, MAX_EPOCHS, PATIENCE = 64, 4, 200, 5


class Gate(nn.Module):
    """s = g * m_e + (1 - g) * P m_r,  g = sigmoid(W [m_e; m_r]). The paper only says that a gate combines the two vectors."""

    def __init__(self, width: int, extra: int) -> None:
        super().__init__()
        self.gate = nn.Linear(width + extra, width, bias=False)
        self.project = nn.Linear(extra, width, bias=False)

    def forward(self, m_e: Tensor, m_r: Tensor) -> Tensor:
        """[N, D], [N, R] -> [N, D]"""
        g = torch.sigmoid(self.gate(torch.cat([m_e, m_r], dim=-1)))
        return g * m_e + (1 - g) * self.project(m_r)


class Probe(nn.Module):
    """The classifier: linear for `nhid` 0, else with one hidden sigmoid layer and dropout before the sigmoid, as in the toolkit."""

    def __init__(self, width: int, extra: int | None, classes: int, nhid: int, dropout: float) -> None:
        super().__init__()
        self.gate = None if extra is None else Gate(width, extra)
        self.head: nn.Module = nn.Linear(width, classes)
        if nhid:
            self.head = nn.Sequential(nn.Linear(width, nhid), nn.Dropout(dropout), nn.Sigmoid(), nn.Linear(nhid, classes))

    def forward(self, features: Features) -> Tensor:
        """Returns logits [N, C]."""
        if self.gate is None:
            return self.head(features.encoder)
        assert features.extra is not None
        return self.head(self.gate(features.encoder, features.extra))


@dataclass(frozen=True)
class ClassifierSetting:
    """Hyperparameters. nhid: hidden units, 0 for a linear classifier. l2: weight decay of Adam."""

    nhid: int
    dropout: float
    l2: float


@dataclass(frozen=True)
class Examples:
    """One split: sentence vectors and class indices [N]."""

    features: Features
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class Fitted:
    """A trained probe. valid: accuracy on va, in [0, 1]."""

    probe: Probe
    setting: ClassifierSetting
    valid: float
    epochs: int


def settings(nhid: list[int], dropout: list[float], l2: list[float]) -> Iterator[ClassifierSetting]:
    """Yields the settings of the first stage: every number of units with every dropout rate (none if linear), at the first weight decay."""
    for units in nhid:
        for rate in dropout if units else [0.0]:
            yield ClassifierSetting(units, rate, l2[0])


def search(
    train: Examples,
    valid: Examples,
    classes: int,
    first: list[ClassifierSetting],
    l2: list[float],
    seed: int,
    on_fit: Callable[[], None] = lambda: None,
) -> Fitted:
    """Returns the best probe on `valid` among `first`, then among the best setting with each other weight decay; the earlier wins ties."""
    best = _best(train, valid, classes, first, seed, on_fit)
    decays = [replace(best.setting, l2=rate) for rate in l2[1:]]
    return max([best, *([_best(train, valid, classes, decays, seed, on_fit)] if decays else [])], key=lambda fitted: fitted.valid)


def _best(
    train: Examples, valid: Examples, classes: int, candidates: list[ClassifierSetting], seed: int, on_fit: Callable[[], None]
) -> Fitted:
    best: Fitted | None = None
    for setting in candidates:
        fitted = fit(train, valid, classes, setting, seed)
        best = fitted if best is None or fitted.valid > best.valid else best
        on_fit()
    assert best is not None, "there is nothing to choose from"
    return best


def fit(train: Examples, valid: Examples, classes: int, setting: ClassifierSetting, seed: int) -> Fitted:
    """Trains one probe. Only `seed` determines its randomness; the global generators are restored."""
    device = train.labels.device
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        return _fit(train, valid, classes, setting, seed)


def _fit(train: Examples, valid: Examples, classes: int, setting: ClassifierSetting, seed: int) -> Fitted:
    device, extra = train.labels.device, train.features.extra
    probe = Probe(train.features.encoder.shape[1], None if extra is None else extra.shape[1], classes, setting.nhid, setting.dropout)
    probe.to(device)
    optimizer = torch.optim.Adam(probe.parameters(), weight_decay=setting.l2, fused=True)
    order = torch.Generator().manual_seed(seed)
    best, best_state, epochs, failures = -1.0, probe.state_dict(), 0, 0
    while epochs <= MAX_EPOCHS and failures <= PATIENCE:
        probe.train()
        for _ in range(EPOCHS_A_ROUND):
            rows = torch.randperm(len(train), generator=order).to(device)
            shuffled, labels = train.features.at(rows), train.labels[rows]  # permuted once per epoch, so that batches are slices
            for start in range(0, len(rows), BATCH):
                batch = slice(start, start + BATCH)
                optimizer.zero_grad(set_to_none=True)
                F.cross_entropy(probe(shuffled.at(batch)), labels[batch]).backward()
                optimizer.step()
        epochs += EPOCHS_A_ROUND
        if (accuracy := share(probe, valid)) > best:
            best, best_state = accuracy, copy.deepcopy(probe.state_dict())
        else:
            failures += 1
    probe.load_state_dict(best_state)
    return Fitted(probe, setting, best, epochs)


def share(probe: Probe, data: Examples) -> float:
    """Returns the accuracy in [0, 1]."""
    return float(accuracy_score(data.labels.cpu().numpy(), predict(probe, data).cpu().numpy()))


@torch.no_grad()
def predict(probe: Probe, data: Examples) -> Tensor:
    """Returns predicted class indices [N]."""
    probe.eval()
    rows = torch.arange(len(data), device=data.labels.device)
    return torch.cat([probe(data.features.at(part)).argmax(-1) for part in rows.split(4096)])
