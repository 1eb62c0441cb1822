"""Every link, plain and behind the faulty one: all arrives whole, or the error says why; nothing stays behind."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from qverify_agents.address import Address
from qverify_agents.binaries import host_architecture, runtime_path
from qverify_agents.boards import local
from qverify_agents.connect import connect
from qverify_agents.deadline import Deadline
from qverify_agents.errors import AgentError, BoardUnreachable, LinkClosed, LinkError, LinkTimeout
from qverify_agents.faulty_link import FaultyLink
from qverify_agents.interfaces import ALL_FEATURES
from qverify_agents.links import exec_pipe
from qverify_agents.process_stream import ProcessStream
from qverify_agents.protocol.client import Agent

DATA = random.Random(5).randbytes(300_007)
SHA = hashlib.sha256(DATA).hexdigest()
VECTORS = json.loads((Path(__file__).parents[1] / "plain" / "frame_vectors.json").read_text())


def opened(address: Address) -> ProcessStream:
    return exec_pipe.open_link(address, Deadline(60))


def gone(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.parametrize("kind", ["none", "drop", "flip", "insert", "duplicate", "reorder"])
@pytest.mark.parametrize("seed", [1, 2])
def test_contents_arrive_whole_over_a_bad_link(kind: str, seed: int) -> None:
    link = FaultyLink(opened(local.plainer(Address("local"))), kind, seed)
    with Agent(link, ALL_FEATURES, 60) as agent:
        agent.put(SHA, DATA)
        assert agent.have([SHA, "0" * 64]) == {SHA: len(DATA), "0" * 64: 0}
    assert kind == "none" or link.faults


def test_stall_is_a_timeout() -> None:
    link = FaultyLink(opened(local.plainer(Address("local"))), "stall", probability=1, after_bytes=50_000)
    with Agent(link, ALL_FEATURES, 1.5) as agent:
        start = time.monotonic()
        with pytest.raises(LinkTimeout, match=r"no answer within 1\.5 s"):
            agent.put(SHA, DATA)
        assert time.monotonic() - start < 4


def test_disconnect_is_said() -> None:
    link = FaultyLink(opened(local.plainer(Address("local"))), "disconnect", probability=1, after_bytes=50_000)
    with Agent(link, ALL_FEATURES, 5) as agent, pytest.raises(LinkError):
        agent.put(SHA, DATA)


def test_an_interrupted_content_is_resumed(tmp_path: Path) -> None:
    address = local.plainer(Address("local"))
    kept = Address(address.scheme, argv=address.argv, options={"store": str(tmp_path)})
    link = FaultyLink(opened(kept), "disconnect", probability=1, after_bytes=150_000)
    with Agent(link, ALL_FEATURES, 5) as agent, pytest.raises(LinkClosed):
        agent.put(SHA, DATA)
    with connect("local", 10, {"store": str(tmp_path)}) as agent:
        held = agent.have([SHA])[SHA]
        assert 0 < held < len(DATA)
        agent.put(SHA, DATA)
        assert agent.counters["cached_bytes"] == held
        assert agent.counters["bytes_sent"] < len(DATA) - held + 2000
    assert sorted(p.name for p in tmp_path.iterdir()) == [SHA]
    with connect("local", 10, {"store": str(tmp_path)}) as agent:
        agent.put(SHA, DATA)
        assert agent.counters["cached_bytes"] == len(DATA)


@pytest.mark.parametrize("options", [{}, {"store": "folder"}])
def test_a_content_under_a_wrong_hash_is_refused_when_it_is_to_be_used(tmp_path: Path, options: dict[str, str]) -> None:
    with connect("local", 10, {k: str(tmp_path / v) for k, v in options.items()}) as agent:
        agent.put("ab" * 32, DATA)
        with pytest.raises(AgentError, match="damaged"):
            agent.run("ab" * 32, [])
        assert agent.have(["ab" * 32]) == {"ab" * 32: 0}
        agent.put(hashlib.sha256(b"").hexdigest(), b"")
        agent.ping()


def test_a_spoiled_partial_content_is_sent_anew(tmp_path: Path) -> None:
    (tmp_path / f"{SHA}.part").write_bytes(b"\0" * 1000)
    with connect("local", 10, {"store": str(tmp_path)}) as agent:
        agent.put(SHA, DATA)
    assert (tmp_path / SHA).read_bytes() == DATA


def test_closing_leaves_no_process_and_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    link = opened(local.plainer(Address("local")))
    agent = Agent(link, ALL_FEATURES, 10)
    agent.put(SHA, DATA)
    agent.close()
    agent.close()
    assert gone(link.process_id) and not list(tmp_path.iterdir())


def test_a_dead_agent_is_said() -> None:
    link = opened(local.plainer(Address("local")))
    agent = Agent(link, ALL_FEATURES, 10)
    os.killpg(link.process_id, 9)
    with pytest.raises(LinkClosed, match="was killed by SIGKILL"):
        agent.put(SHA, DATA)
    agent.close()


def test_a_board_that_is_gone_is_asked_for_once() -> None:
    """And every further call says so at once; over ssh each would else take its deadline."""
    asked = []

    def nowhere() -> ProcessStream:
        asked.append(1)
        raise BoardUnreachable("no route to host")

    link = opened(local.plainer(Address("local")))
    with Agent(link, ALL_FEATURES, 10, reopen=nowhere) as agent:
        os.killpg(link.process_id, 9)
        for call in (agent.ping, agent.ping, lambda: agent.put(SHA, DATA), lambda: agent.run(SHA, [])):
            with pytest.raises(LinkClosed, match=r"SIGKILL.*; connecting again failed: no route to host"):
                call()
    assert asked == [1]


def test_a_closed_link_touches_no_file_of_others() -> None:
    """The numbers of its descriptors are given away again."""
    link = opened(Address("exec", argv=("/bin/sh", "-c", "exec cat")))
    link.close()
    others = [os.pipe() for _ in range(4)]
    try:
        for step in (lambda: link.read(Deadline(1)), lambda: link.write(b"x", Deadline(1))):
            with pytest.raises(LinkClosed, match="already closed"):
                step()
        assert "SIGKILL" in link.why_closed()
    finally:
        for number in (n for pair in others for n in pair):
            os.close(number)
    half = opened(Address("exec", argv=("/bin/sh", "-c", "exec cat")))
    half.end_of_input()
    with pytest.raises(LinkClosed, match="already closed"):
        half.write(b"x", Deadline(1))
    assert half.read(Deadline(5)) == b""
    half.close()


def test_a_program_that_cannot_start_is_said(tmp_path: Path) -> None:
    with pytest.raises(BoardUnreachable, match="cannot start"):
        opened(Address("exec", argv=(str(tmp_path / "missing"),)))


def test_writing_never_waits_for_a_full_pipe_the_other_way() -> None:
    """cat echoes all it gets: far more than both pipes hold."""
    link = opened(Address("exec", argv=("/bin/sh", "-c", "exec cat")))
    link.write(DATA * 3, Deadline(10))
    came = b""
    while len(came) < 3 * len(DATA):
        came += link.read(Deadline(10))
    assert came == DATA * 3
    link.close()


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: str(v["sequence"]))
def test_the_runtime_reads_and_makes_the_same_frames(vector: dict[str, str]) -> None:
    """A PING comes back as the same bytes, with junk around it."""
    frame = bytes.fromhex(vector["frame"])
    agent = [str(runtime_path(host_architecture())), "agent"]
    done = subprocess.run(agent, input=b"QV junk" + frame + b"\n$ ", capture_output=True, timeout=20, check=True)
    assert done.stdout == frame


@pytest.mark.parametrize("seed", range(4))
def test_garbage_never_ends_the_agent_badly(seed: int) -> None:
    noise = random.Random(seed).randbytes(200_000)
    if seed % 2:
        from qverify_agents.protocol.frames import encode_frame

        chance = random.Random(seed)
        noise = b"".join(
            encode_frame(chance.randrange(16), i, chance.randbytes(chance.randrange(120))) for i in range(500)
        )
    done = subprocess.run(
        [str(runtime_path(host_architecture())), "agent"], input=noise, capture_output=True, timeout=20, check=False
    )
    assert done.returncode == 0


CAUGHT = """
import sys
sys.path.insert(0, sys.argv[1])
from tiny_model import graph, model_bytes, prepared
from qverify.sides.board import Board
board = Board("faulty:local?fault=hang@u", model_bytes(), graph(), 60)
print(board._agent._link.process_id, flush=True)
board.run(prepared())
"""


def test_an_interrupted_host_leaves_no_process_behind() -> None:
    """Ctrl-C while the board hangs; nobody calls close."""
    command = [sys.executable, "-c", CAUGHT, str(Path(__file__).parent)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment) as host:
        assert host.stdout is not None
        agent = int(host.stdout.readline())
        time.sleep(1.0)
        assert not gone(agent)
        host.send_signal(signal.SIGINT)
        host.wait(10)
    assert gone(agent)
