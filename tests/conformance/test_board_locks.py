"""The board's own lock: who may be ended, what happens to a lock whose file goes away, who is one's own ghost."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from qverify_agents.binaries import host_architecture, runtime_path
from qverify_agents.errors import AgentError, BoardBusy
from qverify_agents.process_stream import ProcessStream
from qverify_agents.protocol import keep_alive
from qverify_agents.protocol.client import Agent
from tiny_model import model_bytes, prepared

HOLDS = "import fcntl, sys, time; f = open(sys.argv[1]); fcntl.flock(f, fcntl.LOCK_EX); print(1, flush=True); time.sleep(60)"


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    return tmp_path / "lock"


def opened(lock: Path, owner: str) -> Agent:
    words = [str(runtime_path(host_architecture())), "agent", f"--lock={lock}"]

    def link() -> ProcessStream:
        return ProcessStream(words, {})

    return Agent(link(), frozenset(), 10.0, owner=owner, reopen=link)


def put(agent: Agent, data: bytes) -> str:
    sha256 = hashlib.sha256(data).hexdigest()
    agent.put(sha256, data)
    return sha256


def broken(lock: Path) -> tuple[int, str]:
    words = [str(runtime_path(host_architecture())), "lock", "break", f"--path={lock}"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=20)
    return done.returncode, done.stdout + done.stderr


def name(lock: Path, process: int) -> None:
    """Writes a lock that anybody on the board could write: its holder was silent since the board came up."""
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
        process = facts(lock)["pid"]
        assert broken(lock)[0] == 3 and agent.ping() is None  # it was heard just now
        name(lock, process)
        status, said = broken(lock)
        assert status == 0 and '"state": "broken"' in said
        end = time.monotonic() + 5
        while os.path.exists(f"/proc/{process}/exe") and time.monotonic() < end:
            time.sleep(0.05)
        assert '"state": "free"' in broken(lock)[1]


def test_break_finds_the_holder_of_a_lock_on_an_overlay(tmp_path: Path) -> None:
    """Whose files have another device than /proc/locks says, as on boards that keep their root so."""
    if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode:
        pytest.skip("no mount namespace of our own (not root)")
    (tmp_path / "low").mkdir()
    low, room, again = (shlex.quote(str(p)) for p in (tmp_path / "low", tmp_path, Path(__file__)))
    script = (
        f"mount -t tmpfs none /mnt && mkdir /mnt/up /mnt/work /mnt/all && "
        f"mount -t overlay none -o lowerdir={low},upperdir=/mnt/up,workdir=/mnt/work /mnt/all || exit 99; cd {room} && "
        f"{shlex.quote(sys.executable)} -m pytest -q -p no:cacheprovider --basetemp=/mnt/all/t {again} -k 'silent or ghost'"
    )
    ran = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, check=False, timeout=60)
    if ran.returncode == 99:
        pytest.skip("no overlay of a tmpfs on this machine")
    assert ran.returncode == 0 and "2 passed" in ran.stdout, ran.stdout + ran.stderr


def test_after_a_run_its_holder_runs_nothing(lock: Path) -> None:
    """So that its board can be had, should its host be gone by then."""
    with opened(lock, "a@host") as agent:
        model, inputs = put(agent, model_bytes()), [put(agent, i.data) for i in prepared().inputs]
        agent.run(model, inputs)
        end = time.monotonic() + 3
        while (running := facts(lock)["running"]) and time.monotonic() < end:
            time.sleep(0.05)
        assert running == 0


def keepers() -> set[threading.Thread]:
    """Those of earlier tests may still be there and end at any time: only what came since counts."""
    return {t for t in threading.enumerate() if t.name == "qverify keep-alive"}


def gone(before: set[threading.Thread]) -> bool:
    end = time.monotonic() + 3
    while keepers() - before and time.monotonic() < end:
        time.sleep(0.02)
    return not keepers() - before


def test_a_holder_whose_host_is_busy_is_heard_all_the_same(lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keep_alive, "EVERY_S", 0.5)
    before = keepers()
    with opened(lock, "a@host"):
        first, end = facts(lock)["heard_uptime_s"], time.monotonic() + 20
        while facts(lock)["heard_uptime_s"] < first + 2:
            assert time.monotonic() < end
            time.sleep(0.05)  # a reference, a simulator
    assert gone(before)


def test_it_never_comes_between_a_call_and_its_answer(lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keep_alive, "EVERY_S", 0.0005)
    with opened(lock, "a@host") as agent:
        model, inputs = put(agent, model_bytes()), [put(agent, i.data) for i in prepared().inputs]
        for i in range(60):
            put(agent, bytes([i]) * 3000)
            assert len(agent.run(model, inputs)) == 4
            assert len(agent.get("u", 231)) == 231
        assert agent.counters["frames_sent_again"] == 0 and agent.generation == 0


def test_it_raises_nothing_reconnects_nothing_and_ends_with_its_client(
    lock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keep_alive, "EVERY_S", 0.05)
    before, agent = keepers(), opened(lock, "a@host")
    os.kill(facts(lock)["pid"], signal.SIGKILL)
    time.sleep(0.5)
    assert agent.generation == 0 and len(keepers() - before) == 1
    agent.ping()
    assert agent.generation == 1  # the call itself does
    agent.close()
    assert gone(before)
    forgotten = opened(lock, "b@host")
    end = forgotten._link.close
    del forgotten
    assert gone(before)
    end()


def held_elsewhere(lock: Path) -> bool:
    with lock.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def facts(lock: Path) -> dict[str, Any]:
    """Returns what the lock's file says, read again while its holder writes it anew: then it is empty, or half written."""
    end = time.monotonic() + 10
    while True:
        try:
            found: dict[str, Any] = json.loads(lock.read_text())
            return found
        except json.JSONDecodeError:
            assert time.monotonic() < end, lock.read_text()
            time.sleep(0.01)


def test_a_lock_whose_file_was_deleted_is_taken_anew(lock: Path) -> None:
    with opened(lock, "a@host") as agent:
        model, inputs = put(agent, model_bytes()), [put(agent, i.data) for i in prepared().inputs]
        lock.unlink()
        assert len(agent.run(model, inputs)) == 4
        assert held_elsewhere(lock) and facts(lock)["owner"] == "a@host"


def test_two_hosts_never_both_hold_a_lock_whose_file_was_deleted(lock: Path) -> None:
    with opened(lock, "a@host") as first:
        model, inputs = put(first, model_bytes()), [put(first, i.data) for i in prepared().inputs]
        lock.unlink()
        with opened(lock, "b@host") as second:
            assert second.hello["lock"] == "held"
            with pytest.raises(AgentError, match=r"deleted while this run held it.*status -11"):
                first.run(model, inputs)
            with pytest.raises(BoardBusy, match="in use by b@host"):
                first.refresh_hello()
            second.ping()


def test_a_lock_file_that_cannot_be_opened_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        AgentError, match=r"lock=.*/nosuch/x: cannot be opened on the board: No such file.*Next: name a"
    ):
        opened(tmp_path / "nosuch" / "x", "a@host")


TOKEN = "#0123456789abcdef"


def test_a_run_is_not_refused_by_its_own_ghost(lock: Path) -> None:
    with opened(lock, f"a@host {TOKEN}"), opened(lock, f"a@host {TOKEN}") as again:
        assert again.hello["lock"] == "held" and held_elsewhere(lock)


@pytest.mark.parametrize(
    "owner", ["a@host", "a@host #0123456789abcdee", "a@host #0123456789abcde", "a@host #", TOKEN[:-1]]
)
def test_another_run_is_refused(lock: Path, owner: str) -> None:
    with opened(lock, f"a@host {TOKEN}") as first:
        with pytest.raises(BoardBusy, match="in use by a@host since") as caught:
            opened(lock, owner)
        assert "#" not in str(caught.value)
        first.ping()
        assert first.generation == 0


def test_a_token_ends_no_process_that_does_not_hold_the_lock(lock: Path, victim: subprocess.Popen[bytes]) -> None:
    name(lock, victim.pid)
    lock.write_text(lock.read_text().replace('"x"', f'"x {TOKEN}"'))
    with lock.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(BoardBusy):
            opened(lock, f"a@host {TOKEN}")
    assert victim.poll() is None
