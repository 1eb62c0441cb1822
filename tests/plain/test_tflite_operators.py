"""Every operator of a .tflite that is converted, by itself: simulator and qvrt against LiteRT's reference kernels."""

from __future__ import annotations

import json
from importlib.util import find_spec

import numpy as np
import pytest
from qverify.cli.main import main
from qverify.inputs.random_inputs import random_inputs
from qverify.model_bin.units import units
from qverify.session.host_sides import HostSides
from qverify.session.models import Models
from qverify.sides.simulator import Simulator

from tests import tflite_operators
from tests.plain.test_tflite_alone import opened
from tests.tflite_files import File
from tests.tflite_operators import Case, joined

pytestmark = pytest.mark.skipif(find_spec("ai_edge_litert") is None, reason="ai-edge-litert is not installed")


def differing(models: Models, seed: int) -> tuple[int, int]:
    """Returns how many elements of simulator and reference differ, each node on the reference's inputs, and of how
    many."""
    reference, simulator = HostSides(models).reference(), Simulator(models.graph)
    prepared = random_inputs(models.graph, seed)
    recording = reference.run(prepared)
    assert recording.state != "did not run", recording.why
    values, apart, every = {**prepared.arrays(), **recording.tensors}, 0, 0
    for unit in units(models.graph):
        given = {n: values[n] for n in unit.inputs}
        made, again = simulator.run_unit(unit, given), reference.run_unit(unit, given)
        for name in unit.outputs:
            assert np.array_equal(again[name], values[name]), name  # the cut operators are those of the file
            assert made[name].dtype == values[name].dtype and made[name].shape == values[name].shape
            apart, every = apart + int((made[name] != values[name]).sum()), every + made[name].size
    return apart, every


GROUPS = ("movements", "tables", "elementwise", "reductions", "products", "resizes")
AT_ONCE = 25  # operators in a file for qvrt


def every_case() -> list[tuple[Case, str]]:
    return [(c, dtype) for group in GROUPS for c in getattr(tflite_operators, group)() for dtype in c.dtypes]


def of_one_kind() -> list[pytest.param]:
    kinds: dict[tuple[str, str], list[tuple[Case, str]]] = {}
    for case, dtype in every_case():
        kinds.setdefault((case.kind, dtype), []).append((case, dtype))
    return [pytest.param(cases, id=f"{kind}-{dtype}") for (kind, dtype), cases in kinds.items()]


@pytest.mark.parametrize("cases", of_one_kind())
def test_the_operator_is_equal(cases, tmp_path):
    """All variants of an operator, side by side in one file."""
    apart, every = differing(opened(joined(cases, 0), tmp_path), 0)
    assert apart == 0 < every


@pytest.mark.parametrize("at", range(0, len(every_case()), AT_ONCE))
def test_qvrt_computes_the_same(at, tmp_path):
    """Operators in one file, on the board of this host."""
    (tmp_path / "m.tflite").write_bytes(joined(every_case()[at : at + AT_ONCE], 1))
    report = tmp_path / "report.json"
    assert main(["-m", str(tmp_path / "m.tflite"), "-b", "local", "-r", "True", "-q", "--json", str(report)]) == 0
    pairs = json.loads(report.read_text())["pairs"]
    assert len(pairs) == 3 and all(p["verdict"] == "PASSED" and p["bit_equal"] for p in pairs)


def test_shapes_that_are_computed_become_constants(tmp_path):
    """SHAPE, STRIDED_SLICE, MUL and PACK make the dims of a RESHAPE, whose input is no input of the network."""
    f = File()
    x, h = f.tensor("x", [2, 3, 4, 5], scale=0.05, zero=-7), f.tensor("h", [2, 3, 4, 5], scale=0.05, zero=-7)
    f.operator("RELU", [x], [h])
    dims, n, many, all_of = (f.tensor(k, s, "int32", None) for k, s in (("s", [4]), ("n", []), ("m", []), ("p", [2])))
    f.operator("SHAPE", [h], [dims], "ShapeOptions", outType=2)
    places = [f.tensor(f"c{v}", [1], "int32", None, value=np.array([v], np.int32)) for v in (0, 1)]
    how = {"shrinkAxisMask": 1}
    f.operator("STRIDED_SLICE", [dims, places[0], places[1], places[1]], [n], "StridedSliceOptions", **how)
    thirty = f.tensor("thirty", [], "int32", None, value=np.array(30, np.int32))
    f.operator("MUL", [n, thirty], [many], "MulOptions")
    two = f.tensor("two", [], "int32", None, value=np.array(2, np.int32))
    f.operator("PACK", [two, many], [all_of], "PackOptions", valuesCount=2, axis=0)
    y, z = f.tensor("y", [2, 60], scale=0.05, zero=-7), f.tensor("z", [2, 60], scale=0.1, zero=3)
    f.operator("RESHAPE", [h, all_of], [y], "ReshapeOptions", newShape=[2, 60])
    f.operator("LEAKY_RELU", [y], [z], "LeakyReluOptions", alpha=0.1)
    f.inputs, f.outputs = [x], [z]
    models = opened(f.written(), tmp_path)
    assert {n.op for n in models.graph.nodes} == {"lookup", "transpose", "reshape"}
    apart, every = differing(models, 0)
    assert apart == 0 < every


@pytest.mark.parametrize("kind", ["SELECT", "SELECT_V2"])
@pytest.mark.parametrize("first", [(1, 6, 7, 5), (1, 1, 7, 1), (1,)])
def test_a_choice_by_a_comparison_is_equal(kind, first, tmp_path):
    if (kind == "SELECT") == (len(first) == 4 and first[1] == 1):
        pytest.skip("SELECT does not broadcast, and takes one condition for each first index")
    f, shape = File(), [1, 6, 7, 5]
    values = np.random.default_rng(0).integers(-128, 128, first)
    a, b = f.tensor("a", list(first), scale=0.05, zero=3), f.tensor("b", shape, scale=0.07, zero=-20)
    c, mask = f.tensor("c", list(first), scale=0.05, zero=3, value=values), f.tensor("m", list(first), "bool", None)
    d, y = f.tensor("d", shape, scale=0.07, zero=-20), f.tensor("y", shape, scale=0.07, zero=-20)
    f.operator("LESS", [a, c], [mask], "LessOptions")
    f.operator(kind, [mask, b, d], [y], "SelectOptions" if kind == "SELECT" else "SelectV2Options")
    f.inputs, f.outputs = [a, b, d], [y]
    apart, every = differing(opened(f.written(), tmp_path), 0)
    assert apart == 0 < every


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("same", [False, True])
@pytest.mark.parametrize("steps", [(1, 1), (2, 2), (2, 3)])
@pytest.mark.parametrize("dtype, per_channel", [("int8", False), ("int8", True), ("uint8", False)])
def test_transposed_convolutions_are_equal(dtype, per_channel, steps, same, bias, tmp_path):
    data = tflite_operators.transposed_convolution(dtype, per_channel, steps, same, bias)
    apart, every = differing(opened(data, tmp_path), 0)
    assert apart == 0 < every


@pytest.mark.parametrize("shape", [(4, 6, 8), (1, 3, 6, 8), (2, 3, 4, 8)])
def test_fully_connected_may_keep_its_dims(shape, tmp_path):
    f, rng = File(), np.random.default_rng(0)
    x = f.tensor("x", list(shape), scale=0.04, zero=3)
    w = f.tensor("w", [5, 8], scale=0.007, value=rng.integers(-127, 128, (5, 8)))
    b = f.tensor("b", [5], "int32", np.float32(0.04) * np.float32(0.007), 0, rng.integers(-4000, 4000, 5))
    y = f.tensor("y", [*shape[:-1], 5], scale=0.11, zero=-8)
    how = {"keepNumDims": True, "fusedActivationFunction": 1}
    f.operator("FULLY_CONNECTED", [x, w, b], [y], "FullyConnectedOptions", **how)
    f.inputs, f.outputs = [x], [y]
    apart, every = differing(opened(f.written(), tmp_path), 0)
    assert apart == 0 < every


def test_broadcast_to_repeats_elements(tmp_path):
    """LiteRT's reference kernels lack it."""
    f = File()
    x, y = f.tensor("x", [9, 1], scale=0.05, zero=3), f.tensor("y", [1, 2, 9, 4], scale=0.05, zero=3)
    dims = f.tensor("dims", [4], "int32", None, value=np.array([1, 2, 9, 4], np.int32))
    f.operator("BROADCAST_TO", [x, dims], [y])
    f.inputs, f.outputs = [x], [y]
    models = opened(f.written(), tmp_path)
    prepared = random_inputs(models.graph, 0)
    made = Simulator(models.graph).run(prepared).tensors["y"]
    wanted = np.broadcast_to(prepared.arrays()["x"], (1, 2, 9, 4)).transpose(0, 3, 1, 2)
    assert np.array_equal(made, wanted)


def test_the_largest_and_their_places_are_equal(tmp_path):
    f = File()
    x, k = f.tensor("x", [6, 400], scale=0.05, zero=3), f.tensor("k", [], "int32", None, value=np.array(70, np.int32))
    values, places = f.tensor("v", [6, 70], scale=0.05, zero=3), f.tensor("i", [6, 70], "int32", None)
    f.operator("TOPK_V2", [x, k], [values, places], "TopKV2Options")
    f.inputs, f.outputs = [x], [values, places]
    apart, every = differing(opened(f.written(), tmp_path), 0)  # of 256 values, so that there are ties
    assert apart == 0 < every
