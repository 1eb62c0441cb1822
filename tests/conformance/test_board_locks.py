"""The board's own lock: who may be ended, what happens to a lock whose file goes away, who is one's own ghost."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from qverify_agents.binaries import host_architecture, runtime_path
from qverify_agents.process_stream import ProcessStream
from qverify_agents.protocol.client import Agent

HOLDS = "import fcntl, sys, time; f = open(sys.argv[1]); fcntl.flock(f, fcntl.LOCK_EX); print(1, flush=True); time.sleep(60)"


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    return tmp_path / "lock"


def opened(lock: Path, owner: str) -> Agent:
    words = [str(runtime_path(host_architecture())), "agent", f"--lock={lock}"]
    return Agent(ProcessStream(words, {}), frozenset(), 10.0, owner=owner)


def broken(lock: Path) -> tuple[int, str]:
    words = [str(runtime_path(host_architecture())), "lock", "break", f"--path={lock}"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=20)
    return done.returncode, done.stdout + done.stderr


def name(lock: Path, process: int) -> None:
    """As anybody on the board can write it: a holder that was silent since the board came up."""
    lock.write_text(f'{{"owner": "x", "pid": {process}, "since_uptime_s": 0, "heard_uptime_s": 0, "running": 0}}\n')


@pytest.fixture
def victim() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def test_break_ends_no_process_that_does_not_hold_the_lock(lock: Path, victim: subprocess.Popen[bytes]) -> None:
    name(lock, victim.pid)
    with lock.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        status, said = broken(lock)
    assert status == 3 and f"process {victim.pid}, which {lock} names, does not hold the lock" in said
    assert victim.poll() is None


def test_break_ends_no_process_that_is_no_qvrt(lock: Path) -> None:
    lock.touch()
    with subprocess.Popen([sys.executable, "-c", HOLDS, str(lock)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == b"1\n"
        name(lock, holder.pid)
        status, said = broken(lock)
        assert status == 3 and "is no qvrt" in said and holder.poll() is None
        holder.kill()


def test_break_ends_a_silent_agent(lock: Path) -> None:
    with opened(lock, "a@host") as agent:
        process = json.loads(lock.read_text())["pid"]
        assert broken(lock)[0] == 3 and agent.ping() is None  # it was heard just now
        name(lock, process)
        status, said = broken(lock)
        assert status == 0 and '"state": "broken"' in said
        end = time.monotonic() + 5
        while os.path.exists(f"/proc/{process}/exe") and time.monotonic() < end:
            time.sleep(0.05)
        assert '"state": "free"' in broken(lock)[1]
