"""Reduction: one node that still differs on the board, in a bundle that repeats it; a broken board is never a culprit."""

from __future__ import annotations

import json
import math
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
from qverify.cli.main import main
from qverify.compare.options import Options
from qverify.errors import UsageError
from qverify.model_bin.cut_graph import cut
from qverify.model_bin.records import decode
from qverify.model_bin.units import units
from qverify.session.models import open_models
from qverify.session.request import Request
from qverify.session.triage.reduce_model import reduce
from qverify.sides.simulator import Simulator

from tests.conftest import MODELS, need_models

NODE = "relu2_QuantizeLinear_Output"


def asked(digits: Path, board: str, run_sim: bool = True, more: str = "") -> Request:
    models = [str(digits / "digits_quant.onnx"), *([more] if more else [])]
    return Request(models, board, run_sim, options=Options(dump_all=True))


def test_one_node_and_a_bundle_that_repeats_it(digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    board, out = f"faulty:local?fault=plus_one@{NODE}", tmp_path / "out"
    found = reduce(asked(digits, board), str(out))
    assert (found.state, found.node, found.nodes, found.runs) == ("reduced", NODE, 1, 2)
    graph = decode((out / "model.bin").read_bytes())
    assert [n.name for n in graph.nodes] == [NODE]
    command = next(line for line in (out / "README.md").read_text().splitlines() if line.startswith("    qverify "))
    monkeypatch.chdir(out)
    assert main(shlex.split(command)[1:]) == 1
    assert main(["compare", "expected.npz", "board.npz"]) == 1
    assert main([w if w != board else "local" for w in shlex.split(command)[1:]]) == 0  # the fault is the board's
    assert json.loads((out / "report.json").read_text())["blame"]["node"] == NODE
    again = reduce(asked(digits, board), str(tmp_path / "two"))
    assert again.node == NODE
    for name in ("inputs.npz", "expected.npz", "board.npz", "model.bin", "quant.onnx"):
        assert (out / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_nothing_to_reduce(digits: Path, tmp_path: Path) -> None:
    found = reduce(asked(digits, "local"), str(tmp_path / "out"))
    assert found.state == "inconclusive" and "does not occur when it runs again" in found.why
    (tmp_path / "there").mkdir()
    with pytest.raises(UsageError, match="exists already"):
        reduce(asked(digits, "local"), str(tmp_path / "there"))


@pytest.mark.parametrize("kind", ["die", "hang", "garbage"])
def test_a_broken_board_is_no_culprit(kind: str, digits: Path, tmp_path: Path) -> None:
    from dataclasses import replace

    request = replace(asked(digits, f"faulty:local?fault={kind}@{NODE}"), deadline_s=2.0)
    found = reduce(request, str(tmp_path / "out"))
    assert found.state == "inconclusive" and not found.node and found.why
    assert not (tmp_path / "out").exists()


BUILD = """
import sys
import numpy as np
from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.model_bin.records import encode
onnx, binary, node = sys.argv[1:4]
graph = compile_model(open(onnx, "rb").read(), "quant.onnx", CompilerOptions(check=False)).graph
for one in graph.nodes:
    if one.name == node:  # the bug: its output channels, or its table, are one too far
        graph.constants[one.inputs[1]] = np.roll(graph.constants[one.inputs[1]], 1, axis=0)
open(binary, "wb").write(encode(graph))
"""


def built(tmp_path: Path, node: str, *, broken: bool = False) -> str:
    script = tmp_path / "tool.py"
    script.write_text("raise SystemExit('no licence')" if broken else BUILD)
    return f"{sys.executable} {script} {{onnx}} {{bin}} {node}"


def test_a_board_without_dumps_is_halved_by_truncated_models(digits: Path, tmp_path: Path, monkeypatch) -> None:
    """The vendor's compiler shifts one layer's channels; only final outputs show it."""
    import subprocess

    monkeypatch.setenv("PYTHONPATH", ":".join(sys.path))
    build, whole = built(tmp_path, NODE), tmp_path / "whole.bin"
    words = [w.format(onnx=digits / "digits_quant.onnx", bin=whole) for w in build.split()]
    subprocess.run(words, check=True, timeout=120)
    request = asked(digits, "finals:local", run_sim=False, more=str(whole))
    told: list[str] = []
    found = reduce(request, str(tmp_path / "out"), build, told.append)
    graph = open_models([str(digits / "digits_quant.onnx")]).graph
    assert (found.state, found.node, found.nodes) == ("reduced", NODE, 1)
    assert found.runs <= math.ceil(math.log2(len(units(graph)))) + 3
    said = (tmp_path / "out" / "README.md").read_text()
    assert "the board does not show" in said and "the host's values are used" in said
    found = reduce(request, str(tmp_path / "two"), built(tmp_path, NODE, broken=True))
    assert found.state == "inconclusive" and "no licence" in found.why


def test_a_cut_computes_what_the_whole_does(digits: Path) -> None:
    from qverify.inputs.random_inputs import random_inputs
    from qverify.tensors.prepared import PreparedInput, PreparedInputs

    graph = open_models([str(digits / "digits_quant.onnx")]).graph
    whole = Simulator(graph).run(random_inputs(graph, 3))
    every = units(graph)
    for first in range(len(every)):
        given = {o for u in every[:first] for o in u.outputs} | set(graph.inputs)
        part = cut(graph, given, every[-1].outputs)
        values = {**whole.tensors, **random_inputs(graph, 3).arrays()}
        inputs = tuple(
            PreparedInput(part.spec(n), part.spec(n).aligned_bytes(np.asarray(values[n])), "x") for n in part.inputs
        )
        ran = Simulator(part).run(PreparedInputs(inputs))
        assert all(whole.digests[n] == d for n, d in ran.digests.items()) and ran.digests


@need_models()
def test_mbv2_in_few_runs(tmp_path: Path) -> None:
    path = MODELS / "mbv2_100_224_ptq" / "mbv2_100_224_ptq_tfl_int8_qdq.onnx"
    graph = open_models([str(path)]).graph
    node = [n.name for n in graph.nodes if n.op == "conv"][25]
    found = reduce(Request([str(path)], f"faulty:local?fault=plus_one@{node}"), str(tmp_path / "out"))
    assert (found.node, found.nodes) == (node, 1) and found.runs <= math.log2(len(graph.nodes)) + 3


@need_models()
def test_a_tool_is_given_only_what_the_file_has(tmp_path: Path, monkeypatch) -> None:
    """A symmetric network: each Relu is a lookup of its own behind a tensor that the quantized file has, too."""
    import subprocess

    monkeypatch.setenv("PYTHONPATH", ":".join(sys.path))
    path = MODELS / "resnet8_cifar10" / "resnet8_cifar10_s8s8_qdq.onnx"
    graph = open_models([str(path)]).graph
    node = [n.name for n in graph.nodes if n.op == "conv" and "preact" in n.name][-1]
    build, whole = built(tmp_path, node), tmp_path / "whole.bin"
    subprocess.run([w.format(onnx=path, bin=whole) for w in build.split()], check=True, timeout=120)
    request = Request([str(path), str(whole)], "finals:local", False, options=Options(dump_all=True))
    found = reduce(request, str(tmp_path / "out"), build)
    assert found.state == "reduced" and found.nodes <= 2, found
    assert found.node in (
        node,
        node.replace("preact_", ""),
    )  # cut behind the convolution, the tool calls it otherwise
