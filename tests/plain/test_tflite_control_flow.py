"""IF and WHILE of a .tflite are run as the operators of the subgraphs that they run: nothing of them is left to the host."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from qverify.cli.main import main
from qverify.inputs.random_inputs import random_inputs
from qverify.session.host_sides import HostSides
from qverify.session.models import open_models
from qverify.session.tflite_alone import prepare_tflite, with_subgraphs_inlined
from qverify.sides.litert_engine import LiteRtEngine

from tests.plain.test_tflite_islands import LABEL, dense, merged
from tests.tflite_files import File, schema

pytestmark = pytest.mark.skipif(find_spec("ai_edge_litert") is None, reason="ai-edge-litert is not installed")
ROUNDS = 3


def packed(whole: File, *bodies: File) -> bytes:
    """Returns a file with further subgraphs."""
    from qverify.tflite_model.interpreter import open_object, pack_object

    joined = open_object(schema(), whole.written())
    for body in bodies:
        placeholder = merged(whole, body)  # with the numbers of buffers and codes of one subgraph after the first
        added = placeholder.subgraphs[-1]
        tensors, codes = len(whole.buffers) + 1, len(whole.operators)
        for tensor in added.tensors:
            tensor.buffer = tensor.buffer and tensor.buffer - tensors + len(joined.buffers)
        for operator in added.operators:
            operator.opcodeIndex += len(joined.operatorCodes) - codes
        joined.buffers += placeholder.buffers[tensors:]
        joined.operatorCodes += placeholder.operatorCodes[codes:]
        joined.subgraphs.append(added)
    return bytes(pack_object(joined))


def branch(kind: str, scale: float = 0.06) -> File:
    """Returns the subgraph of a branch: a FULLY_CONNECTED, or, of another kind, that operator behind it."""
    f = File()
    a = f.tensor("a", [1, 8], "int8", 0.04, 1)
    y = dense(f, a, f"{kind}_y")
    if kind != "FULLY_CONNECTED":
        x, y = y, f.tensor(f"{kind}_z", [1, 8], "int8", 0.06, 3)
        f.operator(kind, [x, *([x] if kind == "DIV" else [])], [y], "DivOptions" if kind == "DIV" else "")
    f.tensors[y].quantization.scale = np.array([scale], np.float32)
    f.inputs, f.outputs = [a], [y]
    return f


def choosing(second: str = "RELU", scale: float = 0.06) -> bytes:
    """Returns x, the sum of x above 0, and one of two subgraphs, then a FULLY_CONNECTED."""
    f = File()
    x = f.tensor("x", [1, 8], "int8", 0.04, 1)
    first, least = f.tensor("first", [1, 1], "int8", 0.04, 1), f.tensor("least", [], "int8", 0.04, 1, np.array(1))
    begin, size = (f.tensor(n, [2], "int32", None, value=np.array(v)) for n, v in (("b", [0, 0]), ("s", [1, 1])))
    one, more = f.tensor("one", [], "int8", 0.04, 1), f.tensor("more", [], "bool", None)
    dims = f.tensor("dims", [0], "int32", None, value=np.zeros(0, np.int32))
    f.tensors[dims].buffer = 0
    f.operator("SLICE", [x, begin, size], [first], "SliceOptions")
    f.operator("RESHAPE", [first], [one], "ReshapeOptions", newShape=[])
    f.operator("GREATER", [one, least], [more], "GreaterOptions")
    y = f.tensor("y", [1, 8], "int8", 0.06, 3)
    f.operator("IF", [more, x], [y], "IfOptions", thenSubgraphIndex=1, elseSubgraphIndex=2)
    f.inputs, f.outputs = [x], [dense(f, y, "z", 4)]
    return packed(f, branch("FULLY_CONNECTED"), branch(second, scale))


def looping(limit: int | None = ROUNDS) -> bytes:
    """Returns a WHILE that counts to a limit, which is an input if None, and runs a FULLY_CONNECTED in each round."""
    f, test, body = File(), File(), File()
    x = f.tensor("x", [1, 8], "int8", 0.06, 3)
    start = f.tensor("start", [], "int32", None, value=np.array(0))
    last = f.tensor("last", [], "int32", None, value=None if limit is None else np.array(limit))
    end, y, same = (
        f.tensor("end", [], "int32", None),
        f.tensor("y", [1, 8], "int8", 0.06, 3),
        f.tensor("same", [], "int32", None),
    )
    f.operator("WHILE", [start, x, last], [end, y, same], "WhileOptions", condSubgraphIndex=1, bodySubgraphIndex=2)
    f.inputs, f.outputs = [x, *([last] if limit is None else [])], [y]
    k, _, most = (
        test.tensor(n, s, d, None) for n, s, d in (("k", [], "int32"), ("v", [1, 8], "int8"), ("m", [], "int32"))
    )
    test.tensors[1].quantization = f.tensors[x].quantization
    less = test.tensor("less", [], "bool", None)
    test.operator("LESS", [k, most], [less], "LessOptions")
    test.inputs, test.outputs = [k, 1, most], [less]
    k, v = body.tensor("k", [], "int32", None), body.tensor("v", [1, 8], "int8", 0.06, 3)
    most, one = body.tensor("m", [], "int32", None), body.tensor("one", [], "int32", None, value=np.array(1))
    following = body.tensor("following", [], "int32", None)
    body.operator("ADD", [k, one], [following], "AddOptions")
    body.inputs, body.outputs = [k, v, most], [following, dense(body, v, "inner"), most]
    return packed(f, test, body)


def litert(data: bytes, x: np.ndarray) -> np.ndarray:
    """Returns what LiteRT gives for the last tensor that the file outputs."""
    from ai_edge_litert.interpreter import Interpreter

    opened = Interpreter(model_content=data)
    index = opened.get_output_details()[0]["index"]
    return LiteRtEngine("m.tflite").run(data, "m.tflite", {opened.get_input_details()[0]["index"]: x}, [index])[index]


@pytest.mark.parametrize("data", [choosing(), looping()], ids=["IF", "WHILE"])
def test_every_side_computes_what_litert_does(data: bytes, tmp_path: Path):
    path = tmp_path / "m.tflite"
    path.write_bytes(data)
    models = open_models([str(path)])
    assert not models.graph.islands and {n.op for n in models.graph.nodes} >= {"fully_connected"}
    final = models.graph.outputs[-1]
    assert final in ("z", "y")
    chosen = set()
    for seed in range(6):  # both branches are taken
        prepared = random_inputs(models.graph, seed)
        recordings = HostSides(models).run(prepared, True).recordings
        wanted = litert(data, prepared.arrays()["x"])
        for side in ("reference", "simulator"):
            assert np.array_equal(recordings[side].tensors[final], wanted), side
        chosen.add(bool(prepared.arrays()["x"][0, 0] > 1))
    assert chosen == {False, True}


def test_the_main_job_says_it_and_a_capture_is_judged_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path, capture = tmp_path / "m.tflite", tmp_path / "capture"
    path.write_bytes(choosing())
    assert main(["-m", str(path), "-b", "local", "-r", "True", "--capture", str(capture)]) == 0
    out = capsys.readouterr().out
    assert "each IF is run as the operators of both branches" in out and LABEL not in out
    assert main(["replay", str(capture), "--rerun", "reference"]) == 0
    assert main(["-m", str(path), "-b", "faulty:local?fault=plus_one@RELU_z", "-r", "True"]) == 1


def test_rounds_are_told_and_a_result_keeps_its_name():
    prepared = with_subgraphs_inlined(prepare_tflite("m.tflite", looping()))
    assert prepared.notes == (f"each WHILE is run as its rounds, one after the other: {ROUNDS}",)
    assert [o.kind for o in prepared.model.operators].count("FULLY_CONNECTED") == ROUNDS
    assert [prepared.model.tensors[i].name for i in prepared.model.outputs] == ["y"]


@pytest.mark.parametrize(
    "data",
    [choosing("DIV"), choosing("RELU", 0.07), looping(None), looping(1000)],
    ids=["a branch that may fail", "another scale", "a limit that is an input", "too many rounds"],
)
def test_what_would_not_be_the_same_stays(data: bytes):
    prepared = prepare_tflite("m.tflite", data)
    assert with_subgraphs_inlined(prepared) is prepared
