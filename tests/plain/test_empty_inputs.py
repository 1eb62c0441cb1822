"""Inputs without elements: the cache of a decoder before its first token."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper
from qverify.compare.options import Options
from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.errors import BadFileError
from qverify.inputs.sources import InputRequest, prepared_inputs
from qverify.session.job import verify
from qverify.session.models import parse_shapes
from qverify.session.request import Request
from qverify.sides.reference import Reference

from tests.ops.qdq import Qdq

PAST = (1, 2, "P", 4)


def cached(tmp_path: Path, past: tuple[int | str, ...] = PAST, quantized: bool = False) -> Path:
    """Keys that are appended to a cache of dynamic length, its output the longer cache."""
    m = Qdq()
    new = m.input((1, 2, 3, 4))
    m.inputs.append(helper.make_tensor_value_info("past", TensorProto.FLOAT, (1, 2, 5, 4)))
    m.feed["past"] = m.rng.normal(size=(1, 2, 5, 4)).astype(np.float32)
    before = m.pair("past", np.float32(0.02), np.array(128, np.uint8)) if quantized else "past"
    joined = m.op("Concat", [before, new], axis=2)
    m.output(m.quantize(m.op("MatMul", [new, m.op("Transpose", [joined], perm=[0, 1, 3, 2])])))
    m.output(joined)
    model = m.model()
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    model.graph.input[1].CopyFrom(helper.make_tensor_value_info("past", TensorProto.FLOAT, past))
    path = tmp_path / "decoder.onnx"
    path.write_bytes(model.SerializeToString())
    return path


@pytest.mark.parametrize("quantized", [False, True])
def test_a_cache_of_length_0_is_verified(quantized: bool, tmp_path: Path):
    path = cached(tmp_path, quantized=quantized)
    shapes = parse_shapes(("past=1,2,0,4",))
    job = Request([str(path)], "local", shapes=shapes, options=Options(dump_all=True))
    report = verify(job).report
    assert report.verdict == "PASSED" and "input past: it has no elements and is not read" in report.notes
    inputs = tmp_path / "inputs.npz"
    rng = np.random.Generator(np.random.PCG64(0))
    np.savez(inputs, in0=rng.normal(size=(1, 2, 3, 4)).astype(np.float32), past=np.zeros((1, 2, 0, 4), np.float32))
    again = verify(Request([str(path)], "local", InputRequest(files=str(inputs)), shapes=shapes)).report
    assert again.verdict == "PASSED"


def test_dims_of_the_file_may_be_0(tmp_path: Path):
    assert verify(Request([str(cached(tmp_path, (1, 2, 0, 4)))], "local")).report.verdict == "PASSED"


def test_a_longer_cache_is_an_input(tmp_path: Path):
    path = cached(tmp_path)
    report = verify(Request([str(path)], "local", shapes={"past": (1, 2, 5, 4)})).report
    assert report.verdict == "PASSED" and not any("no elements" in note for note in report.notes)


def test_inputs_that_all_have_no_elements_are_refused(tmp_path: Path):
    m = Qdq()
    m.output(m.quantize(m.op("Relu", [m.input((1, 4))])))
    model = m.model()
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 0
    path = tmp_path / "empty.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(BadFileError, match="has a dim of size 0, so there is nothing to compute"):
        verify(Request([str(path)], "local"))


@pytest.mark.parametrize(
    "stated", [[1], "ab", 3, {"past": 3}, {"past": []}, {"past": [999, 0]}, {"past": [1, -1, 0]}, {"past": [1, "a", 0]}]
)
def test_a_model_bin_that_states_them_wrongly_is_refused(stated: object, tmp_path: Path):
    path = cached(tmp_path)
    compiled = compile_model(path.read_bytes(), "decoder", CompilerOptions(shapes={"past": (1, 2, 0, 4)}))
    compiled.graph.meta["empty_inputs"] = stated
    reference = Reference(compiled.integer_onnx, compiled.graph, path.read_bytes())
    with pytest.raises(BadFileError, match="its empty_inputs are not inputs without elements"):
        reference.run_original(prepared_inputs(compiled.graph, InputRequest()))
