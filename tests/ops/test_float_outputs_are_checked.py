"""A float output of conv, conv_transpose, fully_connected or matmul: what NUMERICS.md section 1 does not allow is refused at load."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.model_bin.graph import Graph
from qverify.model_bin.records import encode

from tests.ops.case_files import CASES
from tests.ops.qdq import Qdq
from tests.ops.runtime_library import COMPILER, binary

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C compiler on this machine")
OPS = {
    "conv": "conv_to_float",
    "conv_transpose": "conv_transpose_to_float",
    "fully_connected": "gemm_to_float",
    "matmul": "matmul_to_float_per_column",
}


def _constant(graph: Graph, at: int, value: np.ndarray) -> Graph:
    """The graph with another constant as this input of its float node."""
    name = _node(graph).inputs[at] or ""
    spec = replace(graph.spec(name), dtype=value.dtype.name, shape=value.shape, aligned_shape=value.shape)
    return replace(graph, tensors={**graph.tensors, name: spec}, constants={**graph.constants, name: value})


def _node(graph: Graph):
    return next(n for n in graph.nodes if n.op in OPS)


def _rq(graph: Graph) -> np.ndarray:
    return graph.constants[_node(graph).inputs[-1] or ""]


def _words(graph: Graph, *last: int) -> Graph:
    node = _node(graph)
    other = replace(node, words=(*node.words[: -len(last)], *last))
    return replace(graph, nodes=[other if n is node else n for n in graph.nodes])


WRONG: dict[str, tuple[Callable[[Graph], Graph], str]] = {
    "rq in float32": (lambda g: _constant(g, -1, _rq(g).astype(np.float32)), "wanted a constant float64 rq"),
    "rq of an integer mode": (lambda g: _constant(g, -1, np.ones((2, 1), np.int32)), "wanted a constant float64 rq"),
    "two scales": (lambda g: _constant(g, -1, np.ones(2)), "wanted a constant float64 rq"),
    "a negative scale": (lambda g: _constant(g, -1, -_rq(g)), "wanted a positive number"),
    "an infinite scale": (lambda g: _constant(g, -1, _rq(g) * np.inf), "wanted a positive number"),
    "limits": (lambda g: _words(g, 0, 255), "activation limits 0 and 255 beside a float output"),
}


def run(graph: Graph, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "model.bin").write_bytes(encode(graph))
    inputs = []
    for i, name in enumerate(graph.inputs):
        (folder / f"{i}.bin").write_bytes(np.zeros(graph.spec(name).shape, graph.spec(name).dtype).tobytes())
        inputs.append(f"{i}.bin")
    command = [str(binary()), "infer", "--model_file=model.bin", f"--input_file={','.join(inputs)}", "--digests"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("op", OPS)
def test_each_is_refused_at_load(op: str, tmp_path: Path):
    m = Qdq(seed=2)
    CASES[OPS[op]][0](m)
    graph = compile_model(m.model().SerializeToString(), "m", CompilerOptions(check=False)).graph
    assert run(graph, tmp_path).returncode == 0
    for what, (change, said) in WRONG.items():
        done = run(change(graph), tmp_path)
        assert done.returncode and said in done.stderr + done.stdout, (what, done.stderr)


def test_a_float_bias_beside_a_quantized_output_is_refused(tmp_path: Path):
    m = Qdq(seed=2)
    CASES["gemm_transposed_weight"][0](m)
    graph = compile_model(m.model().SerializeToString(), "m", CompilerOptions(check=False)).graph
    bias = graph.constants[_node(graph).inputs[2] or ""]
    done = run(_constant(graph, 2, bias.astype(np.float32)), tmp_path)
    assert done.returncode and "wanted a constant int32 bias" in done.stderr + done.stdout
