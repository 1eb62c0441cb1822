"""Laws L1 and L3 on random nodes: simulator == fast kernels == plain kernels, bit for bit, in every rounding mode."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
import xxhash
from qverify.model_bin.graph import ROUNDINGS
from qverify.model_bin.records import encode
from qverify.ops import simulate_node

from tests.ops.case_files import RANDOM_NODES
from tests.ops.random_nodes import RandomNodes
from tests.ops.runtime_library import COMPILER, binary

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C compiler on this machine")
TIMES = 4  # each op's random nodes are made


def digests(program: Path, folder: Path, names: list[str], *flags: str) -> dict[str, str]:
    files = ",".join(f"{i}.bin" for i in range(len(names)))
    command = [str(program), "infer", "--model_file=model.bin", f"--input_file={files}", "--digests", *flags]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[:1000]
    return {
        line.split()[1]: line.split()[0]
        for line in done.stdout.splitlines()
        if len(line.split()) == 3 and len(line.split()[0]) == 16
    }


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_random_nodes(rounding: str, tmp_path: Path) -> None:
    """Of the runtime as it is built and of the one under AddressSanitizer and UndefinedBehaviorSanitizer."""
    seed = 1000 + ROUNDINGS.index(rounding)
    made = RandomNodes(rounding, seed)
    for random_nodes in RANDOM_NODES.values():
        before = made.requantized
        random_nodes(made)
        for _ in range(
            TIMES - 1 if made.requantized > before or rounding == ROUNDINGS[0] else 0
        ):  # others have no mode
            random_nodes(made)
    graph = made.graph()
    (tmp_path / "model.bin").write_bytes(encode(graph))
    names = list(made.values)
    for i, name in enumerate(names):
        (tmp_path / f"{i}.bin").write_bytes(np.ascontiguousarray(made.values[name]).tobytes())
    ways = [
        digests(binary(sanitized), tmp_path, names, *flags)
        for sanitized in (False, True)
        for flags in ((), ("--plain",))
    ]
    assert [len(way) for way in ways] == [len(graph.outputs)] * 4
    for node in graph.nodes:
        for name, want in simulate_node(graph, node, made.values).items():
            digest = xxhash.xxh64(np.ascontiguousarray(want).tobytes(), seed=0).hexdigest()
            found = [way[name] for way in ways]
            assert found == [digest] * 4, f"{node.op} {name} {node.words}, seed {seed}, wanted {digest}: {found}"
