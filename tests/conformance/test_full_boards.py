"""A board whose file system is full, or whose quota is used up: old contents make room, and what does not fit is said."""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from qverify.sides.board import Board
from qverify_agents.binaries import host_architecture, runtime_path
from qverify_agents.command_shell import CommandShell
from qverify_agents.deadline import Deadline
from qverify_agents.deploy import DeployedAgent, start_agent
from qverify_agents.errors import AgentError
from qverify_agents.option_values import check_option_values, parse_size
from qverify_agents.process_stream import ProcessStream
from qverify_agents.protocol.client import Agent
from tiny_model import graph, model_bytes, prepared


def opened(store: str, limit_bytes: int) -> Agent:
    words = [str(runtime_path(host_architecture())), "agent", f"--store={store}", f"--store_limit={limit_bytes}"]
    return Agent(ProcessStream(words, {}), frozenset(), 10.0)


def put(agent: Agent, data: bytes) -> str:
    sha256 = hashlib.sha256(data).hexdigest()
    agent.put(sha256, data)
    return sha256


def fill(folder: Path, count: int, parse_size: int) -> None:
    """Contents of earlier runs, the first the oldest."""
    for i in range(count):
        path = folder / hashlib.sha256(bytes([i])).hexdigest()
        path.write_bytes(bytes(parse_size))
        os.utime(path, (1_000_000 + i, 1_000_000 + i))


@pytest.fixture
def store(tmp_path: Path) -> Path:
    (tmp_path / "store").mkdir()
    return tmp_path / "store"


FULL = """
import sys
from pathlib import Path
from test_full_boards import board_runs, fill
from tiny_model import model_bytes
from hashlib import sha256
store = Path(sys.argv[1]) / "store"
store.mkdir()
if sys.argv[2] == "resumed":
    (store / f"{sha256(model_bytes()).hexdigest()}.part").write_bytes(model_bytes()[:100])
fill(store, 12, 100_000)
try:
    (Path(sys.argv[1]) / "other").write_bytes(bytes(1 << 20))
except OSError as error:
    print(error)
print("said:", board_runs(store))
"""


def board_runs(store: Path) -> str:
    board = Board(f"local?store={store}", model_bytes(), graph(), 20.0)
    try:
        recording = board.run(prepared())
        return f"{recording.state} {recording.why}"
    finally:
        board.close()


@pytest.mark.parametrize("how", ["anew", "resumed"])
def test_a_file_system_that_is_really_full(how: str, tmp_path: Path) -> None:
    """It has 1.5 MB, in a mount namespace of its own, and is filled by what earlier runs left and by others."""
    ran = on_tmpfs(tmp_path, FULL, how)
    assert "No space left" in ran and "said: complete" in ran, ran


def on_tmpfs(folder: Path, program: str, *words: str) -> str:
    if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode:
        pytest.skip("no mount namespace of our own (not root)")
    (folder / "room").mkdir()
    room, run = str(folder / "room"), shlex.join([sys.executable, "-c", program, str(folder / "room"), *words])
    script = f"mount -t tmpfs -o size=1536k none {shlex.quote(room)} && exec {run}"
    here = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    ran = subprocess.run(
        ["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, check=False, timeout=120, env=here
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    return ran.stdout


TOO_LARGE = """
import sys
from test_full_boards import opened, put
from qverify_agents.errors import AgentError
agent = opened(sys.argv[1], 1 << 30)
first = put(agent, bytes(900_000))
try:
    put(agent, bytes([1]) * 900_000)
except AgentError as error:
    print(error)
print("held:", agent.have([first])[first])
"""


def test_what_does_not_fit_at_all_is_said_with_the_next_step(tmp_path: Path) -> None:
    said = on_tmpfs(tmp_path, TOO_LARGE)
    assert f"no space left in {tmp_path}/room (6" in said and "900000 wanted); `qverify boards clean NAME`" in said, (
        said
    )
    assert "held: 900000" in said  # what this connection sent stays


@pytest.fixture
def limited(store: Path) -> Iterator[Agent]:
    fill(store, 5, 20_000)
    with opened(str(store), 100_000) as agent:
        yield agent


def test_a_quota_is_kept_by_removing_the_oldest_that_are_not_in_use(limited: Agent, store: Path) -> None:
    oldest = hashlib.sha256(bytes([0])).hexdigest()
    assert limited.have([oldest])[oldest] == 20_000  # in use from here on
    put(limited, b"a" * 50_000)
    left = {p.name for p in store.iterdir()}
    assert oldest in left and len(left) == 3 and hashlib.sha256(bytes([1])).hexdigest() not in left
    with pytest.raises(AgentError, match=r"no space left in .* bytes free, 60000 wanted.*status -12"):
        put(limited, b"b" * 60_000)
    with pytest.raises(AgentError, match="no space left"):
        put(limited, b"c" * 200_000)


def test_what_a_run_took_may_go_once_another_run_began(store: Path) -> None:
    with opened(str(store), 6_000) as agent:
        model = put(agent, model_bytes())
        for seed in range(12):
            agent.run(model, [put(agent, item.data) for item in prepared(seed).inputs])
        assert len(list(store.iterdir())) <= 6


def test_the_quota_of_an_address_reaches_the_agent(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "qvrt").write_text('#!/bin/sh\necho "$@"\n')
    (tmp_path / "bin" / "qvrt").chmod(0o755)
    shell = CommandShell(["/bin/sh", "-c"])
    link = start_agent(
        shell, DeployedAgent(str(tmp_path), "qvrt", 0), Deadline(10), {}, 5.0, quota_bytes=parse_size("64M")
    )
    assert b"--store_limit=67108864 " in link.read(Deadline(10))
    link.close()


@pytest.mark.parametrize(("text", "meant"), [("1", 1), ("500k", 512_000), ("64M", 64 << 20), ("2g", 2 << 30)])
def test_a_quota_is_a_size(text: str, meant: int) -> None:
    check_option_values("-b x", {"quota": text})
    assert parse_size(text) == meant
