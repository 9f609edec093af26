"""Models of Shen et al. 2018 as plain data."""

from __future__ import annotations

from typing import Any

OWN: dict[str, Any] = {
    "norm": "post",
    "positions": "learned",
    "embedding_scale": False,
    "weight_norm": True,
    "init": "convs2s",
    "output_bias": True,
}


def dense(layers: int, widths: Any, sumlen: int, *, kernels: Any = 3, summary: str = "linear") -> dict[str, Any]:
    return {
        "num_layers": layers,
        "layer": {"kind": "convolution", "widths": widths, "kernels": kernels, "residual": False},
        "connection": {"kind": "concatenated", "sumlen": sumlen, "summary": summary},
    }


def residual(layers: int, widths: Any, *, kernels: Any = 3) -> dict[str, Any]:
    layer = {"kind": "convolution", "widths": widths, "kernels": kernels}
    return {"num_layers": layers, "layer": layer, "connection": {"kind": "projected"}}


def model(encoder: dict[str, Any], decoder: dict[str, Any], bridge: str, **more: Any) -> dict[str, Any]:
    side = decoder | {"cross_attention": {"kind": "multistep"}}
    return OWN | {"d_model": 256, "encoder": encoder, "decoder": side, "bridge": {"kind": bridge}} | more


def both(side: dict[str, Any], bridge: str, **more: Any) -> dict[str, Any]:
    return model(side, side, bridge, **more)


TABLE1 = {
    "base-4l": both(residual(4, 256), "multistep"),
    "densenmt-4l-1": both(dense(4, 128, 0), "dense_attention_1"),
    "densenmt-4l-2": both(dense(4, 128, 0), "dense_attention_2"),
    "base-8l": both(residual(8, 192), "multistep"),
    "densenmt-8l-1": both(dense(8, 96, 5), "dense_attention_1"),
    "densenmt-8l-2": both(dense(8, 96, 5), "dense_attention_2"),
}
