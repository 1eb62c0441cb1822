"""Bytes of bool besides 0 and 1 (FORMAT.md): refused in a constant, true in an input; what an op makes of them is 0 or 1."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
import xxhash
from qverify.model_bin import container
from qverify.model_bin.records import encode
from qverify.ops import simulate_node

from tests.ops.random_nodes import RandomNodes
from tests.ops.runtime_library import COMPILER, binary
from tests.ops.test_runtime_equals_simulator import digests

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C compiler on this machine")
BYTES = np.array([0, 1, 2, 255, 0, 128], np.uint8)


def nodes_of_truth(r: RandomNodes, constant: bool) -> None:
    """A mask of six, and every kind of op that reads it."""
    mask = r.constant(BYTES != 0) if constant else r.plain(BYTES != 0)
    for dtype in ("float32", "int32", "int64", "bool"):
        r.node("cast", (mask,), r.plain_output(dtype, (6,)))
    r.node("where", (mask, r.floats((6,)), r.floats((6,))), r.float_output((6,)))
    r.node("reshape", (mask,), r.plain_output("bool", (2, 3)))
    r.node("pad", (mask,), r.plain_output("bool", (9,)), (0, 1, 1))
    r.node("arg_max", (mask,), r.plain_output("int64", (1,)), (0, 1))


def test_any_byte_but_0_is_true_in_an_input(tmp_path: Path) -> None:
    made = RandomNodes("ref-exact", 5)
    nodes_of_truth(made, constant=False)
    graph = made.graph()
    (tmp_path / "model.bin").write_bytes(encode(graph))
    for i, value in enumerate(made.values.values()):
        (tmp_path / f"{i}.bin").write_bytes(BYTES.tobytes() if value.dtype == bool else value.tobytes())
    ran = digests(binary(), tmp_path, list(made.values))
    for node in graph.nodes:
        (y,) = simulate_node(graph, node, made.values).values()
        assert ran[node.name] == xxhash.xxh64(y.tobytes(), seed=0).hexdigest(), node.op


def refusal(data: bytes, folder: Path) -> str:
    """The one line that the runtime refuses this model with."""
    (folder / "model.bin").write_bytes(data)
    command = [str(binary()), "model_info", "--model_file=model.bin"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1, done
    return done.stderr


def test_another_byte_in_a_constant_is_refused(tmp_path: Path) -> None:
    made = RandomNodes("ref-exact", 5)
    nodes_of_truth(made, constant=True)
    sections = {kind: bytes(data) for kind, data in container.unpack(encode(made.graph())).items()}
    held = (BYTES != 0).tobytes()
    assert sections[b"DATA"].count(held) == 1
    sections[b"DATA"] = sections[b"DATA"].replace(held, BYTES.tobytes())
    assert "constant t0: element 2 of bool is 2, wanted 0 or 1" in refusal(container.pack(sections), tmp_path)


def test_another_byte_around_a_bool_is_refused(tmp_path: Path) -> None:
    made = RandomNodes("ref-exact", 5)
    mask = made.plain(BYTES != 0)
    made.node("pad", (mask,), made.plain_output("bool", (9,)), (0, 2, 1))
    assert "word 1 is 2, wanted 0 or 1 for a bool" in refusal(encode(made.graph()), tmp_path)
