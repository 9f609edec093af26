"""Switches of fast implementations. Tests and benchmarks turn them off to compare results."""

from dataclasses import dataclass


@dataclass
class Paths:
    """Fast implementations; True: on.

    packing: training on a CPU removes padding (models.packing). dropout: cheap exact masks (models.dropout). attention: on a CPU, two
    batched products instead of torch's fused kernel. joint_maps: queries, keys and values in one product. fused_optimizer: the optimiser's
    update in one kernel. matmul: fp32 products by oneDNN if it is faster and still fp32. bf16: bf16 products in fp32 on CPUs without bf16
    instructions (models.precision). native: small decoding steps in C with a compiler (models.native). layouts: no padding in bf16 training
    on a GPU (models.layout). graphs: this training captures and replays updates.
    """

    packing: bool = True
    dropout: bool = True
    attention: bool = True
    joint_maps: bool = True
    fused_optimizer: bool = True
    matmul: bool = True
    bf16: bool = True
    native: bool = True
    layouts: bool = True
    graphs: bool = True


PATHS = Paths()
"""Switches of this process."""
