"""Laws L1 and L3 on random nodes: simulator == fast kernels == plain kernels, bit for bit, in every rounding mode."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import xxhash
from qverify.errors import BadFileError
from qverify.model_bin import records
from qverify.model_bin.check_requantization import check_requantization
from qverify.model_bin.graph import ROUNDINGS, Graph
from qverify.model_bin.records import encode
from qverify.ops import MOVES, simulate_node, stems

from tests.ops.case_files import RANDOM_NODES
from tests.ops.random_nodes import RandomNodes
from tests.ops.runtime_library import COMPILER, HERE, binary

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


def instruction_sets(program: Path) -> list[str]:
    """Those of this processor, the best first."""
    done = subprocess.run([str(program), "--version"], capture_output=True, text=True, timeout=20, check=True)
    return done.stdout.partition("instructions of this processor:")[2].split()


@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_random_nodes(rounding: str, tmp_path: Path) -> None:
    """The runtime runs as it is built, and under AddressSanitizer and UndefinedBehaviorSanitizer."""
    seed = 1000 + ROUNDINGS.index(rounding)
    made = RandomNodes(rounding, seed, in_forms=True)
    for random_nodes in RANDOM_NODES.values():
        before = made.requantized
        random_nodes(made)
        for _ in range(
            TIMES - 1 if made.requantized > before or rounding == ROUNDINGS[0] else 0
        ):  # others have no mode
            random_nodes(made)
    agree(made, (binary(False), binary(True)), tmp_path, f"seed {seed}")


def agree(made: RandomNodes, programs: tuple[Path, ...], tmp_path: Path, said: str) -> dict[str, np.ndarray[Any, Any]]:
    """Asserts that the simulator and all kernels of every node in each program give equal bytes; returns them."""
    graph, outputs = made.graph(), {}
    (tmp_path / "model.bin").write_bytes(encode(graph))
    names = list(made.values)
    for i, name in enumerate(names):
        (tmp_path / f"{i}.bin").write_bytes(np.ascontiguousarray(made.values[name]).tobytes())
    flags = ["--plain", *(f"--instructions={name}" for name in instruction_sets(programs[0]))]
    ways = [digests(program, tmp_path, names, flag) for program in programs for flag in flags]
    assert [len(way) for way in ways] == [len(graph.outputs)] * len(ways)
    for node in graph.nodes:
        for name, want in simulate_node(graph, node, made.values).items():
            digest = xxhash.xxh64(np.ascontiguousarray(want).tobytes(), seed=0).hexdigest()
            found = [way[name] for way in ways]
            assert found == [digest] * len(ways), f"{node.op} {name} {node.words}, {said}, wanted {digest}: {found}"
            outputs[name] = want
    return outputs


def with_nans(values: np.ndarray[Any, Any], rng: np.random.Generator, often: float) -> np.ndarray[Any, Any]:
    """float32 values with NaNs of every sign and payload, and infinities, zeros of both signs among them; others as they are."""
    if values.dtype != np.float32:
        return values
    patterns = rng.integers(0x7F800001, 0x80000000, values.shape, np.uint32)
    patterns |= rng.integers(0, 2, values.shape, np.uint32) << 31
    infinite = np.where(rng.random(values.shape) < 0.5, np.inf, -np.inf).astype(np.float32)
    what = rng.random(values.shape)
    zero = np.copysign(np.float32(0), infinite)
    odd = np.where(what < 0.9 * often, patterns.view(np.float32), np.where(what < 1.1 * often, infinite, zero))
    return np.where(what < 1.5 * often, odd, values)


def nodes_of_nans(often: float) -> RandomNodes:
    """Every op's random nodes, and some of floats, on inputs of which this share is odd."""
    made = RandomNodes("ref-exact", 31)
    for random_nodes in RANDOM_NODES.values():
        random_nodes(made)
    for shape in ((70, 9), (90,)):
        x = made.floats(shape)
        made.node("reshape", (x,), made.float_output(shape[::-1]))
        made.node(
            "max_pool", (made.floats((1, 1, 9, 9)),), made.float_output((1, 1, 7, 7)), (3, 3, 1, 1, *[0] * 4, 1, 1)
        )
    made.values = {name: with_nans(value, made.rng, often) for name, value in made.values.items()}
    return made


@pytest.mark.parametrize("often", [0.02, 0.1, 0.5])
def test_nans_have_one_pattern(often: float, tmp_path: Path) -> None:
    """No architecture's own NaN is left in what a node computes; what only moves keeps its bits."""
    made = nodes_of_nans(often)
    outputs, found = agree(made, (binary(),), tmp_path, f"NaNs at {often}"), set()
    for node in made.nodes:
        for name in node.outputs:
            y = outputs[name]
            if y.dtype != np.float32 or not np.isnan(y).any():
                continue
            patterns = set(y.view(np.uint32)[np.isnan(y)].tolist())
            assert node.op in MOVES or patterns == {0x7FC00000}, f"{node.op} {node.words}"
            assert node.op != "reshape" or patterns != {0x7FC00000}
            found.add(node.op)
    assert {"layer_norm", "lrn", "softmax_float", "max_pool", "conv_float", "elementwise_float", "reshape"} <= found


def test_the_ops_that_move_are_the_same_in_c() -> None:
    text = (HERE / "src" / "ops" / "op.c").read_text().partition("MOVES[] = {")[2].partition("}")[0]
    assert re.findall(r'"(\w+)"', text) == sorted(MOVES) and set(stems()) > MOVES


def refused(graph: Graph, said: str, folder: Path) -> None:
    """Asserts that the runtime refuses to load the graph, and says this."""
    with mock.patch.object(records, "check_graph"):  # the host would not write it
        (folder / "model.bin").write_bytes(encode(graph))
    words = [str(binary(False)), "model_info", "--model_file=model.bin"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and said in done.stdout + done.stderr


@pytest.mark.parametrize(
    "op, spoil, said",
    [
        ("average_pool", lambda c: c.__setitem__(0, 65537), "its rq is 65537"),
        ("resize_linear", lambda c: c.__setitem__(0, 2049), "weight 0 is 2049"),
    ],
)
def test_parameters_in_litert_arithmetic_are_checked(op: str, spoil: Any, said: str, tmp_path: Path) -> None:
    """The last node of the op whose last input is one of these forms is spoilt."""
    made = RandomNodes("gemmlowp", 5)
    RANDOM_NODES[op](made)
    graph = made.graph()
    node = next(n for n in reversed(graph.nodes) if _integers(graph.constants[n.inputs[-1] or ""], 1))
    spoil(graph.constants[node.inputs[-1] or ""])
    refused(graph, said, tmp_path)


def _integers(value: np.ndarray[Any, Any], rank: int) -> bool:
    return value.dtype == np.int32 and value.ndim == rank


@pytest.mark.parametrize(
    "op, kind, spoil, said",
    [
        ("fully_connected", ("int32", 7), lambda c: c.__setitem__((6, 0), 65537), "adds 65537 to the result"),
        ("fully_connected", ("int32", 7), lambda c: c.__setitem__(4, 0x800), "rules 0x800"),
        ("mul", ("float32", 4), lambda c: c.__setitem__((0, 0), np.nan), "column 0 has nan"),
        ("mul", ("float32", 4), lambda c: c.__setitem__((1, 0), 0.5), "a whole number within 2^24"),
        ("mul", ("float32", 4), lambda c: c.__setitem__((3, 0), 70000), "a whole one within 65536"),
        ("add", ("int32", 4), lambda c: c.__setitem__((3, 1), -65537), "row 3 is"),
        ("add", ("int32", 4), lambda c: c.__setitem__((3, 4), 1), "row 3 is"),
        ("softmax", ("int32", 256), lambda c: c.__setitem__(9, -1), "entry 9 of its table is below 0"),
        ("global_average_pool", ("int32", 1), lambda c: c.__setitem__(0, -65537), "its rq is -65537"),
    ],
)
def test_parameters_of_methods_are_checked(
    op: str, kind: tuple[str, int], spoil: Any, said: str, tmp_path: Path
) -> None:
    """A node with a constant of this type and length is spoilt; qvrt and the host's reader refuse it, the latter but for
    tables, which it does not read as parameters."""
    made = RandomNodes("ref-exact", 7, in_forms=True)
    for _ in range(60):
        RANDOM_NODES[op](made)
    graph = made.graph()
    node = next(n for n in graph.nodes if n.op == op and _is_of(graph.constants.get(n.inputs[-1] or ""), kind))
    spoil(graph.constants[node.inputs[-1] or ""])
    refused(graph, said, tmp_path)
    if op != "softmax":
        with pytest.raises(BadFileError, match=re.escape(f"node {node.name!r} ({op}): its rq: ")):
            check_requantization(graph, node)


def _is_of(value: np.ndarray[Any, Any] | None, kind: tuple[str, int]) -> bool:
    return value is not None and (str(value.dtype), len(value)) == kind
