"""How the workers of one row find each other where they sit on several machines."""

from __future__ import annotations

import contextlib
import os
import socket
from typing import Any

import ray
from ray.train.torch import TorchConfig


def interface_of(address: str) -> str | None:
    """The network interface that has the IP `address` on this machine; None where none has it."""
    import psutil  # type: ignore[import-untyped]  # Ray brings it, once it is imported

    for name, found in psutil.net_if_addrs().items():
        if any(entry.family in (socket.AF_INET, socket.AF_INET6) and entry.address.partition("%")[0] == address for entry in found):
            return str(name)
    return None


def use_node_interface() -> None:
    """gloo talks through the interface that joins the Ray nodes, unless the node's environment names one.

    Left to itself it takes the address that the machine's own name resolves to: 127.0.1.1 on a Debian, and then no worker reaches another.
    """
    name = interface_of(ray.util.get_node_ip_address())
    if name is not None:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", name)


class _Backend(TorchConfig().backend_cls):  # type: ignore[misc]
    def on_start(self, worker_group: Any, backend_config: Any) -> None:
        try:
            worker_group.execute(use_node_interface)
            super().on_start(worker_group, backend_config)
        except BaseException:
            # Ray 2.60 forgets a group that fails here without giving its resources back: the next attempt would wait for them for ever
            with contextlib.suppress(Exception):
                worker_group.get_worker_group_state().shutdown()
            raise


class TorchOnNodes(TorchConfig):
    """Ray Train's process group, between the nodes' own addresses."""

    @property
    def backend_cls(self) -> type[Any]:
        return _Backend
