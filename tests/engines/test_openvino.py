"""OpenVINO as the board and as a further side, in a virtual environment of its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import numpy_helper
from qverify.cli.main import main

from scripts.benchmarks.engine_pythons import NoEngine, engine_python

DIGITS = Path(__file__).resolve().parents[2] / "verifier" / "qverify" / "example" / "digits_quant.onnx"
Verify = Callable[..., tuple[int, dict[str, Any], str]]


@pytest.fixture(scope="module")
def engine() -> str:
    try:
        return f"openvino,python={engine_python('openvino')}"
    except NoEngine as error:
        pytest.skip(str(error))


@pytest.fixture
def verify(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Verify:
    """Runs the main job on the packaged example; returns exit status, JSON and what was printed."""

    def run(*words: str, models: str = str(DIGITS)) -> tuple[int, dict[str, Any], str]:
        report = tmp_path / "report.json"
        status = main(["-m", models, "--json", str(report), *words])
        return status, json.loads(report.read_text()), capsys.readouterr().out

    return run


def pairs(report: dict[str, Any]) -> dict[str, str]:
    return {f"{p['a']} ~ {p['b']}": p["verdict"] for p in report["pairs"]}


def altered(folder: Path) -> Path:
    """Writes the example with the rows of one layer's weights in reverse order."""
    model = onnx.load(DIGITS)
    node = next(n for n in model.graph.node if n.op_type == "Gemm" or n.op_type == "MatMul" or n.op_type == "Conv")
    makers = {o: n for n in model.graph.node for o in n.output}
    name = makers[node.input[1]].input[0]
    stored = next(t for t in model.graph.initializer if t.name == name)
    values = numpy_helper.to_array(stored)
    stored.CopyFrom(numpy_helper.from_array(values[::-1].copy(), name))
    path = folder / "altered.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def test_every_tensor_of_the_board_is_paired_and_its_nodes_are_placed(engine: str, verify: Verify) -> None:
    status, report, text = verify("-b", "local", "--runtime", engine, "-r", "True", "--gate", "no-fallback", "-c", "5")
    pair = next(p for p in report["pairs"] if (p["a"], p["b"]) == ("reference", "board"))
    assert pair["coverage"]["compared"] == pair["coverage"]["expected"] > 5
    assert not report["blamed"], report["blamed"]
    side = next(s for s in report["sides"] if s["name"] == "board")
    assert side["engine"] == "openvino" and side["version"].startswith("2026.")
    assert len(side["placement"]) > 5 and {p["on"] for p in side["placement"]} == {"CPU"}
    assert f"{len(side['placement'])} of {len(side['placement'])} nodes ran on CPU" in text
    assert status in (0, 1)  # 1 only where this processor's kernels round otherwise in the end


def test_it_stands_beside_the_simulator_and_the_board(engine: str, verify: Verify) -> None:
    _, report, _ = verify("-b", "local", "--simulator", engine)
    assert [*pairs(report)] == [
        "reference ~ simulator",
        "reference ~ openvino",
        "reference ~ board",
        "simulator ~ openvino",
        "simulator ~ board",
        "openvino ~ board",
    ]
    assert pairs(report)["simulator ~ board"] == "PASSED"
    assert not report["blamed"]


def test_it_takes_the_simulators_place(engine: str, verify: Verify) -> None:
    _, report, text = verify("-b", "local", "-s", engine)
    assert "simulator ~ board" not in pairs(report) and "openvino ~ board" in pairs(report)
    assert "simulator: not run: openvino ran in its place" in text


def test_a_wrong_file_of_the_engine_is_blamed_on_the_board(engine: str, verify: Verify, tmp_path: Path) -> None:
    models = f"{DIGITS},{altered(tmp_path)}"
    status, report, _ = verify("-b", "local", "--runtime", engine, "-r", "True", models=models)
    assert status == 1
    assert {b["side"] for b in report["blamed"]} == {"board"}


def test_a_wrong_board_is_not_blamed_on_the_engine(engine: str, verify: Verify) -> None:
    faulty = "faulty:local?fault=bitflip@relu2_QuantizeLinear_Output"
    status, report, _ = verify("-b", faulty, "--simulator", engine, "-r", "True")
    assert status == 1
    assert [b["side"] for b in report["blamed"]] == ["board"]
    assert pairs(report)["openvino ~ board"] == "FAILED"
    assert pairs(report)["reference ~ openvino"] == pairs(report)["simulator ~ openvino"]


def test_a_capture_is_judged_again_as_the_run_was(
    engine: str, verify: Verify, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "capture"
    status, _, text = verify("-b", "local", "--simulator", engine, "-r", "True", "--capture", str(folder))
    assert main(["replay", str(folder), "-r", "True"]) == status
    again = capsys.readouterr().out
    lines = [line for line in text.splitlines() if "Strict check" in line]
    assert len(lines) == 6 and lines == [line for line in again.splitlines() if "Strict check" in line]


def test_the_device_that_openvino_chose_is_stated(engine: str, verify: Verify) -> None:
    _, report, text = verify(
        "-b", "local", "--runtime", f"{engine},device=AUTO:CPU", "--gate", "no-fallback", "-c", "5"
    )
    placement = next(s for s in report["sides"] if s["name"] == "board").get("placement", [])
    assert {p["on"] for p in placement} in ({"CPU"}, set())
    if not placement:  # a graph of several devices does not say where a node ran, so that the gate is not passed
        assert "which node ran on which is not known" in text
        assert pairs(report)["reference ~ board"] != "PASSED"


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ("device=GPU", "device=GPU: this OpenVINO has CPU"),
        ("config=NONSENSE=1", "NONSENSE"),
        ("python=/nonexistent/python", "ended with status 127"),
    ],
)
def test_an_engine_that_refuses_did_not_run(engine: str, verify: Verify, options: str, why: str) -> None:
    status, report, text = verify("-b", "local", "--runtime", f"{engine},{options}")
    assert status == 3
    assert pairs(report)["reference ~ board"] == "INCONCLUSIVE"
    assert why in text
