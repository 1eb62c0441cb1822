"""Board kinds and options that are no place of test_every_place.py, and failures of a board, each a Recording that says so."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from qverify.sides.board import Board
from qverify.sides.simulator import Simulator
from qverify_agents.binaries import runtime_path
from qverify_agents.connect import connect
from qverify_agents.emulation.user_mode import find_emulator
from qverify_agents.errors import AgentError, BoardUnreachable
from tiny_model import graph, model_bytes, prepared

from tests.links.servers import SSHD, Server

EMULATED = ["armv7", "riscv64", "s390x"]


def board(uri: str, deadline_s: float = 30, **options: str) -> Board:
    if uri.startswith("qemu-user:"):
        architecture = uri.partition(":")[2]
        if find_emulator(architecture) is None:
            pytest.skip(f"no qemu-user for {architecture}")
        try:
            runtime_path(architecture)
        except BoardUnreachable as error:
            pytest.skip(str(error))
    return Board(uri, model_bytes(), graph(), deadline_s, options)


@pytest.mark.parametrize(
    "uri", [*(f"qemu-user:{a}" for a in EMULATED), "local?memory=1", "local?link_fault=flip&link_seed=3"]
)
@pytest.mark.parametrize("pull", ["differ", "all"])
def test_board_equals_simulator(uri: str, pull: str) -> None:
    there, expected = board(uri), Simulator(graph()).run(prepared())
    try:
        recording = there.run(prepared(), pull="all" if pull == "all" else "differ")
        assert (recording.state, recording.why, recording.missing) == ("complete", "", {})
        assert recording.digests == expected.digests
        assert set(recording.tensors) >= ({"q", "t", "u", "y"} if pull == "all" else {"y"})
        pulled = there.pull(["q", "t", "u", "y"])
        for name, value in pulled.items():
            assert np.array_equal(value, expected.tensors[name]), name
        again = there.run(prepared())
        assert again.link["cached_bytes"] >= len(model_bytes())
    finally:
        there.close()


def test_a_board_that_offers_finals_only() -> None:
    there = board("finals:local")
    try:
        recording = there.run(prepared())
        assert (recording.state, recording.capabilities, recording.digests) == ("complete", frozenset({"finals"}), {})
        assert np.array_equal(recording.tensors["y"], Simulator(graph()).run(prepared()).tensors["y"])
    finally:
        there.close()


@pytest.mark.skipif(SSHD is None, reason="no sshd on this machine")
@pytest.mark.parametrize("kind", ["", "finals:"])
def test_a_value_lost_with_the_connection_is_made_again(kind: str, tmp_path: Path) -> None:
    """A second run makes it again; a board without digests announced none that it could differ from."""
    server = Server("openssh", tmp_path)
    server.trust()
    there = board(f"{kind}{server.board}")
    try:
        first = there.run(prepared())
        assert first.state == "complete"
        server.drop_connections()
        time.sleep(0.2)
        assert np.array_equal(there.pull(["y"])["y"], first.tensors["y"])
        assert there._agent.generation == 1
    finally:
        there.close()
        server.close()


@pytest.mark.parametrize(
    "kind,why", [("die", "was killed by SIGKILL"), ("hang", "no answer within"), ("garbage", "ended with status 0")]
)
def test_a_board_that_fails_gives_a_recording(kind: str, why: str) -> None:
    there = board(f"faulty:local?fault={kind}@u", 2 if kind == "hang" else 20)
    try:
        recording = there.run(prepared())
        assert recording.state == "partial" and why in recording.why
        assert set(recording.digests) == {"q", "t"} and set(recording.missing) == {"u", "y"}
    finally:
        there.close()


def test_a_damaged_model_is_refused_by_the_board() -> None:
    there = Board("local", model_bytes()[:-1], graph(), 10)
    try:
        recording = there.run(prepared())
        assert recording.state == "did not run" and recording.why
    finally:
        there.close()


def test_repeat_cancel_and_inject() -> None:
    there = board("local")
    try:
        there.run(prepared())
        agent, model, inputs = there._agent, there._sha256, there._inputs
        events = agent.run(model, inputs, repeat=50)
        assert [e.iteration for e in events] == [i for i in range(50) for _ in range(4)]
        assert len({(e.tensor, e.digest) for e in events}) == 4
        with pytest.raises(AgentError, match="cancelled") as caught:
            agent.run(model, inputs, lambda event: event.iteration == 3, repeat=200_000)
        assert caught.value.status == -7
        agent.ping()
        other = np.full(graph().spec("t").shape, 7, np.uint8)
        import hashlib

        sha256 = hashlib.sha256(other.tobytes()).hexdigest()
        agent.put(sha256, other.tobytes())
        agent.run(model, inputs, nodes=["t", "u"], injected={"t": sha256})
        assert agent.get("u", 231) == bytes([7]) * 231
        assert agent.get_range("u", 231, 100, 5) == bytes([7]) * 5
    finally:
        there.close()


@pytest.mark.parametrize(
    "uri,why",
    [
        ("nosuch://x", "known: local"),
        ("qemu-user:vax", "known architectures"),
        ("two words", "not a board"),
        ("-oProxyCommand=x", "no board with these tags"),
        ("-p22", "wanted HOST"),
        ("user@host:99999", "from 1 to 65535"),
        ("faulty:local", "needs \\?fault"),
        ("faulty:local?fault=bitflip:x@u", "needs \\?fault"),
        ("faulty:local?fault=bitflip@u|zork@u", "needs \\?fault"),
        ("local?link_fault=rain", "wanted one of none, drop"),
    ],
)
def test_an_address_that_cannot_be_is_said(uri: str, why: str) -> None:
    with pytest.raises(BoardUnreachable, match=why):
        connect(uri, 5)
