"""ExecuTorch as the board: a program that the driver builds of the quantized ONNX, and one that was built before."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from qverify.cli.main import main

PYTHON = os.environ.get("QVERIFY_PYTHON_EXECUTORCH", "")
pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(not PYTHON, reason="QVERIFY_PYTHON_EXECUTORCH names no Python with executorch and onnx"),
]
DIGITS = Path(__file__).resolve().parents[2] / "verifier" / "qverify" / "example" / "digits_quant.onnx"


def run(models: str, folder: Path, *pairs: str, gates: tuple[str, ...] = ()) -> tuple[int, dict[str, Any]]:
    report = folder / "report.json"
    engine = ",".join(["executorch", f"python={PYTHON}", *pairs])
    words = ["-m", models, "-b", "local", "--runtime", engine, "-r", "True", "--timeout", "900", "--json", str(report)]
    status = main([*words, *(word for gate in gates for word in ("--gate", gate))])
    return status, json.loads(report.read_text())


def test_every_tensor_is_paired_and_every_node_placed(tmp_path, capsys):
    status, report = run(str(DIGITS), tmp_path, "backend=portable", f"cache={tmp_path / 'cache'}")
    pair = next(p for p in report["pairs"] if (p["a"], p["b"]) == ("reference", "board"))
    (side,) = [s for s in report["sides"] if s["name"] == "board"]
    assert status == 0 and pair["coverage"]["compared"] == 8
    named = {p["node"] for p in side["placement"]}
    wanted = {n.name for n in onnx.load(DIGITS).graph.node if n.op_type in ("Conv", "MaxPool", "Gemm", "Softmax")}
    assert wanted <= named and {p["on"] for p in side["placement"]} == {"portable kernels"}
    programs = sorted((tmp_path / "cache").glob("*.pte"))
    assert len(programs) == 2  # with taps and without
    results = {p: json.loads(Path(f"{p}.json").read_text())[0] for p in programs}
    (finals,) = [p for p, names in results.items() if names == ["prob"]]
    capsys.readouterr()
    # Its float Softmax may be a step of prob apart, which only a run with its nodes can show to be right.
    status, report = run(f"{DIGITS},{finals}", tmp_path, gates=("close:atol=0.004",))
    out = capsys.readouterr().out
    pair = next(p for p in report["pairs"] if (p["a"], p["b"]) == ("reference", "board"))
    assert status == 0 and [t["name"] for t in pair["tensors"]] == ["prob"]
    assert "the .pte has no names" in out


def test_an_operator_that_is_not_translated_is_refused_by_name(tmp_path, capsys):
    scale, zero = numpy_helper.from_array(np.float32(0.1), "s"), numpy_helper.from_array(np.int8(0), "z")
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], name="q"),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"], name="d"),
        helper.make_node("HardSwish", ["d"], ["h"], name="swish"),
        helper.make_node("QuantizeLinear", ["h", "s", "z"], ["p"], name="p"),
        helper.make_node("DequantizeLinear", ["p", "s", "z"], ["y"], name="y"),
    ]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 8]) for n in "xy"]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [scale, zero])
    path = tmp_path / "swish.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    run(str(path), tmp_path)
    assert "ended with status 2: swish (HardSwish): not translated to torch" in capsys.readouterr().out
