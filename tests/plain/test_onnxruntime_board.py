"""The main job on a board that runs onnxruntime: judged by values, every tensor of it, and a fault in it is found where it is."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import onnx
import pytest
from qverify.cli.main import main
from qverify.onnx_model.exact_products import inexact_kernels
from qverify.session.models import open_models
from qverify_agents.errors import BadAddress
from qverify_agents.resolve_address import find_runtime

from tests.unsigned_weights import write_unsigned_example

ON = ["--runtime", "onnxruntime", "-b", "local"]
EXAMPLE = Path(__file__).resolve().parents[2] / "verifier" / "qverify" / "example"
SPOILS = """
import runpy, sys
import numpy as np, onnx, onnxruntime
from onnx import numpy_helper

class Spoiled(onnxruntime.InferenceSession):
    def __init__(self, data, *words, **named):
        model = onnx.load_from_string(data)
        node = next((n for n in model.graph.node if "{node}" in n.output), None)
        for tensor in model.graph.initializer if node else []:
            if tensor.name in node.input:
                value = numpy_helper.to_array(tensor)
                if value.ndim > 1:
                    value = value.copy()
                    value.flat[:: 2] ^= 0x40
                    tensor.CopyFrom(numpy_helper.from_array(value, tensor.name))
        super().__init__(model.SerializeToString(), *words, **named)

onnxruntime.InferenceSession = Spoiled
sys.argv = sys.argv[2:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packaged example with weights of uint8: with those of int8, onnxruntime is a faulty board on many a processor."""
    return write_unsigned_example(EXAMPLE, tmp_path_factory.mktemp("unsigned") / "example")


def verify(digits: Path, tmp_path: Path, *words: str, model: str = "digits_quant.onnx") -> tuple[int, dict]:
    report = tmp_path / "report.json"
    status = main(["-m", str(digits / model), *ON, "-r", "True", "--json", str(report), *words])
    return status, json.loads(report.read_text())


def test_every_tensor_is_compared_and_where_nodes_ran_is_said(digits, tmp_path, capsys):
    status, report = verify(digits, tmp_path)
    assert status == 0 and report["verdict"] == "PASSED"
    board = next(p for p in report["pairs"] if (p["a"], p["b"]) == ("reference", "board"))
    reference = next(p for p in report["pairs"] if (p["a"], p["b"]) == ("reference", "simulator"))
    assert board["coverage"]["compared"] == reference["coverage"]["compared"] > 5
    out = capsys.readouterr().out
    assert "nodes ran on CPUExecutionProvider" in out
    own = next(p for p in report["pairs"] if p["a"] == "simulator")
    assert own["gate"] != "bit equality"  # another runtime may round in its own way
    (side,) = [s for s in report["sides"] if s["name"] == "board"]
    assert side["engine"] == "onnxruntime"


def test_products_that_saturate_on_a_processor_are_a_fault_with_its_cause(capsys):
    """x86 without VNNI adds two products of uint8 by int8 in 16 bits."""
    saturates = "QLinearConv" in inexact_kernels()
    found = main(["triage", "-m", f"{EXAMPLE}/digits_float.onnx,{EXAMPLE}/digits_quant.onnx", *ON])
    printed = capsys.readouterr().out
    assert found == int(saturates)
    assert ("EXPLAINED: every two products saturated to 16 bits" in printed) == saturates


def weighted(digits: Path) -> list[str]:
    """The outputs of nodes of the integer form that have weights."""
    compiled = open_models([str(digits / "digits_quant.onnx")]).compiled
    assert compiled is not None
    model = onnx.load_from_string(compiled.integer_onnx)
    large = {t.name for t in model.graph.initializer if len(t.dims) > 1}
    return [n.output[0] for n in model.graph.node if large.intersection(n.input)]


def test_a_fault_in_it_is_found_at_its_node(digits, tmp_path):
    nodes = weighted(digits)
    assert len(nodes) > 2
    for node in nodes:
        spoils = tmp_path / "spoils.py"
        spoils.write_text(SPOILS.replace("{node}", node))
        status, report = verify(digits, tmp_path, "--python", f"{sys.executable} {spoils}")
        assert status == 1 and report["blame"]["side"] == "board", node
        assert report["blame"]["node"] == node


def test_triage_blames_the_same_node(digits, tmp_path, capsys):
    node = weighted(digits)[1]
    spoils = tmp_path / "spoils.py"
    spoils.write_text(SPOILS.replace("{node}", node))
    words = ["triage", "-m", str(digits / "digits_quant.onnx"), *ON, "--python", f"{sys.executable} {spoils}"]
    assert main(words) == 1
    assert node in capsys.readouterr().out


def test_a_library_that_is_missing_is_one_line(digits, tmp_path, capsys):
    lacks = tmp_path / "lacks.py"
    lacks.write_text(
        "import runpy, sys\nsys.modules['onnxruntime'] = None\nsys.argv = sys.argv[2:]\n"
        "runpy.run_path(sys.argv[0], run_name='__main__')\n"
    )
    status, report = verify(digits, tmp_path, "--python", f"{sys.executable} {lacks}")
    assert status == 3 and report["verdict"] == "INCONCLUSIVE"
    assert "no onnxruntime" in capsys.readouterr().out


def test_a_board_of_finals_is_judged_by_its_outputs(digits, tmp_path):
    report = tmp_path / "report.json"
    words = ["-m", str(digits / "digits_quant.onnx"), "-b", "finals:local", "--runtime", "onnxruntime"]
    assert main([*words, "--json", str(report)]) == 0
    (board,) = [p for p in json.loads(report.read_text())["pairs"] if (p["a"], p["b"]) == ("reference", "board")]
    assert board["coverage"]["compared"] == 1


def test_what_has_no_model_to_run_is_refused(digits, tmp_path, capsys):
    model = tmp_path / "model.bin"
    assert main(["compile", str(digits / "digits_quant.onnx"), "-o", str(model)]) == 0
    assert main(["-m", str(model), *ON]) == 2
    assert "runs the quantized ONNX; give it in -m, too" in capsys.readouterr().err
    assert main(["-m", str(digits / "digits_quant.onnx"), "-b", "local", "--runtime", "litert"]) == 2
    assert "runs a .tflite; give it in -m" in capsys.readouterr().err


def test_perf_shows_the_runtimes_own_times_of_each_node(digits, tmp_path):
    times = tmp_path / "perf.json"
    words = ["perf", "-m", str(digits / "digits_quant.onnx"), *ON, "--runs", "3", "--json", str(times)]
    assert main(words) == 0
    document = json.loads(times.read_text())
    graph = open_models([str(digits / "digits_quant.onnx")]).graph
    assert [n["name"] for n in document["nodes"]] == [n.name for n in graph.nodes]
    assert all(n["highest_s"] > 0 for n in document["nodes"])
    assert document["runs"] == 3 and document["notes"] == ["times of onnxruntime: its own profile"]


def test_the_first_run_of_the_main_job_tells_the_times_of_its_nodes(digits, tmp_path):
    _, report = verify(digits, tmp_path)
    (side,) = [s for s in report["sides"] if s["name"] == "board"]
    nodes = {n.name for n in open_models([str(digits / "digits_quant.onnx")]).graph.nodes}
    assert set(side["node_seconds"]) == nodes and all(s > 0 for s in side["node_seconds"].values())


def test_what_onnxruntime_adds_counts_for_the_node_that_runs_next():
    from qverify_worker.runtimes.onnxruntime import _times_by_run

    def event(name: str, at: int, took: int) -> dict:
        return {"cat": "Node", "name": f"{name}_kernel_time", "ts": at, "dur": took, "args": {"node_index": name}}

    first = [event("Transpose", 0, 5), event("qverify.1.7_token_2", 5, 10), event("qverify.0.3", 15, 1)]
    second = [event("Transpose", 100, 2), event("qverify.1.7_token_2", 105, 20), event("qverify.0.3", 130, 2)]
    other = [{"cat": "Session", "name": "model_run", "ts": 0, "dur": 99}, "noise", event("qverify.9.1", 140, 4)]
    found = _times_by_run([*second, *other, *first], ["a", "b"])
    assert found == [pytest.approx({"b": 15e-6, "a": 1e-6}), pytest.approx({"b": 22e-6, "a": 2e-6})]


def test_an_inventory_names_the_runtime(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "boards.toml").write_text('[boards.desk]\nuri = "local"\nruntime = "onnxruntime"\nthreads = "2"\n')
    assert find_runtime("desk", {}) == "onnxruntime" and find_runtime("local", {}) == ""
    assert find_runtime("finals:desk", {}) == "onnxruntime"


@pytest.mark.parametrize("line", ['runtime = "onnxruntime"\npython = "./evil"', 'runtime = "./evil"'])
def test_an_inventory_of_a_folder_runs_no_program_of_its_choice(line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "boards.toml").write_text(f'[boards.desk]\nuri = "local"\n{line}\n')
    if "python" in line:
        with pytest.raises(BadAddress, match="would run commands that this folder chooses"):
            find_runtime("desk", {})
    (tmp_path / "boards.toml").write_text('[boards.desk]\nuri = "local?runtime=./evil"\n')
    with pytest.raises(BadAddress, match="would run commands that this folder chooses"):
        find_runtime("desk", {})


def test_a_soak_compares_it_with_its_own_first_run(digits, capsys):
    assert main(["soak", "-m", str(digits / "digits_quant.onnx"), *ON, "--for", "1"]) == 0
    printed = capsys.readouterr().out
    assert "0 differ from the first one, by which alone they are judged" in printed and "wrong" not in printed


def test_infer_writes_every_tensor(digits, tmp_path):
    words = ["infer", "-m", str(digits / "digits_quant.onnx"), *ON, "--side", "board", "-o", str(tmp_path / "out")]
    assert main(words) == 0
    names = {n.name for n in open_models([str(digits / "digits_quant.onnx")]).graph.nodes}
    assert {t["name"] for t in json.loads((tmp_path / "out" / "dump.json").read_text())["tensor"]} == names


def test_the_onnx_as_it_is_is_judged_by_its_final_outputs(digits, tmp_path, capsys):
    report = tmp_path / "R.json"
    words = ["-m", str(digits / "digits_quant.onnx"), "-b", "local?form=original", "--runtime", "onnxruntime"]
    assert main([*words, "-r", "True", "--json", str(report)]) == 0
    (board,) = [p for p in json.loads(report.read_text())["pairs"] if (p["a"], p["b"]) == ("reference", "board")]
    assert board["coverage"]["compared"] == 1
    printed = capsys.readouterr().out
    assert "ran the quantized ONNX as it is" in printed and "final outputs only" in printed
    assert main(["-m", str(digits / "digits_quant.onnx"), "-b", "local?form=original"]) == 2
    assert "form=original: is for runtime=onnxruntime or litert" in capsys.readouterr().err


def test_a_fault_in_the_onnx_as_it_is_is_found(digits, tmp_path):
    spoils = tmp_path / "spoils.py"
    node = next(n.output[0] for n in onnx.load(digits / "digits_quant.onnx").graph.node if n.op_type == "Conv")
    spoils.write_text(SPOILS_FLOAT.replace("{node}", node))
    words = ["-m", str(digits / "digits_quant.onnx"), "-b", "local?form=original", "--runtime", "onnxruntime"]
    assert main([*words, "--python", f"{sys.executable} {spoils}"]) == 1


SPOILS_FLOAT = """
import runpy, sys
import onnx, onnxruntime

class Spoiled(onnxruntime.InferenceSession):
    def __init__(self, data, *words, **named):
        model = onnx.load_from_string(data)
        node = next(n for n in model.graph.node if "{node}" in n.output)
        model.graph.node.append(onnx.helper.make_node("Neg", [node.output[0] + "_"], [node.output[0]]))
        node.output[0] += "_"
        nodes = list(model.graph.node)
        at = nodes.index(node)
        del model.graph.node[:]
        model.graph.node.extend([*nodes[: at + 1], nodes[-1], *nodes[at + 1 : -1]])
        super().__init__(model.SerializeToString(), *words, **named)

onnxruntime.InferenceSession = Spoiled
sys.argv = sys.argv[2:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_a_provider_that_is_not_there_ran_nothing(digits, capsys):
    words = ["-m", str(digits / "digits_quant.onnx"), "-b", "local", "--runtime", "onnxruntime", "--provider", "Nosuch"]
    assert main(words) == 3
    shown = capsys.readouterr().out
    assert "provider Nosuch: this onnxruntime has" in shown and "onnxruntime ran" not in shown
