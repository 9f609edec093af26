"""Estimates the memory of a training before it starts, so that several can share a machine or a GPU.

    process + max(weights + moments + activations + loss,            gradients replace activations in the backward pass
                  weights + moments + gradients + snapshot)          after the update, while a snapshot is written

Never exact, and on a CPU an upper bound for what surrounds the tensors (PROCESS): allocators retain more than is used, and variants hold
more or fewer states than a plain layer. The constants were fitted to peaks of plain transformers on a CPU (fp32);
`tests/unit/sweeps/test_memory.py` compares the formula with such peaks. It was not validated on a GPU.
"""

from orchestrator.specs.schema import RunSpec

MOMENTS = {"adam": 2, "nag": 1, "muon": 2}
"""fp32 numbers that the optimiser keeps for each parameter, at most; a moving average of the weights is one more."""

STATES_D, STATES_FF = {"encoder": 14, "decoder": 24}, 3
"""Vectors of width d_model and of width d_ff that a layer stores for its backward pass, per token. They cover the attention weights of
sentences of up to SENTENCE tokens; longer ones store more."""

SENTENCE = 50
"""Assumed tokens per sentence if the batch size is in sentences, and the data is not truncated at more."""

PROCESS = {"cpu": 1000 * 10**6, "cuda": 600 * 10**6}
"""CPU: an upper bound for Python, torch and Ray (0.4 GB) and what oneDNN and malloc retain for the matrix products whose code is kept
(`orchestrator.cpu.PRODUCTS`). Peaks less the estimate of the tensors: 0.30 to 0.36 GB of rows under the profile smoke, 0.39 to 0.66 GB of
rows under mini-short, whose d_model is 128; half as much again is the margin. Wide models were not measured.
GPU: memory of the context and libraries (assumed, not measured)."""

LOGITS = {"cpu": 512, "cuda": 8192}
"""Positions whose logits exist at the same time (`models.loss`)."""


def estimate(spec: RunSpec, params: int, tgt_vocab: int, *, workers: int = 1, device: str = "cpu") -> int:
    """Estimated bytes of one of `workers` workers of a training with `params` parameters."""
    batch, model = spec.batch, spec.model
    cut = (spec.data.truncate and spec.data.truncate.src) or 0
    length = max(cut, min(SENTENCE, spec.data.max_length or SENTENCE))
    tokens = -(-(batch.size if batch.unit == "tokens" else batch.size * length) // workers)
    attention = 2 * model.num_heads * max(0, length - SENTENCE)  # the weights before and after dropout
    layers = {side: getattr(model, side).num_layers for side in STATES_D}
    stored = sum(layers[side] * (STATES_D[side] * model.d_model + STATES_FF * model.d_ff) for side in layers)
    stored += layers["encoder"] * attention
    if spec.train.recompute == "layers":  # stores the inputs of all layers, and all states of one layer
        stored = sum(layers.values()) * model.d_model + max(STATES_D.values()) * model.d_model + STATES_FF * model.d_ff + attention
    width = 3 if spec.train.precision == "bf16" else 4  # norms and residual sums stay fp32, and weights are cast
    weights = 4 * params  # gradients and a snapshot are as large
    moments = weights * (MOMENTS[spec.optim.kind] + (spec.optim.ema is not None))
    loss = 3 * 4 * min(tokens, LOGITS[device]) * tgt_vocab
    return PROCESS[device] + weights + moments + max(tokens * stored * width + loss, 2 * weights)


def gigabytes(size: float) -> str:
    return f"{size / 10**9:.1f} GB"
