"""--no-fuse and --strip-io-quant: the same results with more tensors, or with integer ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from qverify.compare.options import Options
from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.errors import UnsupportedError
from qverify.model_bin.records import encode
from qverify.session.job import verify
from qverify.session.request import Request

from tests.exact_default import exact_default
from tests.ops.qdq import Qdq


def block(act: str, symmetric: bool) -> bytes:
    """Conv, Clip, Conv, Relu with real limits, as the exports of symmetric toolchains have them."""
    m = Qdq(act, symmetric, seed=3)
    x, w = m.input((1, 3, 9, 9)), m.weight((5, 3, 3, 3), axis=0)
    low, high = m.constant("low", np.float32(-0.2)), m.constant("high", np.float32(0.9))
    first = m.quantize(m.op("Clip", [m.op("Conv", [x, w, m.bias(x, w, 5)]), low, high]))
    w2 = m.weight((4, 5, 1, 1), axis=0)
    m.output(m.quantize(m.op("Relu", [m.op("Conv", [first, w2, m.bias(first, w2, 4)])]), crop=0.8))
    return m.model().SerializeToString()


def verified(tmp_path: Path, source: bytes, options: CompilerOptions):
    compiled = compile_model(source, "q.onnx", options)
    (tmp_path / "q.onnx").write_bytes(source)
    (tmp_path / "m.bin").write_bytes(encode(compiled.graph))
    paths = [str(tmp_path / "q.onnx"), str(tmp_path / "m.bin")]
    return compiled.graph, verify(Request(paths, "local", options=Options(dump_all=True))).report


@pytest.mark.parametrize(("act", "symmetric"), [("int8", True), ("int16", True)])
def test_activations_stay_nodes(act: str, symmetric: bool, tmp_path: Path):
    source = block(act, symmetric)
    fused = compile_model(source, "q.onnx", CompilerOptions(check=False)).graph
    graph, report = verified(tmp_path, source, CompilerOptions(fuse=False))
    split = {n.name.removesuffix("/preactivation"): n for n in graph.nodes if n.name.endswith("/preactivation")}
    assert split
    assert len(graph.nodes) == len(fused.nodes) + len(split)
    for name, conv in split.items():
        clip = graph.producers()[name]
        assert (clip.op, len(conv.covers), len(clip.covers)) == ("lookup", 1, 1)
        assert graph.tensors[conv.name].interior == (act == "int16")
    assert report.blame is None
    assert all(t.forced is not None and t.forced.verdict == "PASSED" for p in report.pairs for t in p.tensors)
    if act != "int16":
        assert report.verdict == "PASSED"
        assert {t.name for t in report.pairs[0].tensors} >= {n.name for n in split.values()}


@pytest.mark.parametrize(("act", "symmetric"), [("int8", True), ("uint8", False)])
def test_integer_ends(act: str, symmetric: bool, tmp_path: Path):
    with exact_default():
        graph, report = verified(tmp_path, block(act, symmetric), CompilerOptions(strip_io_quant=True))
    assert [graph.spec(n).dtype for n in (*graph.inputs, *graph.outputs)] == [act, act]
    assert all(graph.spec(n).scale for n in (*graph.inputs, *graph.outputs))
    assert not {"quantize", "dequantize"} & {n.op for n in graph.nodes}
    assert report.verdict == "PASSED"
    assert [o["equal"] for o in report.plain_onnxruntime["outputs"]] == [True]


def test_nothing_to_strip_is_said(tmp_path: Path):
    source = compile_model(block("uint8", False), "q.onnx", CompilerOptions(strip_io_quant=True)).integer_onnx
    with pytest.raises(UnsupportedError, match="finds no QuantizeLinear"):
        compile_model(source, "i.onnx", CompilerOptions(strip_io_quant=True))


def test_progress_is_told_to_the_end_and_a_pipe_sees_none(tmp_path: Path):
    seen: dict[str, list[tuple[int, int]]] = {}
    source = block("uint8", False)
    compile_model(source, "q.onnx", watch=lambda what, done, total: seen.setdefault(what, []).append((done, total)))
    assert list(seen) == ["matching", "lowering", "checking"]
    assert all(steps == [(i + 1, len(steps)) for i in range(len(steps))] for steps in seen.values())
    (tmp_path / "q.onnx").write_bytes(source)
    command = [sys.executable, "-m", "qverify", "compile", str(tmp_path / "q.onnx"), "-o", str(tmp_path / "m.bin")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == "" and "\r" not in done.stdout and "\x1b" not in done.stdout


def test_the_compiler_has_the_only_reference_to_the_file_s_bytes(
    digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that it can free them when it has parsed them: 87 MB of a ViT-B/16."""
    from qverify.compiler.compile_model import compile_model
    from qverify.session.other_jobs import compile_file

    references = []

    def compile_counted(source: bytes, *words: Any) -> Any:
        references.append(sys.getrefcount(source))
        return compile_model(source, *words)

    monkeypatch.setattr(compile_file, "compile_model", compile_counted)
    job = compile_file.CompileJob(str(digits / "digits_quant.onnx"), str(tmp_path / "m.bin"))
    assert compile_file.compile_file(job).size_bytes == (tmp_path / "m.bin").stat().st_size
    assert references == [2]  # `source`, and the argument of getrefcount
