"""One suite over every kind of board and link, and over any board the tester names: pytest --board URI tests/conformance/test_every_place.py"""

from __future__ import annotations

import hashlib
import random
import time

import numpy as np
import pytest
from qverify.cli.main import main
from qverify.model_bin.units import units
from qverify.sides.board import Board
from qverify.sides.simulator import Simulator
from qverify_agents.connect import connect
from qverify_agents.errors import AgentError, BoardBusy, LinkError
from tiny_model import graph, model_bytes, prepared

from tests.board_kinds import Place

DEADLINE_S = 60.0


def content(size: int, seed: int) -> tuple[str, bytes]:
    data = random.Random(seed).randbytes(size)
    return hashlib.sha256(data).hexdigest(), data


def board(address: str, deadline_s: float = DEADLINE_S) -> Board:
    return Board(address, model_bytes(), graph(), deadline_s)


def test_it_computes_what_the_simulator_computes(where: Place) -> None:
    there, expected = board(where.address), Simulator(graph()).run(prepared())
    try:
        for pull in ("differ", "all"):
            recording = there.run(prepared(), pull="all" if pull == "all" else "differ")
            assert (recording.state, recording.why, recording.missing) == ("complete", "", {})
            assert recording.digests == expected.digests
            assert set(recording.tensors) >= ({"q", "t", "u", "y"} if pull == "all" else {"y"})
            for name, value in there.pull(["q", "t", "u", "y"]).items():
                assert np.array_equal(value, expected.tensors[name]), name
    finally:
        there.close()


def test_nothing_already_there_is_sent_and_little_comes_back(where: Place) -> None:
    """The budget of the issue: 4 KB and 48 bytes a node, besides the final outputs and one tensor."""
    for _ in range(2):
        there = board(where.address)
        try:
            recording = there.run(prepared())
        finally:
            there.close()
    whole = sum(graph().spec(n).valid_bytes for n in graph().outputs) + max(
        graph().spec(n).valid_bytes for n in graph().observable()
    )
    assert recording.link["bytes_received"] <= 4096 + 48 * len(graph().nodes) + whole
    if (
        where.cache and "store" not in where.address and where.name not in ("container", "docker")
    ) or where.name == "local":
        assert recording.link["cached_bytes"] >= len(model_bytes()) + len(prepared().inputs[0].data)
        assert recording.link["bytes_sent"] < 1500


@pytest.mark.parametrize("kept", [True, False], ids=["kept", "not-kept"])
def test_a_unit_alone_on_injected_tensors(where: Place, kept: bool) -> None:
    """kept: the board has the memory for every tensor."""
    there, simulator = board(where.address if kept else where.with_options(memory=1)), Simulator(graph())
    generator = np.random.Generator(np.random.PCG64(9))
    values = {n: generator.integers(0, 256, graph().spec(n).shape, np.uint8) for n in "qtu"}
    values["x"] = prepared(4).arrays()["x"]
    try:
        there.run(prepared())
        for unit in units(graph()):
            given = {n: values[n] for n in unit.inputs}
            for name, value in simulator.run_unit(unit, given).items():
                assert np.array_equal(there.run_unit(unit, given)[name], value), name
        assert np.array_equal(there.pull(["t"])["t"], simulator.run(prepared()).tensors["t"])  # of the run, not a unit
    finally:
        there.close()


@pytest.mark.thorough_at("local", "openssh", "pty", elsewhere="flip")
@pytest.mark.parametrize("kind", ["none", "drop", "flip", "insert", "duplicate", "reorder"])
def test_contents_arrive_whole_over_a_bad_link(where: Place, kind: str) -> None:
    size = 9_001 if where.slow or "qemu-" in where.name else 200_007  # an emulated processor encrypts slowly
    sha256, data = content(size, random.Random(f"{where.name} {kind}").randrange(1 << 30))
    often = 0.05 if where.slow else 0.15
    with connect(where.with_options(link_fault=kind, link_seed=3, link_probability=often), DEADLINE_S) as agent:
        agent.put(sha256, data)
        assert agent.have([sha256, "0" * 64]) == {sha256: len(data), "0" * 64: 0}


@pytest.mark.thorough_at("local", "openssh", "pty", elsewhere="disconnect")
@pytest.mark.parametrize("kind", ["stall", "half-close", "disconnect"])
def test_a_link_that_ends_is_said_in_time(where: Place, kind: str) -> None:
    sha256, data = content(60_000, 8)
    start = time.monotonic()
    with pytest.raises(LinkError) as caught:
        address = where.with_options(link_fault=kind, link_seed=1, link_probability=0.2)
        with connect(address, 6 if where.slow else 4) as agent:
            for _ in range(60):
                agent.put(sha256, data)
                agent.ping()
    assert str(caught.value) and time.monotonic() - start < 120
    there = board(where.address)
    try:
        assert there.run(prepared()).state == "complete"
    finally:
        there.close()


def test_a_content_under_a_wrong_hash_is_never_used(where: Place) -> None:
    _, data = content(5_000, 11)
    with connect(where.address, DEADLINE_S) as agent:
        other = hashlib.sha256(data + b"x").hexdigest()
        agent.put(other, data)
        with pytest.raises(AgentError, match="damaged"):
            agent.run(other, [])
        assert agent.have([other]) == {other: 0}
        agent.ping()


@pytest.mark.thorough_at("local", "openssh", "pty", elsewhere="die")
@pytest.mark.parametrize(("kind", "state"), [("bitflip", "complete"), ("die", "partial"), ("garbage", "partial")])
def test_a_faulty_runtime_is_found_out(where: Place, kind: str, state: str) -> None:
    there, good = board(where.faulty(f"{kind}@u")), Simulator(graph()).run(prepared()).digests
    try:
        recording = there.run(prepared())
        assert recording.state == state, recording.why
        if state == "complete":
            assert recording.digests["t"] == good["t"] and recording.digests["u"] != good["u"]
        else:
            assert recording.why and "u" in recording.missing
    finally:
        there.close()


def test_a_killed_agent_is_inconclusive_and_leaves_the_board_usable(where: Place) -> None:
    if where.there is None or where.name in ("local", "container", "docker"):
        pytest.skip("no side door to this board")
    there = board(where.address, 30 if where.slow else 10)
    try:
        where.kill_agents()
        recording = there.run(prepared())
        assert recording.state in ("complete", "partial", "did not run")
        good = Simulator(graph()).run(prepared()).digests
        assert all(good[n] == d for n, d in recording.digests.items())
    finally:
        there.close()
    there = board(where.address)
    try:
        assert there.run(prepared()).state == "complete"
    finally:
        there.close()


def test_a_second_user_is_told_who_has_it(where: Place) -> None:
    if where.name in ("local", "qemu-user:aarch64", "container", "docker", "pty", "qemu-serial", "noisy-pty"):
        pytest.skip("one agent at a time by itself: a process, a container, a line")
    with connect(where.address, DEADLINE_S), pytest.raises(BoardBusy, match=r"in use by .* pid"):
        connect(where.address, DEADLINE_S)


def test_nothing_stays_behind(where: Place) -> None:
    there = board(where.address)
    there.run(prepared())
    there.close()
    if where.there is None:
        return
    end = time.monotonic() + 10
    while where.agents() and time.monotonic() < end:
        time.sleep(0.2)
    assert where.agents() == []
    left, end = uploads(where), time.monotonic() + 30
    while left and time.monotonic() < end:  # those of other tests on this machine come and go
        time.sleep(0.2)
        left &= uploads(where)
    assert not left


def uploads(where: Place) -> set[str]:
    """Names of files that an upload over a console or a probe of a folder makes in the board's /tmp."""
    assert where.there is not None
    return {name for name in where.there("ls -A /tmp").split() if name.startswith((".qv-", ".probe"))}


def test_the_main_job_passes_and_a_fault_is_blamed(where: Place, digits, capsys) -> None:
    model = str(digits / "digits_quant.onnx")
    assert main(["-m", model, "-b", where.address, "-r"]) == 0
    assert "Sim and Arm result Strict check PASSED" in capsys.readouterr().out
    assert main(["-m", model, "-b", where.faulty("bitflip@relu2_QuantizeLinear_Output"), "-r"]) == 1
    assert "blame: board at relu2_QuantizeLinear_Output" in capsys.readouterr().out
