"""The network interface over which the workers of one run on several machines communicate."""

from __future__ import annotations

import contextlib
import os
import socket
from typing import Any

import ray
from ray.train.torch import TorchConfig


def interface_of(address: str) -> str | None:
    """This machine's network interface with the IP `address`; None if there is none."""
    import psutil  # type: ignore[import-untyped]  # Ray bundles it: importable once Ray is

    for name, entries in psutil.net_if_addrs().items():
        if any(entry.family in (socket.AF_INET, socket.AF_INET6) and entry.address.partition("%")[0] == address for entry in entries):
            return str(name)
    return None


def use_node_interface() -> None:
    """Makes gloo use the interface that connects the Ray nodes, unless the node's environment sets one.

    By default gloo uses the address to which the host name resolves, 127.0.1.1 on Debian, where other machines cannot reach it.
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
            # Ray 2.60 does not release the resources of a group that fails here, and the next attempt would wait for them for ever
            with contextlib.suppress(Exception):
                worker_group.get_worker_group_state().shutdown()
            raise


class NodeTorchConfig(TorchConfig):
    """Configures Ray Train's process group to use the interface that connects the nodes."""

    @property
    def backend_cls(self) -> type[Any]:
        return _Backend
