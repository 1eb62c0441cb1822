"""onnxruntime's execution providers as an engine: the provider of each node is the session's own record, and a session that
fell back says so. Providers that every onnxruntime has are used here; plug-ins where an interpreter that has them is named."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import onnx
import pytest
from qverify.cli.main import main
from qverify_drivers import drive

from tests.conftest import MODELS

PYTHON = os.environ.get("QVERIFY_PYTHON_ONNXRUNTIME_EP", "")
needs_qnn = pytest.mark.skipif(
    not PYTHON or not MODELS.is_dir(),
    reason="QVERIFY_PYTHON_ONNXRUNTIME_EP names no Python with onnxruntime-qnn, or the real models are not here",
)
EXACT = "session=session.x64quantprecision=1"  # products of integers saturate on processors without VNNI
ARM = "Quanti.onnx and Arm result Strict check "


def run(model: Path, tmp_path: Path, *pairs: str, words: tuple[str, ...] = (), python: str = sys.executable) -> Any:
    """Returns the exit status and the report of a run."""
    runtime = ",".join(["onnxruntime", *pairs, f"python={python}"])
    report = tmp_path / "report.json"
    report.unlink(missing_ok=True)
    status = main(["-m", str(model), "-b", "local", "--runtime", runtime, "-r", "--json", str(report), *words])
    return status, json.loads(report.read_text()) if report.exists() else {}


def board_of(report: dict[str, Any]) -> dict[str, Any]:
    (board,) = [side for side in report["sides"] if side["name"] == "board"]
    return dict(board)


def test_every_tensor_is_compared_and_every_node_is_placed(digits, tmp_path, capsys):
    model = digits / "digits_quant.onnx"
    _, report = run(model, tmp_path, "ep=cpu", "level=disable_all")
    pair = next(p for p in report["pairs"] if (p["a"], p["b"]) == ("reference", "board"))
    own = next(p for p in report["pairs"] if (p["a"], p["b"]) == ("reference", "simulator"))
    assert pair["coverage"]["compared"] == own["coverage"]["compared"] > 5
    out = capsys.readouterr().out
    total = len(onnx.load(model).graph.node)
    assert f"onnxruntime CPUExecutionProvider: {total} of {total} nodes ran on CPUExecutionProvider" in out
    assert board_of(report)["engine"] == "onnxruntime CPUExecutionProvider"


def test_a_session_that_falls_back_as_a_whole_is_refused(digits, tmp_path, capsys):
    """Azure's provider is in every build, is listed by get_providers(), and runs none of these nodes."""
    status, _ = run(digits / "digits_quant.onnx", tmp_path, "ep=Azure")
    out = capsys.readouterr().out
    assert status not in (0, 1)
    refused = "(the board did not run: the runner ended with status 2: AzureExecutionProvider does not run"
    assert f"{ARM}INCONCLUSIVE {refused}" in out and "cpu_fallback=1" in out
    assert re.search(r"does not run (\d+) of \1 nodes", out)


def test_a_session_that_may_fall_back_says_that_it_did(digits, tmp_path, capsys):
    _, report = run(digits / "digits_quant.onnx", tmp_path, "ep=Azure", "cpu_fallback=1", "level=disable_all")
    out = capsys.readouterr().out
    total = len(onnx.load(digits / "digits_quant.onnx").graph.node)
    assert "the whole session fell back: onnxruntime lists AzureExecutionProvider, CPUExecutionProvider" in out
    assert f"{total} of {total} nodes fell back to CPUExecutionProvider" in out
    assert board_of(report)["engine"] == "onnxruntime AzureExecutionProvider"


def test_the_gate_no_fallback_makes_it_failed(digits, tmp_path, capsys):
    gate = ("--gate", "no-fallback", "--gate", "lsb:255")
    status, report = run(digits / "digits_quant.onnx", tmp_path, "ep=Azure", "cpu_fallback=1", EXACT, words=gate)
    pair = next(p for p in report["pairs"] if (p["a"], p["b"]) == ("reference", "board"))
    assert status == 1 and (pair["verdict"], pair["cause"]) == ("FAILED", "fallback")


@pytest.mark.parametrize(
    ("pairs", "said"),
    [
        (("ep=nothing",), "nothingExecutionProvider: this onnxruntime has "),
        (("ep=qnn", "library=/no/such.so"), "library=/no/such.so: no such file"),
        (("ep=cpu", "level=most"), "level=most: wanted one of disable_all, basic, extended, all"),
        (("ep=cpu", "session=word"), "session=word: wanted session=KEY=VALUE"),
    ],
)
def test_a_mistake_is_one_line(digits, tmp_path, capsys, pairs, said):
    run(digits / "digits_quant.onnx", tmp_path, *pairs)
    out = capsys.readouterr().out
    assert f"the runner ended with status 2: {said}" in out.replace("onnxruntime: ", "") and f"{ARM}INCONCLUSIVE" in out


def test_names_of_tensors_are_read_without_the_onnx_package(digits):
    data = (digits / "digits_quant.onnx").read_bytes()
    parsed = onnx.load_from_string(data)
    assert drive.node_outputs(data) == {output for node in parsed.graph.node for output in node.output}
    names = [node.output[0] for node in parsed.graph.node if node.op_type == "QuantizeLinear"]
    again = onnx.load_from_string(drive.tapped(data, names))
    assert [o.name for o in again.graph.output] == [o.name for o in parsed.graph.output] + names


@pytest.mark.parametrize("data", [b"\x0f", b"\x3a\xff", bytes(range(200, 256))])
def test_what_is_no_protobuf_is_refused(data):
    with pytest.raises(drive.Refused, match="not an ONNX file"):
        drive.node_outputs(data)


HTP = ("ep=qnn", "backend_type=htp")


@pytest.mark.engine
@needs_qnn
def test_every_node_of_a_network_runs_on_htp(tmp_path, capsys):
    _, report = run(MODELS / "kws_dscnn" / "kws_dscnn_u8s8_qdq.onnx", tmp_path, *HTP, python=PYTHON)
    out = capsys.readouterr().out
    assert "77 of 77 nodes ran on QNNExecutionProvider" in out
    pair = next(p for p in report["pairs"] if (p["a"], p["b"]) == ("reference", "board"))
    assert (pair["coverage"]["compared"], pair["cause"]) == (15, "accumulated_rounding")


@pytest.mark.engine
@needs_qnn
def test_the_softmax_with_another_zero_point_is_blamed(tmp_path, capsys):
    """HTP's softmax is wrong where the output's zero point is not the least code."""
    run(MODELS / "resnet8_cifar10" / "resnet8_cifar10_s8s8_qdq.onnx", tmp_path, *HTP, python=PYTHON)
    out = capsys.readouterr().out
    assert "blame: board at t37_Identity_QuantizeLinear_Output\n  softmax" in out and "too low by 128 LSB" in out


@pytest.mark.engine
@needs_qnn
def test_a_backend_whose_library_is_missing_ran_nothing(tmp_path, capsys):
    model = MODELS / "kws_dscnn" / "kws_dscnn_u8s8_qdq.onnx"
    run(model, tmp_path, "ep=qnn", "backend_type=cpu", python=PYTHON)
    assert "QNNExecutionProvider does not run" in capsys.readouterr().out
    run(model, tmp_path, "ep=qnn", "backend_type=cpu", "cpu_fallback=1", python=PYTHON)
    out = capsys.readouterr().out
    assert "the whole session fell back: onnxruntime lists QNNExecutionProvider, CPUExecutionProvider" in out
