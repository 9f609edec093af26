"""Who is asked to end, by a signal or by a file."""

import os
import signal

import pytest

from orchestrator import interrupt


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_is_remembered_the_second_ends_at_once(number):
    before = signal.getsignal(number)
    with interrupt.listening():
        assert not interrupt.requested()
        os.kill(os.getpid(), number)
        assert interrupt.requested()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), number)
    assert not interrupt.requested() and signal.getsignal(number) is before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_driver_passes_it_on_to_who_watches_its_file(number, tmp_path):
    (tmp_path / "sweeps").mkdir()
    mine, other = (interrupt.stop_file(tmp_path, name) for name in ("mine", "other"))
    mine.touch()  # of a driver that was killed
    before = signal.getsignal(number)
    try:
        with interrupt.passing_on(mine):
            interrupt.watch(mine)
            assert not interrupt.requested()
            os.kill(os.getpid(), number)
            assert interrupt.requested() and mine.exists()
            interrupt.watch(other)
            assert not interrupt.requested(), "a worker that goes on to another sweep"
            with pytest.raises(KeyboardInterrupt):
                os.kill(os.getpid(), number)
        assert not mine.exists() and signal.getsignal(number) is before
    finally:
        interrupt._watched.clear()
