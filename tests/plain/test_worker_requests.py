"""The worker answers the requests of PROTOCOL.md, and refuses what it cannot do in one line, over real pipes."""

from __future__ import annotations

import hashlib
import os
import struct
import sys
from collections.abc import Iterator

import numpy as np
import pytest
from onnx import TensorProto, helper
from qverify_agents.connect import connect
from qverify_agents.deadline import Deadline
from qverify_agents.errors import AgentError, BadAddress, LinkError
from qverify_agents.protocol import frames, messages
from qverify_agents.protocol.client import Agent
from qverify_agents.protocol.frames import FrameReader, encode_frame
from qverify_agents.worker import pack_worker

BOARD = "local?runtime=onnxruntime"
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def model() -> bytes:
    """y = x + 1, z = 2 y."""
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "one"], ["y"]), helper.make_node("Mul", ["y", "two"], ["z"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 3]) for n in "yz"],
        [helper.make_tensor(n, TensorProto.FLOAT, [], [v]) for n, v in (("one", 1.0), ("two", 2.0))],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9).SerializeToString()


def put(agent: Agent, data: bytes) -> str:
    sha256 = hashlib.sha256(data).hexdigest()
    agent.put(sha256, data)
    return sha256


@pytest.fixture(scope="module")
def agent() -> Iterator[Agent]:
    with connect(BOARD) as one:
        yield one


def test_a_run_gives_events_digests_and_values(agent):
    of, x = put(agent, model()), put(agent, X.tobytes())
    events = agent.run(of, [x], names=["y", "z"], events=["y", "z"], repeat=2)
    assert [(e.tensor, e.iteration) for e in events] == [("y", 0), ("z", 0), ("y", 1), ("z", 1)]
    import xxhash

    for event in events:
        value = X + 1 if event.tensor == "y" else 2 * (X + 1)
        assert event.digest == xxhash.xxh64_hexdigest(value.tobytes())
        assert agent.get(event.tensor, 24) == value.tobytes()
    assert agent.get_range("z", 24, 8, 4) == (2 * (X + 1)).tobytes()[8:12]
    assert agent.done_text == '{"nodes_by_provider": {"CPUExecutionProvider": 2}}'
    assert [e.tensor for e in agent.run(of, [x], nodes=["z"], digests=False)] == ["z"]
    assert "onnxruntime" in agent.hello["version"] and agent.capabilities >= {"per_node", "inject"}


def test_what_cannot_be_done_is_one_line(agent):
    of, x, short = put(agent, model()), put(agent, X.tobytes()), put(agent, X.tobytes()[:-4])
    junk = put(agent, b"no model")
    for words, said in (
        ((of, [short]), "input x: 20 bytes, wanted 2x3 of float32"),
        ((of, []), "0 inputs, wanted 1"),
        ((junk, [x]), "onnxruntime refuses the model"),
        (("00" * 32, [x]), "content 0000000000000000 is not there"),
    ):
        with pytest.raises(AgentError, match=said) as caught:
            agent.run(*words)
        assert "\n" not in str(caught.value)
    with pytest.raises(AgentError, match="no output of this name"):
        agent.run(of, [x], nodes=["nothing"])
    with pytest.raises(AgentError, match="cannot replace a tensor"):
        agent.run(of, [x], injected={"y": x})
    with pytest.raises(AgentError, match="left no value"):
        agent.get("nothing", 4)
    with pytest.raises(AgentError, match="message 7 is not answered"):
        agent.run_unit(of, ["n"], {})
    agent.ping()


def test_contents_are_kept_resumed_and_checked(tmp_path):
    data = os.urandom(3000)
    sha256 = hashlib.sha256(data).hexdigest()
    store = f"{BOARD}&store={tmp_path / 'store'}"
    with connect(store) as agent:
        agent._request(frames.PUT, messages.encode_put(sha256, 3000, 0, data[:1000]), frames.PUT)
    with connect(store) as agent:
        assert agent.have([sha256]) == {sha256: 1000}
        agent.put(sha256, data)
        assert agent.have([sha256]) == {sha256: 3000}
    assert [p.name for p in (tmp_path / "store").iterdir()] == [sha256]
    (tmp_path / "store" / sha256).write_bytes(data[::-1])
    with connect(store) as agent:
        with pytest.raises(AgentError, match="its bytes have another hash"):
            agent.run(sha256, [])
        wrong = hashlib.sha256(b"other").hexdigest()
        with pytest.raises(AgentError, match="its bytes have another hash"):
            agent._request(frames.PUT, messages.encode_put(wrong, 5, 0, b"bytes"), frames.PUT)
        with pytest.raises(AgentError, match="a piece of 5 bytes at 3 of 5"):
            agent._request(frames.PUT, messages.encode_put(wrong, 5, 3, b"bytes"), frames.PUT)


def test_damaged_frames_and_other_bytes_are_skipped():
    with connect(BOARD) as agent:
        ping = encode_frame(frames.PING, 77, b"here")
        damaged = bytearray(encode_frame(frames.PING, 78, b"lost"))
        damaged[17] ^= 1
        reader, kinds = FrameReader(), []
        agent._link.write(b"QV noise QV\x01" + bytes(damaged) + b"\0QV" + ping, Deadline(20))
        while len(kinds) < 2:
            reader.feed(agent._link.read(Deadline(20)))
            while (frame := reader.next()) is not None:
                kinds.append((frame.type, frame.sequence))
        assert kinds == [(frames.AGAIN, 78), (frames.PING, 77)]


def test_a_run_asked_for_again_is_not_run_again(agent):
    of, x = put(agent, model()), put(agent, X.tobytes())
    request = messages.encode_run(of, [x], [], {}, messages.DIGESTS | messages.EVERY_TENSOR, 1)
    for _ in range(2):
        agent._link.write(encode_frame(frames.RUN, 5, request), Deadline(20))
    reader, kinds = FrameReader(), []
    while kinds.count(frames.DONE) < 2:
        reader.feed(agent._link.read(Deadline(20)))
        while (frame := reader.next()) is not None:
            kinds.append(frame.type)
    assert kinds == [frames.NODE, frames.NODE, frames.DONE, frames.DONE]


@pytest.mark.parametrize("cut", [0, 31, 33, 38, 60])
def test_requests_cut_short_are_refused(agent, cut):
    of = put(agent, model())
    whole = messages.encode_run(of, [of], ["y"], {}, 3, 1)
    with pytest.raises(AgentError, match="a request of"):
        agent._request(frames.RUN, whole[:cut], frames.DONE)
    with pytest.raises(AgentError, match="wanted"):
        agent._request(frames.GET, struct.pack("<H", 5) + b"abc", frames.DATA)


def test_a_run_that_hangs_ends_with_its_limit(tmp_path):
    """The library hangs; the process says so and ends."""
    hangs = tmp_path / "hangs.py"
    hangs.write_text(
        "import runpy, sys, time\nimport onnxruntime\n"
        "onnxruntime.InferenceSession.run = lambda *_: time.sleep(60)\n"
        "sys.argv = sys.argv[2:] + ['--node_limit=0.5']\nrunpy.run_path(sys.argv[0], run_name='__main__')\n"
    )
    python = f"{sys.executable} {hangs}".replace(" ", "%20")
    with connect(f"{BOARD}&python={python}") as agent:
        of, x = put(agent, model()), put(agent, X.tobytes())
        with pytest.raises(LinkError, match=r"did not answer within 0\.5 s"):
            agent.run(of, [x])


def test_options_belong_to_their_runtime():
    for board, said in (
        ("local?providers=CPU", "is for runtime=onnxruntime or litert"),
        ("local?runtime=onnxruntime&kernels=reference", "is for runtime=litert, got runtime=onnxruntime"),
        ("faulty:local?runtime=onnxruntime&fault=bitflip@y", "a fault is planted in the runtime that comes with"),
        ("local?runtime=onnxruntime&level=most", "one of disable_all, basic"),
    ):
        with pytest.raises(BadAddress, match=said):
            connect(board)


def test_the_packed_worker_has_the_same_bytes_each_time():
    before = pack_worker()
    pack_worker.cache_clear()
    assert pack_worker() == before
