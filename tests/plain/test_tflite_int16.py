"""Operators on int16 of a .tflite alone: LiteRT's reference kernels, the simulator and qvrt give the same bytes."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import xxhash
from qverify.arithmetic import sigmoid_in_segments, softmax_in_segments
from qverify.arithmetic.forms import Form, multiplier_of
from qverify.cli.main import main
from qverify.errors import UnsupportedError
from qverify.inputs.random_inputs import random_inputs
from qverify.model_bin.records import encode
from qverify.ops import simulate_node
from qverify.session.tflite_alone import open_tflite

from tests.ops.runtime_library import COMPILER, binary
from tests.ops.test_runtime_equals_simulator import digests
from tests.plain.test_tflite_alone import compared, opened
from tests.tflite_cases import int16_cases
from tests.tflite_files import File

litert = pytest.mark.skipif(find_spec("ai_edge_litert") is None, reason="ai-edge-litert is not installed")
CASES = int16_cases()


@litert
@pytest.mark.parametrize("name", CASES)
def test_the_simulator_gives_what_litert_does(name: str, tmp_path: Path) -> None:
    for seed in (0, 1):
        apart = compared(opened(CASES[name](seed), tmp_path), seed)
        assert "y" in apart and max(apart.values()) == 0


@litert
@pytest.mark.skipif(COMPILER is None, reason="no C compiler")
@pytest.mark.parametrize("name", [n for n in CASES if "activation" not in n])
def test_qvrt_gives_what_the_simulator_does(name: str, tmp_path: Path) -> None:
    graph = opened(CASES[name](2), tmp_path).graph
    given = random_inputs(graph, 2).arrays()
    (tmp_path / "model.bin").write_bytes(encode(graph))
    for i, name_of in enumerate(graph.inputs):
        (tmp_path / f"{i}.bin").write_bytes(np.ascontiguousarray(given[name_of]).tobytes())
    values = dict(given)
    for node in graph.nodes:
        values |= simulate_node(graph, node, values)
    wanted = {n: xxhash.xxh64(np.ascontiguousarray(values[n]).tobytes(), seed=0).hexdigest() for n in graph.outputs}
    found = digests(binary(), tmp_path, list(graph.inputs), "--plain")
    assert {n: found[n] for n in wanted} == wanted


@litert
@pytest.mark.parametrize(
    "scale, said",
    [
        (2.0**-10 * (1 - 2.0**-18), "a multiplier that would be 2^15"),
        (2.0**-10 * (1 - 2.0**-17), "one whose first rounding makes it one more"),
    ],
)
def test_multipliers_near_a_power_of_two(scale: float, said: str, tmp_path: Path) -> None:
    f, rng = File(), np.random.default_rng(0)
    x = f.tensor("x", [1, 40, 40, 16], "int16", scale, 0)
    w = f.tensor("w", [8, 1, 1, 16], "int8", 2.0**-7, 0, rng.integers(-127, 128, (8, 1, 1, 16)))
    b = f.tensor("b", [8], "int64", scale * 2.0**-7, 0, rng.integers(-1000, 1000, 8))
    y = f.tensor("y", [1, 40, 40, 8], "int16", 2.0**-9, 0)
    f.operator("CONV_2D", [x, w, b], [y], "Conv2DOptions", strideH=1, strideW=1, padding=1, dilationHFactor=1, dilationWFactor=1)  # fmt: skip
    f.inputs, f.outputs = [x], [y]
    assert compared(opened(f.written(), tmp_path)) == {"y": 0}, said


def test_a_multiplier_made_of_one_of_31_bits() -> None:
    """It is at most 32767, and its two roundings may be one more than one of them."""
    form = Form.parse("mul15, multiplier made of one of 31 bits")
    assert [int(v[0]) for v in multiplier_of(form, [1 - 2.0**-18])] == [32767, 15]
    assert [int(v[0]) for v in multiplier_of(Form.parse("mul15"), [1 - 2.0**-18])] == [16384, 14]
    twice = (20000.5 - 2.0**-18) / 2**15
    assert [int(multiplier_of(Form.parse(t), [twice])[0][0]) for t in (str(form), "mul15")] == [20001, 20000]


def test_functions_in_segments() -> None:
    """Knots are the functions within the rise that makes up for the curve between them."""
    knots, x = sigmoid_in_segments.knots(), np.arange(256) / 24
    assert np.abs(knots / 2.0**16 - 1 / (1 + np.exp(-x))).max() < 1.3 * 2.0**-16
    with pytest.raises(ValueError, match="a scale of 6 cannot be represented"):
        sigmoid_in_segments.tanh(6.0, np.arange(3))
    table = softmax_in_segments.make_table(0.001)
    below = np.exp(-0.001 * np.arange(65535, -1, -1.0)) * 2.0**15
    assert np.abs(table[:65536] - below).max() < 9


@pytest.mark.parametrize("kind", ["ADD", "SUB"])
def test_additions_by_shifts_are_refused(kind: str) -> None:
    f = File()
    a, b, y = (f.tensor(n, [1, 8], "int16", 2.0**-k, 0) for n, k in zip("aby", (10, 12, 10), strict=True))
    f.operator(kind, [a, b], [y], f"{kind.capitalize()}Options", potScaleInt16=True)
    f.inputs, f.outputs = [a, b], [y]
    with pytest.raises(UnsupportedError, match="powers of two, which LiteRT adds by shifts"):
        open_tflite("m.tflite", f.written())


def test_sums_that_litert_lets_wrap_are_refused() -> None:
    f = File()
    a, b = f.tensor("a", [2, 256], "int16", 2e-5, 0), f.tensor("b", [256, 3], "int16", 5e-4, 0)
    y = f.tensor("y", [2, 3], "int16", 3e-9, 0)
    f.operator("BATCH_MATMUL", [a, b], [y], "BatchMatMulOptions")
    f.inputs, f.outputs = [a, b], [y]
    with pytest.raises(UnsupportedError, match="may exceed 32 bits, where they wrap"):
        open_tflite("m.tflite", f.written())


def test_operators_without_int16_say_so() -> None:
    f = File()
    x, y = f.tensor("x", [1, 6, 6, 4], "int16", 0.01, 0), f.tensor("y", [1, 4], "int16", 0.01, 0)
    axes = f.tensor("axes", [2], "int32", None, value=np.array([1, 2]))
    f.operator("SUM", [x, axes], [y], "ReducerOptions", keepDims=False)
    f.inputs, f.outputs = [x], [y]
    with pytest.raises(UnsupportedError, match="a tensor of int16; wanted int8 or uint8, or float32"):
        open_tflite("m.tflite", f.written())


def test_a_convolution_that_wraps_in_litert_is_the_reference_s_fault(tmp_path: Path) -> None:
    """Sums that are scaled beyond 32 bits: the kernel wraps, qverify saturates, and neither excuses the other."""
    f, rng = File(), np.random.default_rng(1)
    x = f.tensor("x", [1, 6, 6, 8], "int16", 0.01, 0)
    w = f.tensor("w", [5, 3, 3, 8], "int8", 0.01, 0, rng.integers(-127, 128, (5, 3, 3, 8)))
    b, y = f.tensor("b", [5], "int64", 1e-4, 0, np.zeros(5, np.int64)), f.tensor("y", [1, 4, 4, 5], "int16", 1e-6, 0)
    how = {"strideW": 1, "strideH": 1, "padding": 1, "dilationHFactor": 1, "dilationWFactor": 1}
    f.operator("CONV_2D", [x, w, b], [y], "Conv2DOptions", **how, fusedActivationFunction=0)
    f.inputs, f.outputs = [x], [y]
    (tmp_path / "m.tflite").write_bytes(f.written())
    words = ["-m", str(tmp_path / "m.tflite"), "-b", "local", "-r", "True", "--json", str(tmp_path / "r.json")]
    assert main(words) == 1
    report = json.loads((tmp_path / "r.json").read_text())
    assert [(b["side"], b["node"]) for b in report["blamed"]] == [("reference", "y")]
    assert [p["verdict"] for p in report["pairs"]] == ["FAILED", "FAILED", "PASSED"]
