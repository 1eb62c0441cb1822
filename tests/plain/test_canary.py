"""The canaries: their known answers are the simulator's bits, and a wrong kernel is named, marked and blamed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from qverify.cli.main import main
from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.onnx_model import canary
from qverify.onnx_model.canary_models import CANARIES
from qverify.sides.simulator import Simulator
from qverify.tensors.digest import tensor_digest
from qverify.tensors.prepared import PreparedInput, PreparedInputs


@pytest.mark.parametrize("name", CANARIES)
def test_known_answer_is_the_simulators(name: str) -> None:
    model, feed = CANARIES[name]()
    ((source, x),) = feed.items()
    kind = model.graph.output[0].type.tensor_type.elem_type
    shape = onnx.shape_inference.infer_shapes(model).graph.output[0].type.tensor_type.shape
    dims = [d.dim_value for d in shape.dim] or list(x.shape)
    if "Pool" in name:
        dims = [1, 64, 3, 6] if "Average" in name and "Global" not in name else [1, 64, 1, 1]
    elif "Conv" in name:
        dims = [1, 8, 9, 9]
    elif "MatMul" in name or "Gemm" in name:
        dims = [8, 16]
    model.graph.output[0].CopyFrom(onnx.helper.make_tensor_value_info("y", kind, dims))
    graph = compile_model(model.SerializeToString(), name, CompilerOptions(check=False)).graph
    prepared = PreparedInputs((PreparedInput(graph.spec(source), graph.spec(source).aligned_bytes(x), "canary", 0),))
    assert tensor_digest(Simulator(graph).run(prepared).tensors["y"]) == canary.KNOWN_DIGESTS[name]


def test_all_are_right_here_or_named() -> None:
    found = canary.run_canaries(use_cache=False)
    assert found["checked"] == list(CANARIES) and set(found["failing"]) <= set(CANARIES)


def test_operators_of_a_failing_kernel_are_distrusted_with_it() -> None:
    same = {"MatMulInteger", *canary.SAME_KERNEL["MatMulInteger"]}
    assert canary.failing_kinds({"failing": ["MatMulInteger u8u8"]}) == same
    mixed = {"failing": ["MatMulInteger u8s8", "QLinearAdd u8"]}
    assert canary.failing_kinds(mixed) == {"QLinearAdd"} and not canary.failing_kinds({})
    assert canary.failing_kinds(mixed, mixed=True) == same


def test_a_wrong_kernel_is_named_marked_and_blamed(
    digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A host whose QLinearConv is wrong: the known answer and the reference's own kernel are both spoiled here."""
    from qverify.onnx_model.engine import Engine

    right_run = Engine.run

    def wrong_run(self, feed, names=None):
        values = right_run(self, feed, names)
        return {n: np.where(v > 100, v - 1, v).astype(v.dtype) if "relu1_Q" in n else v for n, v in values.items()}

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setitem(canary.KNOWN_DIGESTS, "QLinearConv u8u8", "0" * 16)
    report = tmp_path / "r.json"
    words = ["-m", str(digits / "digits_quant.onnx"), "-b", "local", "-r", "--json", str(report)]
    assert main(words) == 0
    said = json.loads(report.read_text())
    assert "QLinearConv u8u8" in said["canary"]["failing"] and said["canary"]["distrusted"]
    assert "QLinearConv u8u8" in capsys.readouterr().out
    monkeypatch.setattr(Engine, "run", wrong_run)
    assert main(words) == 1
    said = json.loads(report.read_text())
    assert (said["blame"]["side"], said["blame"]["node"]) == ("reference", "relu1_QuantizeLinear_Output")
