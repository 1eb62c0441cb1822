"""Variables of a .tflite as states of a sequence: each step is what LiteRT computes from the stateful file itself."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import qverify
from qverify.cli.main import main

from tests.plain.test_tflite_islands import merged, variable
from tests.tflite_files import File

pytestmark = pytest.mark.skipif(find_spec("ai_edge_litert") is None, reason="ai-edge-litert is not installed")
SIZE = 12


def written(path: Path, assigns: bool = True) -> Path:
    """Writes y = x + state (int8), state = y; the state begins at what LiteRT gives a new variable, zeros."""
    file = File()
    x = file.tensor("x", [1, SIZE], scale=0.05)
    handle = file.tensor("handle", [1], "int32", None)
    held = file.tensor("held", [1, SIZE], scale=0.1)
    y = file.tensor("y", [1, SIZE], scale=0.1)
    first = file.tensor("first", [1, SIZE], scale=0.1, value=np.arange(SIZE, dtype=np.int8))
    file.operator("VAR_HANDLE", [], [handle], "VarHandleOptions", container="", sharedName="memory")
    if assigns:
        file.operator("READ_VARIABLE", [handle], [held], "ReadVariableOptions")
        file.operator("ADD", [x, held], [y], "AddOptions")
        file.operator("ASSIGN_VARIABLE", [handle, y], [], "AssignVariableOptions")
    else:
        file.operator("ASSIGN_VARIABLE", [handle, first], [], "AssignVariableOptions")
        file.operator("READ_VARIABLE", [handle], [held], "ReadVariableOptions")
        file.operator("ADD", [x, held], [y], "AddOptions")
    file.inputs, file.outputs = [x], [y]
    path.write_bytes(file.written())
    return path


def test_a_variable_is_a_state_on_every_side(tmp_path, capsys):
    path = written(tmp_path / "sum.tflite")
    steps = np.random.Generator(np.random.PCG64(2)).integers(-60, 60, (5, 1, SIZE), dtype=np.int8)
    np.save(tmp_path / "steps.npy", steps)
    words = ["-m", str(path), "-b", "local", "--steps", "5", "-i", str(tmp_path / "steps.npy"), "-r", "True"]
    assert main([*words, "--capture", str(tmp_path / "capture")]) == 0
    printed = capsys.readouterr().out
    assert (
        "state: held <- y, from zeros (found by name)" in printed
        and "Sim and Arm result Strict check PASSED" in printed
    )
    from qverify.capture.reader import open_capture

    capture = open_capture(str(tmp_path / "capture"))
    given = [capture.recordings(k)["reference"].tensors["y"] for k in range(5)]
    held = np.zeros((1, SIZE), np.int64)  # y = x * 0.05 / 0.1 + held, rounded, clipped: checked by LiteRT's own results
    for step, y in zip(steps, given, strict=True):
        assert np.abs(y.astype(np.int64) - np.clip(np.floor(step / 2 + 0.5) + held, -128, 127)).max() <= 1
        held = y.astype(np.int64)
    assert main([*words, "--runtime", "litert"]) == 0


def test_a_variable_that_keeps_nothing_is_no_state(tmp_path, capsys):
    path = written(tmp_path / "constant.tflite", assigns=False)
    assert main(["-m", str(path), "-b", "local", "--steps", "2"]) == 2
    message = capsys.readouterr().err.strip()
    assert len(message.splitlines()) == 1 and "no state was found by name" in message


@pytest.mark.parametrize("assigns", [True, False])
@pytest.mark.parametrize("runtime", ["qvrt", "litert"])
def test_one_step_needs_no_option(runtime, assigns, tmp_path, capsys):
    path, x = written(tmp_path / "sum.tflite", assigns), tmp_path / "x.npy"
    np.save(x, np.full((1, SIZE), 40, np.int8))
    for more in ([], ["-i", str(x)]):
        assert main(["-m", str(path), "-b", "local", "--runtime", runtime, "-r", "True", *more]) == 0
        out = capsys.readouterr().out
        line = "one step, from the first state; not verified: later steps (--steps N)"
        assert (line in out and "input held: the first state" in out) == assigns


def test_a_first_state_of_four_axes_lies_as_in_the_file(tmp_path):
    """CALL_ONCE assigns values that differ on every axis; LiteRT on the whole file is the judge."""
    from qverify.inputs.random_inputs import random_inputs
    from qverify.session.host_sides import HostSides
    from qverify.session.models import open_models
    from qverify.sides.litert_engine import LiteRtEngine
    from qverify.tflite_model.interpreter import pack_object

    shape, f, inner = [1, 2, 3, 4], File(), File()
    x, held, y = (f.tensor(n, shape, "int8", 0.05, 0) for n in ("x", "held", "y"))
    f.operator("CALL_ONCE", [], [], "CallOnceOptions", initSubgraphIndex=1)
    handle = variable(f)
    f.operator("READ_VARIABLE", [handle], [held], "ReadVariableOptions")
    f.operator("ADD", [x, held], [y], "AddOptions")
    f.operator("ASSIGN_VARIABLE", [handle, y], [], "AssignVariableOptions")
    f.inputs, f.outputs = [x], [y]
    first = inner.tensor("first", shape, "int8", 0.05, 0, np.arange(24).reshape(shape) * 3 - 30)
    inner.operator("ASSIGN_VARIABLE", [variable(inner), first], [], "AssignVariableOptions")
    data = bytes(pack_object(merged(f, inner)))
    (tmp_path / "m.tflite").write_bytes(data)
    models = open_models([str(tmp_path / "m.tflite")])
    prepared = random_inputs(models.graph)
    made = HostSides(models).run(prepared, True).recordings
    inputs = prepared.arrays()
    wanted = LiteRtEngine("m").run(data, "m", {x: inputs["x"].transpose(0, 2, 3, 1)}, [y])[y].transpose(0, 3, 1, 2)
    assert inputs["held"][0, :, 0, 0].tolist() == [-30, -27, -24, -21]
    for side in ("reference", "simulator"):
        assert np.array_equal(made[side].tensors["y"], wanted), side
    assert main(["-m", str(tmp_path / "m.tflite"), "--steps", "3", "-b", "local", "-r", "True"]) == 0


def test_a_model_bin_begins_with_the_state_of_its_file(tmp_path, capsys):
    path, binary = written(tmp_path / "sum.tflite"), tmp_path / "sum.bin"
    assert main(["compile", str(path), "-o", str(binary)]) == 0
    words = ["-m", f"{path},{binary}", "-b", "local", "-r", "True"]
    assert main(words) == 0 and main([*words, "--steps", "2"]) == 0
    assert main(["-m", str(path), "-b", "faulty:local?fault=plus_one@y", "-r", "True"]) == 1
    capsys.readouterr()


def test_the_states_of_a_sequence_do_not_cross_the_link_again(tmp_path, monkeypatch):
    import sequence_models as made

    monkeypatch.setattr(made, "LENGTH", 2048)
    net = made.ring_filter(tmp_path / "ring.onnx")
    sent = [qverify.verify(net, board="local", steps=n).document.link["bytes_sent"] for n in (2, 6)]
    state = made.LENGTH * 4 * 4  # bytes, which 4 more steps would send 4 times
    assert sent[1] - sent[0] < state
