"""An agent that answers with anything: the host neither crashes, hangs, fills up nor believes it; nothing is written anywhere."""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from qverify.model_bin.units import units
from qverify.sides.board import Board
from qverify.sides.simulator import Simulator
from qverify_agents.binaries import host_architecture
from qverify_agents.errors import LinkError
from qverify_agents.protocol import messages
from tiny_model import graph, model_bytes, prepared

AGENT = '''#!{python}
import os, random, struct, sys
sys.path[:0] = {path!r}
from qverify_agents.protocol import frames, messages
rng = random.Random({seed})
HELLO = '{{"version": "1", "protocol": 1, "endian": "little", "features": ["finals", "per_node", "inject", "digests"], "packs": "lz4", "lock": "none"}}'
NAMES = ["q", "t", "u", "y", "../../x", "/etc/passwd", "a" * 1000, "\\x1b[2J", ""]

def text(value):
    data = value.encode()
    return struct.pack("<H", len(data)) + data

def answer(f):
    """Mostly a well-formed answer with hostile content, or one of its kind cut, stretched, or of another kind."""
    number = lambda: rng.choice([0, 1, 2, 231, 924, 1 << 20, (1 << 31) - 1, (1 << 32) - 1])
    node = struct.pack("<IIQQ", number(), number(), rng.getrandbits(64), rng.getrandbits(64)) + text(rng.choice(NAMES))
    made = {{
        frames.HELLO: [(frames.HELLO, text(HELLO))] * 6 + [(frames.HELLO, text("{{" * 500)), (frames.HELLO, text('{{"protocol": 1, "features": 7}}'))],
        frames.HAVE: [(frames.HAVE, struct.pack("<Q", rng.choice([0, 1, 10**18]))), (frames.HAVE, b"")],
        frames.PUT: [(frames.PUT, struct.pack("<Q", rng.choice([max(0, len(f.payload) - 48), 0, 10**18]))), (frames.PUT, b"x")],
        frames.RUN: [(frames.NODE, node)] * 3 + [(frames.DONE, struct.pack("<i", 0) + text("") + struct.pack("<QIB", 1, rng.choice([0, 4, 1 << 20, 1 << 31]), 1))],
        frames.GET: [(frames.DATA, struct.pack("<QQ", rng.choice([231, 924, 10**15]), 0) + bytes(rng.randrange(2000))),
                     (frames.PACKED, struct.pack("<QQI", 231, 0, number()) + os.urandom(50))],
    }}.get(f.type, [(frames.ERROR, struct.pack("<i", -1) + text("no"))])
    kind, payload = rng.choice(made)
    if rng.random() < 0.2:
        payload = payload[: rng.randrange(len(payload) + 1)] + os.urandom(rng.randrange(40))
    if rng.random() < 0.1:
        kind = rng.randrange(256)
    return frames.encode_frame(kind, f.sequence, payload)

reader = frames.FrameReader()

def send(data):
    while data:
        data = data[os.write(1, data):]

while True:
    data = os.read(0, 65536)
    if not data:
        break
    reader.feed(data)
    while (f := reader.next()) is not None:
        if rng.random() < 0.03:
            while True:
                send(os.urandom(60000) if rng.random() < 0.5 else frames.encode_frame(frames.NODE, f.sequence, os.urandom(30)))
        for _ in range(rng.choice([1, 1, 1, 3])):
            send(answer(f))
'''


@pytest.mark.parametrize("seed", range(40))
def test_a_hostile_agent(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    fake = folder / f"qvrt-{host_architecture()}"
    fake.write_text(AGENT.format(python=sys.executable, path=[p for p in sys.path if p], seed=seed))
    fake.chmod(0o755)
    monkeypatch.setenv("QVERIFY_BIN_DIR", str(folder))
    monkeypatch.chdir(tmp_path)
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    try:
        board = Board("local", model_bytes(), graph(), 1.0)
        try:
            recording = board.run(prepared())
            if recording.state == "complete":
                assert recording.digests == Simulator(graph()).run(prepared()).digests
        finally:
            board.close()
    except LinkError as error:
        assert "Traceback" not in str(error)  # of the fake agent
    assert time.monotonic() - start < 15
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kilobytes
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bin"] and list(folder.iterdir()) == [fake]


ENDLESS = """#!{python}
import itertools, os, struct, sys, time
sys.path[:0] = {path!r}
from qverify_agents.protocol import frames
MODE = {mode!r}
HELLO = b'{{"version": "1\\\\nFORGED", "protocol": 1, "features": ["finals", "per_node", "inject", "digests"], "lock": "none"}}'
reader, runs = frames.FrameReader(), 0

def send(kind, sequence, payload):
    data = frames.encode_frame(kind, sequence, payload)
    while data:
        data = data[os.write(1, data):]

def node(index, name):
    return struct.pack("<IIQQH", index, 0, 1, 1, len(name)) + name

while data := os.read(0, 65536):
    reader.feed(data)
    while (f := reader.next()) is not None:
        if f.type == frames.HELLO:
            send(f.type, f.sequence, struct.pack("<H", len(HELLO)) + HELLO)
        elif f.type == frames.HAVE:
            send(f.type, f.sequence, struct.pack("<Q", 0) * (len(f.payload) // 32))
        elif f.type == frames.PUT:
            total, offset = struct.unpack_from("<QQ", f.payload, 32)
            time.sleep(0.05 if MODE == "drip" else 0)
            send(f.type, f.sequence, struct.pack("<Q", offset + 1 if MODE == "drip" else total))
        elif f.type == frames.GET:
            send(frames.ERROR, f.sequence, struct.pack("<iH", -9, 2) + b"no")
        elif f.type in (frames.RUN, frames.UNIT):
            runs += 1
            if runs == 1 and MODE in ("second", "pulled", "unit"):
                for i, name in enumerate((b"q", b"t", b"u", b"y")):
                    send(frames.NODE, f.sequence, node(i, name))
                send(frames.DONE, f.sequence, struct.pack("<iHQIB", 0, 0, 1, 4, 0))
                continue
            for i in itertools.count():
                time.sleep(0.02 if MODE == "again" else 0)
                send(frames.NODE, f.sequence, node(0, b"q") if MODE == "again" else node(i, b"n" * 1000))
"""


@pytest.mark.parametrize("mode", ["again", "more", "drip"])
def test_endless_frames_that_are_well_formed(mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same event for ever, ever more events, a byte of progress a time."""
    fake = tmp_path / f"qvrt-{host_architecture()}"
    fake.write_text(ENDLESS.format(python=sys.executable, path=[p for p in sys.path if p], mode=mode))
    fake.chmod(0o755)
    monkeypatch.setenv("QVERIFY_BIN_DIR", str(tmp_path))
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    board = Board("local", model_bytes(), graph(), 1.5)
    try:
        recording = board.run(prepared())
    finally:
        board.close()
    assert recording.state != "complete" and recording.why
    assert "\n" not in recording.version
    assert time.monotonic() - start < 15
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kilobytes


@pytest.mark.parametrize("mode", ["second", "pulled", "unit"])
def test_endless_events_of_a_run_after_the_first(mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a repetition, a run for what was not kept, and a unit, the host keeps what the model has, and no more."""
    fake = tmp_path / f"qvrt-{host_architecture()}"
    fake.write_text(ENDLESS.format(python=sys.executable, path=[p for p in sys.path if p], mode=mode))
    fake.chmod(0o755)
    monkeypatch.setenv("QVERIFY_BIN_DIR", str(tmp_path))
    board, unit = Board("local", model_bytes(), graph(), 1.5), units(graph())[0]
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    given = {n: np.zeros(graph().spec(n).shape, graph().spec(n).numpy_dtype) for n in unit.inputs}
    calls: dict[str, Callable[[], object]] = {
        "second": lambda: board.repeat_run(None),
        "pulled": lambda: board.pull(["t"]),
        "unit": lambda: board.run_unit(unit, given),
    }
    try:
        board.run(prepared())
        with pytest.raises(LinkError, match="not a tensor of this model"):
            calls[mode]()
    finally:
        board.close()
    assert time.monotonic() - start < 15
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # kilobytes


def test_of_a_hello_only_what_the_protocol_has_is_kept() -> None:
    right = {"protocol": 1, "version": "1", "frequency_mhz": 5, "endian": "little"}
    wrong = {"memory_bytes": True, "arch": ["x"], "temperature_c": None, "uptime_s": 3.5, "surplus": [[1] * 50]}
    lists = {"features": ["finals", 7, {"a": []}], "holder": {"owner": "a", "pid": "7", "more": [1]}}
    hello = messages.read_hello(messages.encode_text(json.dumps({**right, **wrong, **lists})))
    assert hello == {**right, "features": ["finals"], "holder": {"owner": "a"}}
