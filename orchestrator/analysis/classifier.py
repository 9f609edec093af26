"""The classifier of the probing tasks, trained with the protocol of SentEval (classifier.py and validation.py in senteval/tools).

Adam (rate 0.001) on batches of 64. The accuracy on va is computed every 4 epochs. Training ends after the sixth evaluation without
improvement, or after 200 epochs, and the best state is used. Hidden units and dropout (as in Conneau et al. 2018), then the weight decay
(as in the toolkit) are chosen on va. scikit-learn's MLPClassifier has no dropout, no gate and no fixed validation set.

Shapes: N sentences, D and R the widths of their two vectors (R is 0 for a single encoder), C classes.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

BATCH, EPOCHS_A_ROUND, MAX_EPOCHS, PATIENCE = 64, 4, 200, 5
Examples = tuple[Tensor, Tensor]
"""One split: sentence vectors [N, D + R] and class indices [N]."""


class Probe(nn.Module):
    """The classifier: linear for `nhid` 0, else with one hidden sigmoid layer and dropout before the sigmoid, as in the toolkit.

    A gate combines two vectors: s = g * m_e + (1 - g) * P m_r, g = sigmoid(W [m_e; m_r]). Hao et al. only say that there is a gate.
    """

    def __init__(self, width: int, extra: int, classes: int, nhid: int, dropout: float) -> None:
        super().__init__()
        self.widths = (width, extra)
        if extra:
            self.gate = nn.Linear(width + extra, width, bias=False)
            self.project = nn.Linear(extra, width, bias=False)
        self.head: nn.Module = nn.Linear(width, classes)
        if nhid:
            self.head = nn.Sequential(nn.Linear(width, nhid), nn.Dropout(dropout), nn.Sigmoid(), nn.Linear(nhid, classes))

    def forward(self, vectors: Tensor) -> Tensor:
        """[N, D + R] -> logits [N, C]"""
        m_e, m_r = vectors.split(self.widths, dim=-1)
        if self.widths[1]:
            g = torch.sigmoid(self.gate(vectors))
            m_e = g * m_e + (1 - g) * self.project(m_r)
        return self.head(m_e)


@dataclass(frozen=True)
class ClassifierSetting:
    """Hyperparameters. nhid: hidden units, 0 for a linear classifier. l2: weight decay of Adam."""

    nhid: int
    dropout: float
    l2: float


@dataclass(frozen=True)
class Fitted:
    """A trained probe. valid: accuracy on va, in [0, 1]."""

    probe: Probe
    setting: ClassifierSetting
    valid: float
    epochs: int


def search(fit: Callable[[ClassifierSetting], Fitted], nhid: Sequence[int], dropout: Sequence[float], l2: Sequence[float]) -> Fitted:
    """Returns the best probe on va: first over units and dropout (none if linear) at the first decay, then over the other decays.

    The earlier setting wins ties.
    """
    first = [ClassifierSetting(units, rate, l2[0]) for units in nhid for rate in (dropout if units else [0.0])]
    best = max(map(fit, first), key=lambda fitted: fitted.valid)
    others = (fit(replace(best.setting, l2=rate)) for rate in l2[1:])
    return max([best, *others], key=lambda fitted: fitted.valid)


def fit(train: Examples, valid: Examples, width: int, classes: int, setting: ClassifierSetting, seed: int) -> Fitted:
    """Trains one probe. Only `seed` determines its randomness; the global generators are restored. width: D."""
    vectors, labels = train
    device = labels.device
    order = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        probe = Probe(width, vectors.shape[1] - width, classes, setting.nhid, setting.dropout).to(device)
        optimizer = torch.optim.Adam(probe.parameters(), weight_decay=setting.l2, fused=True)
        best, best_state, epochs, failures = -1.0, probe.state_dict(), 0, 0
        while epochs <= MAX_EPOCHS and failures <= PATIENCE:
            probe.train()
            for _ in range(EPOCHS_A_ROUND):
                rows = torch.randperm(len(labels), generator=order).to(device)
                for x, y in zip(vectors[rows].split(BATCH), labels[rows].split(BATCH), strict=True):
                    optimizer.zero_grad(set_to_none=True)
                    F.cross_entropy(probe(x), y).backward()
                    optimizer.step()
            epochs += EPOCHS_A_ROUND
            if (accuracy := share(probe, valid)) > best:
                best, best_state = accuracy, copy.deepcopy(probe.state_dict())
            else:
                failures += 1
    probe.load_state_dict(best_state)
    return Fitted(probe, setting, best, epochs)


@torch.no_grad()
def share(probe: Probe, data: Examples) -> float:
    """Returns the accuracy in [0, 1]."""
    vectors, labels = data
    predicted = torch.cat([probe.eval()(part).argmax(-1) for part in vectors.split(4096)])
    return (predicted == labels).double().mean().item()
