"""Operators of a .tflite that cannot be converted are computed by LiteRT on the host, named, and never counted; all around them
is verified."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from qverify.cli.main import main
from qverify.errors import BadFileError, UnsupportedError
from qverify.inputs.random_inputs import random_inputs
from qverify.model_bin.island_regions import Step, regions_of
from qverify.session.host_sides import HostSides
from qverify.session.models import open_models
from qverify.session.tflite_alone import open_tflite
from qverify.tflite_model.read_tflite import read_tflite
from qverify.tflite_model.state import state_tensors

from tests.tflite_files import File, schema

pytestmark = pytest.mark.skipif(find_spec("ai_edge_litert") is None, reason="ai-edge-litert is not installed")
LABEL = "computed on the host, not verified"
RNG = np.random.default_rng(0)


def dense(f: File, x: int, name: str, outputs: int = 8) -> int:
    """Adds a FULLY_CONNECTED of int8 with the weights of a file that a converter made."""
    length = f.tensors[x].shape[-1]
    w = f.tensor(f"{name}_w", [outputs, length], "int8", 0.01, 0, RNG.integers(-127, 128, (outputs, length)))
    y = f.tensor(name, [1, outputs], "int8", 0.06, 3)
    f.operator("FULLY_CONNECTED", [x, w], [y], "FullyConnectedOptions")
    return y


def sign(f: File, x: int, name: str, kind: str = "SIGN") -> int:
    """Adds a SIGN of the real values, which has no converter."""
    shape = f.tensors[x].shape
    real, out = (f.tensor(f"{name}_{k}", shape, "float32", None) for k in ("real", "sign"))
    y = f.tensor(name, shape, "int8", 0.01, -5)
    f.operator("DEQUANTIZE", [x], [real])
    f.operator(kind, [real], [out])
    f.operator("QUANTIZE", [out], [y])
    return y


def network(between: int = 1, last: bool = False) -> bytes:
    """Returns FULLY_CONNECTED, SIGN, FULLY_CONNECTED and so on. last: whether a SIGN is the last."""
    f = File()
    x = y = f.tensor("x", [1, 8], "int8", 0.04, 1)
    for k in range(between):
        y = sign(f, dense(f, y, f"fc{k}"), f"s{k}")
    y = y if last else dense(f, y, "out", 4)
    f.inputs, f.outputs = [x], [y]
    return f.written()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "m.tflite"
    path.write_bytes(network())
    return path


@pytest.mark.parametrize(("between", "last"), [(1, False), (2, False), (1, True), (3, True)])
def test_all_around_an_island_is_verified(between: int, last: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path, report = tmp_path / "m.tflite", tmp_path / "r.json"
    path.write_bytes(network(between, last))
    assert main(["-m", str(path), "-b", "local", "-r", "True", "--json", str(report)]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "Strict check" in line]
    said = json.loads(report.read_text())
    assert len(lines) == 3 and all("PASSED" in line and LABEL in line for line in lines)
    assert [n["op"] for n in said["on_host"]] == ["SIGN"] * between and "no converter" in said["on_host"][0]["why"]
    names = {t["name"] for t in said["pairs"][0]["tensors"]}
    assert {f"fc{k}" for k in range(between)} <= names and ("out" in names) == (not last)
    assert not names.intersection(f"s{k}_sign" for k in range(between))
    assert {s for p in said["pairs"] for s in (p["a"], p["b"])} == {"reference", "simulator", "board"}


def test_a_board_that_is_wrong_behind_an_island_fails(file: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["-m", str(file), "-b", "faulty:local?fault=plus_one@out", "-r", "True"]) == 1, capsys.readouterr()
    assert "blame: board at out" in capsys.readouterr().out


def test_a_model_bin_belongs_to_its_file(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    binary, capture = tmp_path / "m.bin", tmp_path / "capture"
    assert main(["compile", str(file), "-o", str(binary)]) == 0
    assert f"{LABEL}: s0_sign (SIGN): no converter for it" in capsys.readouterr().out
    assert main(["-m", f"{file},{binary}", "-b", "local", "-r", "True", "--capture", str(capture)]) == 0
    assert main(["replay", str(capture), "-r", "True"]) == 0
    assert LABEL in capsys.readouterr().out
    other = tmp_path / "other.tflite"
    other.write_bytes(network(2))
    assert main(["-m", f"{other},{binary}", "-b", "local", "-r", "True"]) == 2


def test_what_needs_the_host_is_refused_where_it_may_not(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert main(["-m", str(file), "--no-host"]) == 2
    assert "SIGN: no converter for it" in capsys.readouterr().err
    assert main(["compile", str(file), "--no-host", "-o", str(tmp_path / "m.bin")]) == 2
    assert f"Next: qverify -m {file.name} --runtime litert -b BOARD" in capsys.readouterr().err


def test_a_file_of_which_nothing_is_left_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    f = File()
    x = f.tensor("x", [1, 8], "int8", 0.04, 1)
    f.inputs, f.outputs = [x], [sign(f, x, "s")]
    path = tmp_path / "m.tflite"
    path.write_bytes(f.written())
    assert main(["-m", str(path), "-b", "local", "-r", "True"]) == 2
    said = capsys.readouterr().err
    assert (
        "SIGN: no converter for it" in said and "nothing would be left to verify" in said and "--runtime litert" in said
    )


def test_an_operator_that_is_not_the_same_alone_makes_no_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Random numbers: what the island of one side draws is not what another draws."""
    f = File()
    x = f.tensor("x", [1, 8], "int8", 0.04, 1)
    dims = f.tensor("dims", [2], "int32", None, value=np.array([1, 8]))
    drawn, y = f.tensor("drawn", [1, 8], "float32", None), f.tensor("y", [1, 8], "int8", 0.01, 0)
    f.operator("RANDOM_UNIFORM", [dims], [drawn], "RandomOptions", seed=0, seed2=0)
    f.operator("QUANTIZE", [drawn], [y])
    z = f.tensor("z", [1, 8], "int8", 0.05, 0)
    f.operator("ADD", [dense(f, x, "fc"), y], [z], "AddOptions")
    f.inputs, f.outputs = [x], [z]
    path = tmp_path / "m.tflite"
    path.write_bytes(f.written())
    assert main(["-m", str(path), "-b", "local", "-r", "True"]) == 2
    assert "drawn: LiteRT gives other bytes of it in each run" in capsys.readouterr().err


def test_regions_do_not_depend_on_themselves_through_the_board():
    """h1 and h3 are connected, but h3 also waits for the board's b2, which reads h1."""
    steps = [
        Step("h1", ["x"], ["a"], True),
        Step("b2", ["a"], ["b"], False),
        Step("h3", ["a", "b"], ["c"], True),
        Step("h4", ["c"], ["d"], True),
        Step("b5", ["d"], ["e"], False),
    ]
    assert regions_of(steps) == [["h1"], ["h3", "h4"]]


def merged(f: File, inner: File) -> Any:
    """Returns a file, as objects, with the graph of another as its second subgraph."""
    from qverify.tflite_model.interpreter import open_object

    whole, body = (open_object(schema(), each.written()) for each in (f, inner))
    for tensor in body.subgraphs[0].tensors:
        tensor.buffer = tensor.buffer and tensor.buffer + len(whole.buffers) - 1
    for operator in body.subgraphs[0].operators:
        operator.opcodeIndex += len(whole.operatorCodes)
    whole.buffers += body.buffers[1:]
    whole.operatorCodes += body.operatorCodes
    whole.subgraphs += body.subgraphs
    return whole


def with_composite(body_scale: float = 0.06) -> bytes:
    """Returns a file whose composite's subgraph is a FULLY_CONNECTED."""
    from flatbuffers import flexbuffers
    from qverify.tflite_model.interpreter import pack_object

    s, f, inner = schema(), File(), File()
    x, y = f.tensor("x", [1, 8], "int8", 0.04, 1), f.tensor("y", [1, 8], "int8", 0.06, 3)
    f.operator("STABLEHLO_COMPOSITE", [x], [y])
    f.inputs, f.outputs = [x], [y]
    a = inner.tensor("a", [1, 8], "int8", 0.04, 1)
    b = dense(inner, a, "b")
    inner.tensors[b].quantization.scale = np.array([body_scale], np.float32)
    inner.inputs, inner.outputs = [a], [b]
    whole = merged(f, inner)
    options = s.StableHLOCompositeOptionsT()
    options.name, options.decompositionSubgraphIndex = b"test.dense", 1
    attributes = flexbuffers.Builder()
    with attributes.Map():
        pass
    options.compositeAttributes = np.frombuffer(bytes(attributes.Finish()), np.uint8)
    whole.subgraphs[0].operators[0].builtinOptions2Type = s.BuiltinOptions2.StableHLOCompositeOptions
    whole.subgraphs[0].operators[0].builtinOptions2 = options
    return bytes(pack_object(whole))


def test_a_composite_is_run_as_its_operators(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "m.tflite"
    path.write_bytes(with_composite())
    assert main(["-m", str(path), "-b", "local", "-r", "True"]) == 0
    out = capsys.readouterr().out
    assert "composites are run as the operators of their subgraphs: test.dense" in out and LABEL not in out


def test_a_composite_whose_result_has_another_scale_stays_one():
    with pytest.raises(UnsupportedError, match="STABLEHLO_COMPOSITE"):
        open_tflite("m.tflite", with_composite(0.07))


def stateful() -> bytes:
    """Returns a file with a variable that is read, joined with the input, and set: a stream. A subgraph gives its first value."""
    from qverify.tflite_model.interpreter import pack_object

    f, inner = File(), File()
    x = f.tensor("x", [1, 4], "int8", 0.05, 0)
    past, both = f.tensor("past", [1, 4], "int8", 0.05, 0), f.tensor("both", [1, 8], "int8", 0.05, 0)
    f.operator("CALL_ONCE", [], [], "CallOnceOptions", initSubgraphIndex=1)
    handle = variable(f)
    f.operator("READ_VARIABLE", [handle], [past], "ReadVariableOptions")
    f.operator("CONCATENATION", [past, x], [both], "ConcatenationOptions", axis=1)
    now = dense(f, both, "now", 4)
    f.operator("ASSIGN_VARIABLE", [handle, now], [], "AssignVariableOptions")
    f.inputs, f.outputs = [x], [dense(f, both, "y", 3)]
    first = inner.tensor("first", [1, 4], "int8", 0.05, 0, np.array([[5, -7, 100, -128]]))
    inner.operator("ASSIGN_VARIABLE", [variable(inner), first], [], "AssignVariableOptions")
    return bytes(pack_object(merged(f, inner)))


def variable(f: File) -> int:
    """Adds the handle of the variable."""
    handle = f.tensor("handle", [], "int32", None)
    f.tensors[handle].type = schema().TensorType.RESOURCE
    f.operator("VAR_HANDLE", [], [handle], "VarHandleOptions", sharedName=b"ring", container=b"")
    return handle


def test_a_stream_begins_with_its_state_and_what_it_keeps_is_compared(tmp_path: Path):
    path, report = tmp_path / "m.tflite", tmp_path / "r.json"
    path.write_bytes(stateful())
    assert main(["-m", str(path), "-b", "local", "-r", "True", "--json", str(report)]) == 0
    said = json.loads(report.read_text())
    assert not said["on_host"] and any("one step, from the first state" in line for line in said["caveats"])
    assert all({t["name"] for t in p["tensors"]} == {"both", "now", "y"} for p in said["pairs"])
    models = open_models([str(path)])
    recordings = HostSides(models).run(random_inputs(models.graph), True).recordings
    for side in ("reference", "simulator"):
        assert recordings[side].tensors["both"][0, :4].tolist() == [5, -7, 100, -128]


def test_the_state_of_a_file_is_listed():
    model = read_tflite(stateful(), "m.tflite")
    (state,) = state_tensors(model)
    assert (state.name, state.read, state.in_place) == ("handle", (1,), False)
    assert model.tensors[state.written].name == "now"


def test_a_movement_that_states_another_scale_keeps_the_numbers(tmp_path: Path):
    """A converter that gives the output of a REVERSE_V2 a scale of its own."""
    f = File()
    x = f.tensor("x", [1, 8], "int8", 0.02, 4)
    axes = f.tensor("axes", [1], "int32", None, value=np.array([1]))
    y, z = f.tensor("y", [1, 8], "int8", 0.07, -3), f.tensor("z", [1, 8], "float32", None)
    f.operator("REVERSE_V2", [x, axes], [y])
    f.operator("DEQUANTIZE", [y], [z])
    f.inputs, f.outputs = [x], [z, y]
    path = tmp_path / "m.tflite"
    path.write_bytes(f.written())
    models = open_models([str(path)])
    prepared = random_inputs(models.graph)
    results = HostSides(models).run(prepared, True).recordings
    for side in ("reference", "simulator"):
        values = results[side].tensors
        assert np.array_equal(values["y"], prepared.arrays()["x"][:, ::-1])
        assert np.array_equal(values["z"], (values["y"].astype(np.float32) + 3) * np.float32(0.07))
    assert models.graph.spec("y").scale == (float(np.float32(0.07)),)


def test_weights_that_litert_does_not_read_are_no_island(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    f = File()
    x = f.tensor("x", [4, 8], "int8", 0.04, 0)
    w = f.tensor("w", [8, 3], "int8", np.full(3, 0.01), 0, RNG.integers(-127, 128, (8, 3)), axis=1)
    y, z = f.tensor("y", [4, 3], "int8", 0.05, 0), f.tensor("z", [4, 3], "int8", 1 / 256, -128)
    f.operator("BATCH_MATMUL", [x, w], [y], "BatchMatMulOptions")
    f.operator("LOGISTIC", [y], [z])
    f.inputs, f.outputs = [x], [z]
    path = tmp_path / "m.tflite"
    path.write_bytes(f.written())
    assert main(["-m", str(path), "-b", "local", "-r", "True"]) == 2
    assert "3 scales, which LiteRT's kernels do not read: they compute zeros" in capsys.readouterr().err


def test_a_tensor_without_values_is_not_called_damage():
    f = File()
    x, y, z = (f.tensor(n, [1, 8]) for n in "xyz")
    f.operator("ADD", [x, y], [z], "AddOptions")
    f.inputs, f.outputs = [x], [z]
    with pytest.raises(BadFileError, match=r"operator 0 \(ADD\) reads tensor 1, which has no values") as error:
        read_tflite(f.written(), "m.tflite")
    assert "damaged" not in str(error.value)


def of_dynamic_range() -> tuple[bytes, str]:
    """Returns a UNIDIRECTIONAL_SEQUENCE_LSTM of floats with weights of int8, and a FULLY_CONNECTED."""
    f, units, size, steps = File(), 6, 5, 4
    x = f.tensor("x", [1, steps, size], "float32", None)
    rows = [(f"w{k}", [units, size if k < 4 else units]) for k in range(8)]
    weights = [f.tensor(n, s, "int8", 0.01, 0, RNG.integers(-127, 128, s)) for n, s in rows]
    biases = [f.tensor(f"b{k}", [units], "float32", None, value=RNG.normal(size=units)) for k in range(4)]
    states = [f.tensor(n, [1, units], "float32", None) for n in ("hidden", "cell")]
    for i in states:
        f.tensors[i].isVariable = True
    y, flat = (
        f.tensor("lstm", [1, steps, units], "float32", None),
        f.tensor("flat", [1, steps * units], "float32", None),
    )
    inputs = [x, *weights, -1, -1, -1, *biases, -1, -1, *states, -1, -1, -1, -1]
    how = {"fusedActivationFunction": 4, "timeMajor": False, "cellClip": 0.0, "projClip": 0.0}
    f.operator("UNIDIRECTIONAL_SEQUENCE_LSTM", inputs, [y], "UnidirectionalSequenceLSTMOptions", **how)
    dims = f.tensor("dims", [2], "int32", None, value=np.array([1, steps * units]))
    f.operator("RESHAPE", [y, dims], [flat], "ReshapeOptions", newShape=[1, steps * units])
    w = f.tensor("w", [3, steps * units], "float32", None, value=RNG.normal(size=(3, steps * units)))
    z = f.tensor("z", [1, 3], "float32", None)
    f.operator("FULLY_CONNECTED", [flat, w, -1], [z], "FullyConnectedOptions")
    f.inputs, f.outputs = [x], [z]
    return f.written(), "UNIDIRECTIONAL_SEQUENCE_LSTM"


def of_a_spectrum() -> tuple[bytes, str]:
    """Returns a front end of RFFT2D, whose complex numbers no side compares, and a FULLY_CONNECTED."""
    f = File()
    x, length = f.tensor("x", [1, 64], "float32", None), f.tensor("length", [2], "int32", None, value=np.array([1, 64]))
    spectrum, size = (f.tensor(n, [1, 33], "float32", None) for n in ("spectrum", "size"))
    f.tensors[spectrum].type = schema().TensorType.COMPLEX64
    q = f.tensor("q", [1, 33], "int8", 0.2, -128)
    f.operator("RFFT2D", [x, length], [spectrum], "Rfft2dOptions")
    f.operator("COMPLEX_ABS", [spectrum], [size])
    f.operator("QUANTIZE", [size], [q])
    f.inputs, f.outputs = [x], [dense(f, q, "y", 4)]
    return f.written(), "RFFT2D"


@pytest.mark.parametrize("made", [of_dynamic_range, of_a_spectrum])
def test_parts_that_stay_on_the_host_leave_the_rest_verified(made: Any, tmp_path: Path):
    data, kind = made()
    path, report = tmp_path / "m.tflite", tmp_path / "r.json"
    path.write_bytes(data)
    assert main(["-m", str(path), "-b", "local", "-r", "True", "--json", str(report)]) == 0
    assert kind in [n["op"] for n in json.loads(report.read_text())["on_host"]]
    assert main(["-m", str(path), "-b", "local", "--runtime", "litert", "-r", "True"]) == 0
