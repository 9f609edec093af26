"""What a driver on a cluster watches for, without a cluster: room on the nodes, a head that answers, folders that are shared."""

from collections.abc import Callable

import pytest

pytest.importorskip("ray")
from orchestrator.engines.ray.schedulers import Room
from orchestrator.engines.ray.shared_folders import problems
from orchestrator.engines.ray.train import interface_of
from orchestrator.engines.resources import Capacity, Demand, Node


def capacities(*cpus: tuple[float, ...]) -> Callable[[], Capacity]:
    """Of nodes with so many CPUs, one after the other."""
    return iter([Capacity(tuple(map(Node, each))) for each in cpus]).__next__


def test_trials_end_where_there_is_no_room_for_long_enough_and_not_before(capsys):
    room = Room(Demand(2, 1.0), 0.0, capacities((1, 1), (1,), (1,)))
    assert [room.stop_all() for _ in range(4)] == [False, False, True, True]
    assert room.reason == "nodes were lost: needs 2 x 1 CPU; the nodes that are left have 1 CPU; waited 0 s"
    assert "waiting at most" in capsys.readouterr().err and room("trial", {}) is False


def test_room_that_comes_back_ends_the_waiting(capsys):
    room = Room(Demand(1, 2.0), 0.0, capacities((1,), (2,), (1,), (2,)))
    assert not any(room.stop_all() for _ in range(4))
    assert capsys.readouterr().err.count("there is room again") == 2


def test_a_shared_folder_shows_what_the_driver_wrote(tmp_path):
    probe, elsewhere = tmp_path / "a" / ".probe-1", tmp_path / "b" / ".probe-1"
    for path in (probe, elsewhere):
        path.parent.mkdir()
    probe.touch()
    assert problems([str(probe)], [str(tmp_path)], 0.0) == []
    (line,) = problems([str(elsewhere)], [], 0.0)
    assert line.startswith(f"{elsewhere.parent}: does not see what the driver writes there")
    (line,) = problems([], [str(tmp_path / "data")], 0.0)
    assert line.startswith(f"{tmp_path / 'data'}: no such folder here")


def test_the_interface_of_an_address():
    assert interface_of("127.0.0.1") == "lo"
    assert interface_of("203.0.113.77") is None
