"""Operators on floats of a .tflite alone: LiteRT's reference kernels and the simulator agree, with weights of float32, float16,
and integers of 8, 4 and 2 bits, beside which LiteRT quantizes the input when it runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from qverify.cli.main import main
from qverify.compare.documented_rounding import explain
from qverify.errors import UnsupportedError
from qverify.inputs.random_inputs import random_inputs
from qverify.model_bin.units import is_part, units
from qverify.session.host_sides import HostSides
from qverify.session.models import open_models
from qverify.sides.simulator import Simulator
from qverify.tflite_model.convert import convert
from qverify.tflite_model.float_constants import with_float_constants
from qverify.tflite_model.read_tflite import read_tflite

from tests.plain.test_tflite_alone import compared, opened
from tests.tflite_files import File, schema

pytestmark = pytest.mark.skipif(find_spec("ai_edge_litert") is None, reason="ai-edge-litert is not installed")
ULPS = 2.0**-20  # of the largest value: sums of float32 in several orders
WINDOW = {"strideH": 1, "strideW": 1, "dilationHFactor": 1, "dilationWFactor": 1, "padding": 0}


def product(
    kind: str, weights: str, *, many: bool = True, activation: int = 0, act: str = "float32", seed: int = 0, **how: Any
) -> bytes:
    """Returns a CONV_2D, DEPTHWISE_CONV_2D or FULLY_CONNECTED. weights: their type; `float16` ones and `int8 real` ones are
    turned into float32 by a DEQUANTIZE. act: type of input and output."""
    rng, f, dense = np.random.default_rng(seed), File(), kind == "FULLY_CONNECTED"
    channels, outputs = (64, 32) if dense else (8, 8)
    dims = {"CONV_2D": [outputs, 3, 3, channels], "DEPTHWISE_CONV_2D": [1, 3, 3, outputs]}.get(
        kind, [outputs, channels]
    )
    axis = 3 if kind == "DEPTHWISE_CONV_2D" else 0
    scale = {"float32": None, "int8": 0.05, "int16": 0.001}[act]
    x = f.tensor("x", [60, channels] if dense else [2, 12, 12, channels], act, scale, 3 if act == "int8" else 0)
    steps = rng.uniform(0.002, 0.01, outputs if many else 1).astype(np.float32)
    stored, _, real = weights.partition(" ")
    if stored.startswith("float"):
        w = f.tensor("w", dims, stored, None, value=rng.normal(0, 0.3, dims))
    else:
        limit = 2 ** (int(stored[3:]) - 1)
        lowest = (
            -127 if stored == "int8" else -limit
        )  # LiteRT's x86 kernel of such a FULLY_CONNECTED computes -128 wrongly
        w = f.tensor("w", dims, stored, steps, 0, rng.integers(lowest, limit, dims), axis=axis)
    if stored == "float16" or real:
        whole = f.tensor("real", dims, "float32", None)
        f.operator("DEQUANTIZE", [w], [whole])
        w = whole
    if act == "float32":
        b = f.tensor("b", [outputs], "float32", None, value=rng.normal(size=outputs))
    else:
        kept = "int32" if act == "int8" else "int64"
        b = f.tensor("b", [outputs], kept, np.float32(scale) * steps, 0, rng.integers(-500, 500, outputs))
    to = {"float32": None, "int8": 0.1, "int16": 0.004}[act]
    y = f.tensor("y", [60, outputs] if dense else [2, 12, 12, outputs], act, to, -4 if act == "int8" else 0)
    more = {} if dense else {**WINDOW, **({"depthMultiplier": 1} if axis else {})}
    table = {"CONV_2D": "Conv2DOptions", "DEPTHWISE_CONV_2D": "DepthwiseConv2DOptions"}.get(
        kind, "FullyConnectedOptions"
    )
    f.operator(kind, [x, w, b], [y], table, fusedActivationFunction=activation, **more, **how)
    f.inputs, f.outputs = [x], [y]
    return f.written()


def plain(
    kind: str, table: str = "", shape: tuple[int, ...] = (3, 40), to: Any = None, constant: Any = None, **how: Any
) -> bytes:
    """Returns an operator with one input of float32, or two. constant: a second input, of int32."""
    f = File()
    x = f.tensor("x", list(shape), "float32", None)
    more = (
        [f.tensor("c", list(np.shape(constant)), "int32", None, value=np.array(constant))]
        if constant is not None
        else []
    )
    given = [x, *more]
    if kind in ("ADD", "SUB", "MUL", "DIV", "MAXIMUM", "SQUARED_DIFFERENCE"):
        given.append(f.tensor("z", list(shape), "float32", None))
    y = f.tensor("y", list(to or shape), "float32", None)
    f.operator(kind, given, [y], table, **how)
    f.inputs, f.outputs = [i for i in given if i not in more], [y]
    return f.written()


POOL = {"strideH": 2, "strideW": 2, "filterHeight": 2, "filterWidth": 2, "padding": 1, "fusedActivationFunction": 1}
IMAGE, HALF = (1, 8, 8, 4), (1, 4, 4, 4)
DENSE = partial(product, "FULLY_CONNECTED")
DYNAMIC: dict[str, Callable[[], bytes]] = {
    **{
        f"FULLY_CONNECTED {w} {'asymmetric' if a else 'symmetric'} {'per channel' if m else 'one scale'}": partial(
            DENSE, w, many=m, asymmetricQuantizeInputs=a
        )
        for w in ("int8", "int4", "int2")
        for a in (False, True)
        for m in (False, True)
    },
    **{
        f"CONV_2D {w} {'per channel' if m else 'one scale'}": partial(product, "CONV_2D", w, many=m, activation=1)
        for w in ("int8", "int4")
        for m in (False, True)
    },
    "DEPTHWISE_CONV_2D int8": partial(product, "DEPTHWISE_CONV_2D", "int8"),
}
FLOATS: dict[str, Callable[[], bytes]] = {
    **{
        f"{kind} {w}": partial(product, kind, w, activation=a)
        for kind, a in (("CONV_2D", 1), ("DEPTHWISE_CONV_2D", 3), ("FULLY_CONNECTED", 0))
        for w in ("float32", "float16", "int8 real")
    },
    "ADD": partial(plain, "ADD", "AddOptions", fusedActivationFunction=3),
    "SUB": partial(plain, "SUB", "SubOptions"),
    "MUL": partial(plain, "MUL", "MulOptions"),
    "MAXIMUM": partial(plain, "MAXIMUM", "MaximumMinimumOptions"),
    "SQUARED_DIFFERENCE": partial(plain, "SQUARED_DIFFERENCE", "SquaredDifferenceOptions"),
    "SOFTMAX": partial(plain, "SOFTMAX", "SoftmaxOptions", beta=1.0),
    "LOGISTIC": partial(plain, "LOGISTIC"),
    "TANH": partial(plain, "TANH"),
    "ABS": partial(plain, "ABS", "AbsOptions"),
    "LEAKY_RELU": partial(plain, "LEAKY_RELU", "LeakyReluOptions", alpha=0.2),
    "HARD_SWISH": partial(plain, "HARD_SWISH", "HardSwishOptions"),
    "AVERAGE_POOL_2D": partial(plain, "AVERAGE_POOL_2D", "Pool2DOptions", IMAGE, HALF, **POOL),
    "MAX_POOL_2D": partial(plain, "MAX_POOL_2D", "Pool2DOptions", IMAGE, HALF, **POOL),
    "MEAN": partial(plain, "MEAN", "ReducerOptions", IMAGE, (1, 4), [1, 2], keepDims=False),
    "SUM": partial(plain, "SUM", "ReducerOptions", (3, 40), (3, 1), [1], keepDims=True),
    "RESIZE_BILINEAR": partial(
        plain, "RESIZE_BILINEAR", "ResizeBilinearOptions", IMAGE, (1, 13, 9, 4), [13, 9], halfPixelCenters=True
    ),
    "RESHAPE": partial(plain, "RESHAPE", "ReshapeOptions", IMAGE, (1, 256), [1, 256]),
}


def apart(data: bytes, tmp_path: Path) -> tuple[float, float]:
    """The largest difference of the simulator's y from LiteRT's, and the largest value."""
    models = opened(data, tmp_path)
    reference, simulator = HostSides(models).reference(), Simulator(models.graph)
    prepared = random_inputs(models.graph, 0)
    values = {**prepared.arrays(), **reference.run(prepared).tensors}
    unit = next(u for u in units(models.graph) if "y" in u.outputs)
    made = simulator.run_unit(unit, {n: values[n] for n in unit.inputs})["y"]
    again = reference.run_unit(unit, {n: values[n] for n in unit.inputs})["y"]
    assert np.array_equal(again, values["y"]) and len(np.unique(made)) > 2
    return float(np.abs(made - values["y"]).max()), float(np.abs(values["y"]).max())


@pytest.mark.parametrize("name", [*DYNAMIC, *FLOATS])
def test_the_simulator_gives_what_litert_does(name: str, tmp_path: Path) -> None:
    """A wrong rounding of one element of the input would be some hundred times the limit."""
    difference, largest = apart((DYNAMIC | FLOATS)[name](), tmp_path)
    assert difference <= ULPS * largest


@pytest.mark.parametrize(
    ("weights", "kind", "act"),
    [
        *(("int4", kind, "int8") for kind in ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED")),
        *(("int4", kind, "int16") for kind in ("CONV_2D", "FULLY_CONNECTED")),
        *(("int2", "FULLY_CONNECTED", act) for act in ("int8", "int16")),
    ],
)
def test_packed_weights_beside_integers_are_equal(weights: str, kind: str, act: str, tmp_path: Path) -> None:
    for many in (False, True):
        assert compared(opened(product(kind, weights, many=many, act=act), tmp_path)) == {"y": 0}


@pytest.mark.parametrize(
    ("weights", "kind", "act"), [("int2", "CONV_2D", "float32"), ("int4", "DEPTHWISE_CONV_2D", "int16")]
)
def test_packed_weights_that_litert_reads_as_bytes_are_run_as_bytes(
    weights: str, kind: str, act: str, tmp_path: Path
) -> None:
    data = product(kind, weights, act=act)
    with pytest.raises(
        UnsupportedError, match=f"weights of {weights} beside an input of {act}, which LiteRT's kernels"
    ):
        convert(read_tflite(data, "m.tflite"))
    models = opened(data, tmp_path)
    assert [
        c for c in models.caveats if f"weights of {weights} that LiteRT's kernels do not unpack are run as int8" in c
    ]
    if act == "int16":
        assert compared(models) == {"y": 0}
        return
    difference, largest = apart(data, tmp_path)
    assert difference <= ULPS * largest


def test_constants_of_a_dequantize_are_floats() -> None:
    for weights in ("float16", "int8 real"):
        model = read_tflite(product("FULLY_CONNECTED", weights), "m.tflite")
        folded = with_float_constants(model)
        assert [o.kind for o in model.operators] == ["DEQUANTIZE", "FULLY_CONNECTED"]
        assert [o.kind for o in folded.operators] == ["FULLY_CONNECTED"]
        stored, real = (folded.tensors[i] for i in (1, 2))
        assert stored.data is not None and real.data is not None and real.data.dtype == np.float32
        each = stored.data.astype(np.float32) * (stored.scale[:, None] if stored.scale.size else np.float32(1))
        assert np.array_equal(real.data, each)


def test_parts_of_a_tensor() -> None:
    assert is_part("y@step1", "y") and is_part("y@step1", "y@step2") and is_part("y@2@step1", "y@2")
    assert not is_part("y", "y") and not is_part("y@step1", "z") and not is_part("y@step1", "yz")


def mixed() -> bytes:
    """Returns floats, then a part of int8, then floats with weights of int8 that are quantized when it runs."""
    rng, f = np.random.default_rng(0), File()
    x, q = f.tensor("x", [4, 64], "float32", None), f.tensor("q", [4, 64], "int8", 0.01, 5)
    w = f.tensor("w", [32, 64], "int8", 0.01, 0, rng.integers(-127, 128, (32, 64)))
    b = f.tensor("b", [32], "int32", 0.0001, 0, rng.integers(-900, 900, 32))
    y, r = f.tensor("y", [4, 32], "int8", 0.03, -3), f.tensor("r", [4, 32], "float32", None)
    v = f.tensor("v", [10, 32], "int8", 0.02, 0, rng.integers(-127, 128, (10, 32)))
    z, s = f.tensor("z", [4, 10], "float32", None), f.tensor("s", [4, 10], "float32", None)
    f.operator("QUANTIZE", [x], [q])
    f.operator("FULLY_CONNECTED", [q, w, b], [y], "FullyConnectedOptions")
    f.operator("DEQUANTIZE", [y], [r])
    f.operator("FULLY_CONNECTED", [r, v], [z], "FullyConnectedOptions", asymmetricQuantizeInputs=True)
    f.operator("SOFTMAX", [z], [s], "SoftmaxOptions", beta=1.0)
    f.inputs, f.outputs = [x], [s]
    return f.written()


@pytest.mark.parametrize("data", [mixed, DYNAMIC["CONV_2D int8 per channel"], FLOATS["CONV_2D float16"]])
def test_the_main_job_with_qvrt(data: Callable[[], bytes], tmp_path: Path) -> None:
    (tmp_path / "m.tflite").write_bytes(data())
    command = ["-m", str(tmp_path / "m.tflite"), "-b", "local", "-r", "True", "-q", "--json", str(tmp_path / "r.json")]
    assert main(command) == 0
    pairs = {(p["a"], p["b"]): p for p in json.loads((tmp_path / "r.json").read_text())["pairs"]}
    assert pairs["simulator", "board"]["bit_equal"] and len(pairs) == 3
    names = {row["name"] for row in pairs["reference", "simulator"]["tensors"]}
    assert not any("@" in name for name in names) and len(names) >= 1


def test_a_resize_of_floats_is_judged_by_the_bound_of_its_elements(tmp_path: Path) -> None:
    models = opened(FLOATS["RESIZE_BILINEAR"](), tmp_path)
    reference, prepared = HostSides(models).reference(), random_inputs(models.graph, 0)
    values = {**prepared.arrays(), **reference.run(prepared).tensors}
    unit = next(u for u in units(models.graph) if "y" in u.outputs)
    given = {n: values[n] for n in unit.inputs}
    made = Simulator(models.graph).run_unit(unit, given)["y"]
    right = explain(unit, "y", models.graph, given, made, values["y"], "litert-reference", "")
    assert right.evaluated and not right.unexplained
    wrong = values["y"].copy()
    wrong.reshape(-1)[7] += np.float32(1e-3)
    found = explain(unit, "y", models.graph, given, made, wrong, "litert-reference", "")
    assert (
        found.evaluated and found.unexplained == 1 and found.positions is not None and found.positions.tolist() == [7]
    )


def in_blocks(dtype: str, block: int = 32) -> bytes:
    """Returns a FULLY_CONNECTED of floats whose weights have a scale for each block of a row."""
    rng, f, outputs, length = np.random.default_rng(0), File(), 24, 128
    levels = {"int8": 127, "int4": 7, "int2": 1}[dtype]
    x, y = f.tensor("x", [3, length], "float32", None), f.tensor("y", [3, outputs], "float32", None)
    steps = rng.uniform(0.01, 0.1, (outputs, length // block)).astype(np.float16)
    scales = f.tensor("scales", [*steps.shape], "float16", None, value=steps)
    w = f.tensor("w", [outputs, length], dtype, None, value=rng.integers(-levels, levels + 1, (outputs, length)))
    b = f.tensor("b", [outputs], "float32", None, value=rng.normal(size=outputs).astype(np.float32))
    s = schema()
    blocks = s.BlockwiseQuantizationT()
    blocks.scales, blocks.zeroPoints, blocks.blockSize = scales, -1, block
    f.tensors[w].quantization = s.QuantizationParametersT()
    f.tensors[w].quantization.detailsType = s.QuantizationDetails.BlockwiseQuantization
    f.tensors[w].quantization.details = blocks
    f.operator("FULLY_CONNECTED", [x, w, b], [y], "FullyConnectedOptions")
    f.inputs, f.outputs = [x], [y]
    return f.written()


def test_weights_in_blocks_have_the_kernels_that_read_them_as_reference(tmp_path, capsys):
    """LiteRT's reference kernels take every scale as 0."""
    path = tmp_path / "m.tflite"
    path.write_bytes(in_blocks("int4"))
    assert main(["-m", str(path), "-b", "local", "-r", "True"]) == 0
    out = capsys.readouterr().out
    assert "the reference is XNNPACK: LiteRT's reference kernels do not read the scales of blocks" in out
    assert "on the host" not in out


@pytest.mark.parametrize(("dtype", "block"), [("int2", 32), ("int8", 32), ("int4", 16)])
def test_weights_in_blocks_that_no_kernels_read_are_run_as_floats(dtype, block, tmp_path, capsys):
    path = tmp_path / "m.tflite"
    path.write_bytes(in_blocks(dtype, block))
    assert main(["-m", str(path), "-b", "local", "-r", "True"]) == 0
    line = "weights in blocks are run as floats (first operator 0 (FULLY_CONNECTED)): no kernels of LiteRT here read their scales"
    assert capsys.readouterr().out.count(line) == 3
    read = read_tflite(path.read_bytes(), "m.tflite")
    weights, steps, bias = (read.tensors[i].data for i in (3, 2, 4))
    models = open_models([str(path)])
    prepared = random_inputs(models.graph, 0)
    made = HostSides(models).run(prepared, True).recordings["simulator"].tensors["y"]
    real = weights.astype(np.float64) * np.repeat(steps.astype(np.float64), block, axis=1)
    assert np.allclose(made, prepared.arrays()["x"].astype(np.float64) @ real.T + bias, rtol=0, atol=1e-4)
    with pytest.raises(
        UnsupportedError, match=f"weights of {dtype} with a scale for each block of {block}, which LiteRT's reference"
    ):
        convert(read)
