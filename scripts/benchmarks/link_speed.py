"""Measures transfers over SSH on loopback, by qverify and by OpenSSH's scp, and the bytes that a run sends and receives
if every node agrees."""

from __future__ import annotations

import contextlib
import hashlib
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from qverify.inputs.random_inputs import random_inputs
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.records import encode
from qverify.session.models import open_models
from qverify.sides.board import Board
from qverify.tensors.prepared import PreparedInput, PreparedInputs
from qverify.tensors.spec import TensorSpec
from qverify_agents.connect import connect
from qverify_agents.protocol.client import Agent

from benchmarks.measure import show_figures

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]
from tests.links.pty_board import PtyBoard  # noqa: E402
from tests.links.servers import DROPBEAR, SSHD, Server  # noqa: E402

MEGABYTES, ROUNDS = 64, 3


def best(action: Callable[[int], None]) -> tuple[float, float]:
    """Returns wall seconds, and processor seconds of this process and its children, of the fastest of some rounds."""
    rounds = []
    for i in range(ROUNDS):
        before, start = _cpu(), time.perf_counter()
        action(i)
        rounds.append((time.perf_counter() - start, _cpu() - before))
    return min(rounds)


def _cpu() -> float:
    return sum(
        u.ru_utime + u.ru_stime for u in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def wide_model() -> tuple[bytes, PreparedInputs, str]:
    """Returns model.bin of a single node on a tensor of MEGABYTES, its input, and the name of the tensor that is
    pulled."""
    spec = TensorSpec("x", "uint8", (MEGABYTES << 10, 1024), scale=(1.0,), zero_point=(0,))
    output = TensorSpec("y", "uint8", (1024, MEGABYTES << 10), scale=(1.0,), zero_point=(0,))
    graph = Graph(
        [Node("y", "transpose", ("x",), ("y",), (1, 0))], {"x": spec, "y": output}, {}, ("x",), ("y",), meta={}
    )
    values = np.random.Generator(np.random.PCG64(1)).integers(0, 256, spec.shape, np.uint8)
    return encode(graph), PreparedInputs((PreparedInput(spec, values.tobytes(), "random", 1),)), "y"


def transfers(server: Server, work: Path) -> dict[str, object]:
    """Measures push and pull of MEGABYTES of noise, and scp of as much, each the fastest of ROUNDS, with connecting
    included."""
    files = [work / f"file{i}" for i in range(ROUNDS)]
    for path in files:
        path.write_bytes(os.urandom(MEGABYTES << 20))
    scp = ["scp", "-q", "-F", str(server.config)]

    def copied(*ends: str) -> None:
        subprocess.run([*scp, *ends], check=True)

    def push(i: int) -> None:
        with connect(server.board, 120) as agent:
            agent.put(names[i], contents[i])

    model, prepared, tensor = wide_model()
    hashes = [hashlib.sha256(d).hexdigest() for d in (model, prepared.inputs[0].data)]

    def ran() -> Agent:
        agent = connect(f"{server.board}2", 120)  # has its own lock, so that it stays connected while others connect
        agent.put(hashes[0], model)
        agent.put(hashes[1], prepared.inputs[0].data)
        agent.run(hashes[0], [hashes[1]])
        return agent

    def pull(agent: Agent) -> None:
        with connect(server.board, 120):  # connecting counts, as for scp
            agent.get(tensor, MEGABYTES << 20)

    contents = [path.read_bytes() for path in files]
    names = [hashlib.sha256(content).hexdigest() for content in contents]  # every run computes these, whatever the link
    connect(server.board, 60).close()  # installs the agent, as scp is installed
    with ran() as agent:
        sides = {
            "push": best(push),
            "push_scp": best(lambda i: copied(str(files[i]), f"testboard:{work}/there{i}")),
            "pull": best(lambda i: pull(agent)),
            "pull_scp": best(lambda i: copied(f"testboard:{work}/file{i}", str(work / f"here{i}"))),
        }
    figures: dict[str, object] = {"megabytes": MEGABYTES}
    for name, (wall, cpu) in sides.items():
        figures |= {f"{name}_s": round(wall, 3), f"{name}_cpu_s": round(cpu, 3)}
    for way in ("push", "pull"):
        figures[f"{way}_ratio"] = round(sides[way][0] / sides[f"{way}_scp"][0], 2)
        figures[f"{way}_cpu_ratio"] = round(sides[way][1] / sides[f"{way}_scp"][1], 2)
    return figures


def traffic(boards: dict[str, str]) -> list[dict[str, object]]:
    """Returns the bytes that a run of the packaged example sends and receives if every node agrees: with an empty
    cache, and with everything cached."""
    source = ROOT / "verifier" / "qverify" / "example" / "digits_quant.onnx"
    models = open_models([str(source)])
    prepared, rows = random_inputs(models.graph, 0), []
    for name, address in boards.items():
        for state in ("cold", "cached"):
            start = time.perf_counter()
            board = Board(address, models.binary, models.graph, 120)
            try:
                recording = board.run(prepared)
            finally:
                board.close()
            seconds = time.perf_counter() - start
            assert recording.state == "complete", recording.why
            finals = sum(models.graph.spec(n).valid_bytes for n in models.graph.outputs)
            rows.append(
                {
                    "link": name,
                    "state": state,
                    "nodes": len(recording.digests),
                    "final_bytes": finals,
                    "seconds": round(seconds, 2),
                }
                | recording.link
            )
    return rows


def main(words: list[str]) -> int:
    import argparse

    parser = argparse.ArgumentParser(prog="scripts/bench links", description=__doc__)
    parser.add_argument("--json", dest="path", metavar="F", help="the figures go to this file, too")
    options = parser.parse_args(words)
    with contextlib.ExitStack() as stack:
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="qverify-links-")))
        boards = {"local": f"local?store={work}/store"}
        servers = {}
        for kind, program in (("openssh", SSHD), ("dropbear", DROPBEAR)):
            if program is not None:
                folder = work / kind
                folder.mkdir()
                servers[kind] = server = Server(kind, folder)
                stack.callback(server.close)
                server.trust()
                boards[kind] = server.board
        for baud in (115200, 921600):
            folder = work / str(baud)
            folder.mkdir()
            pty = stack.enter_context(PtyBoard(baud=baud, home=folder))
            boards[f"serial at {baud}"] = f"{pty.address}&cache={folder}/cache"
        result = {"ssh": transfers(servers["openssh"], work) if "openssh" in servers else None, "runs": traffic(boards)}
    show_figures(result, options.path)
    return 0
