"""Fast forms of the same arithmetic, which tests and benchmarks take out to compare."""

from dataclasses import dataclass


@dataclass
class Paths:
    """True: on.

    packing: padding leaves the batch in training (models.packing). dropout: cheap exact masks (models.dropout). attention: two batched
    products in place of torch's fused kernel on a CPU. joint_maps: queries, keys and values in one product. chunked_loss: no full logits
    (models.loss). fused_optimizer: its update in one kernel. matmul: fp32
    products by oneDNN where it is faster and still fp32. bf16: bf16 products in fp32 on CPUs without instructions for them
    (models.precision). native: decoding's small steps in C where there is a compiler (models.native). layouts: no padding in training in
    bf16 on a GPU (models.layout). graphs: its updates are captured and replayed.
    """

    packing: bool = True
    dropout: bool = True
    attention: bool = True
    joint_maps: bool = True
    chunked_loss: bool = True
    fused_optimizer: bool = True
    matmul: bool = True
    bf16: bool = True
    native: bool = True
    layouts: bool = True
    graphs: bool = True


PATHS = Paths()
"""Of this process."""
