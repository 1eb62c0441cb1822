"""What ends waits for boards: a deadline, a limit over all of a thread's deadlines; and what frees a board at once."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest
from qverify_agents.address import Address
from qverify_agents.connect import connect
from qverify_agents.deadline import Deadline, ThreadTimeLimit, apply_time_limit
from qverify_agents.errors import BoardBusy, LinkTimeout
from qverify_agents.host_lock import HostLock


def test_a_limit_is_the_end_of_every_deadline() -> None:
    deadline = Deadline(60)
    with apply_time_limit(ThreadTimeLimit(20, "over")):
        assert 15 < deadline.left() <= 20 and Deadline(5).left() <= 5
        with apply_time_limit(ThreadTimeLimit(0, "over")), pytest.raises(LinkTimeout, match=r"^over$"):
            deadline.left()
    assert deadline.left() > 50


def test_a_limit_is_of_its_thread() -> None:
    seen: list[float] = []
    with apply_time_limit(ThreadTimeLimit(1, "over")):
        thread = threading.Thread(target=lambda: seen.append(Deadline(60).left()))
        thread.start()
        thread.join()
    assert seen[0] > 50


def test_the_deadlines_own_end_comes_first() -> None:
    with (
        apply_time_limit(ThreadTimeLimit(60, "over")),
        pytest.raises(LinkTimeout, match="no answer within 0 s; give --timeout"),
    ):
        Deadline(0).left()


def test_a_limit_that_is_stopped_ends_a_wait_for_a_board(monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent that never answers: the wait would take a minute."""
    monkeypatch.setattr("qverify_agents.process_stream.ProcessStream.patience_s", 0.1)
    limit, start = ThreadTimeLimit(60, "over"), time.monotonic()
    with apply_time_limit(limit), pytest.raises(LinkTimeout, match=r"^somebody wants it to end$"):
        threading.Timer(0.1, limit.stop, ("somebody wants it to end",)).start()
        connect("local?runtime=/usr/bin/yes", 60, {"address_space": str(1 << 30)})
    assert time.monotonic() - start < 30


def test_a_lock_is_free_at_once_though_another_process_just_started_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thread that starts a process copies every descriptor until the program runs."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    address = Address("farm", "board")
    lock = HostLock(address, "one", 0.0)
    with pytest.raises(BoardBusy, match="in use by one"):
        HostLock(address, "two", 0.0)
    copy = os.dup(lock._file)
    lock.close()
    HostLock(address, "two", 0.0).close()
    os.close(copy)
