"""--paranoid where the run on other inputs proves nothing, or only what a relaxed gate allows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from qverify.cli.main import main
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.records import encode
from qverify.tensors.spec import TensorSpec

FAULTY = "faulty:local?fault=plus_one@prob_QuantizeLinear_Output"


def run(model: Path, out: Path, *more: str) -> tuple[int, dict[str, Any]]:
    status = main(["-m", str(model), "--paranoid", "--json", str(out), *more])
    return status, json.loads(out.read_text())


def test_inputs_that_have_no_other_bytes_are_inconclusive(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The only valid index of a table of one row is 0, so that a board which repeats its answers looks like any other."""
    specs = [TensorSpec("i", "int64", (2,)), TensorSpec("t", "float32", (1, 3)), TensorSpec("y", "float32", (2, 3))]
    nodes = [Node("y", "gather", ("t", "i"), ("y",), (0,))]
    table = {"t": np.float32([[1, 2, 3]])}
    graph = Graph(nodes, {s.name: s for s in specs}, table, ("i",), ("y",), meta={"source_sha256": "0" * 64})
    (tmp_path / "m.bin").write_bytes(encode(graph))
    assert main(["-m", str(tmp_path / "m.bin"), "-b", "local"]) == 0
    status, report = run(tmp_path / "m.bin", tmp_path / "r.json", "-b", "local")
    (pair,) = report["pairs"]
    assert (status, report["verdict"], pair["verdict"], pair["cause"]) == (3, "INCONCLUSIVE", "INCONCLUSIVE", None)
    assert pair["why"].startswith("no inputs with other bytes were found")
    assert any(n.startswith("paranoid: no inputs with other bytes") for n in report["notes"])


def test_what_is_relaxed_on_other_inputs_is_said_at_the_pair(digits: Path, tmp_path: Path) -> None:
    model = digits / "digits_quant.onnx"
    status, report = run(
        model, tmp_path / "r.json", "-b", FAULTY, "--relax-board", "--gate", "cosine:0.98", "--spot-seed", "7"
    )
    (pair,) = [p for p in report["pairs"] if (p["a"], p["b"]) == ("simulator", "board")]
    assert (status, pair["verdict"], pair["bit_equal"]) == (0, "PASSED", False)
    (other,) = [text for text in pair["relaxed"] if "on other inputs" in text]
    assert other.startswith("on other inputs (random, PCG64 seed 7): ") and "not bit-equal in " in other
    assert not any(
        "paranoid: on other inputs" in note for note in report["notes"]
    )  # that would say that they are equal
    assert run(model, tmp_path / "r.json", "-b", FAULTY)[0] == 1
