"""What the runtime says of a model.bin it does not take: where, what it got and what it wanted, in one line."""

from __future__ import annotations

import re
import struct
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from qverify.model_bin import container
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.records import NODE, TENSOR, decode, encode
from qverify.tensors.spec import TensorSpec
from qverify_agents.binaries import host_architecture, runtime_path
from tiny_model import U8, graph, model_bytes

RUNTIME = Path(__file__).parents[2] / "board_runtime"


def refusal(data: bytes, folder: Path) -> str:
    """The line on stderr of a runtime that exits with 2."""
    path = folder / "m.bin"
    path.write_bytes(data)
    words = [str(runtime_path(host_architecture())), "model_info", f"--model_file={path}"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    return done.stderr.strip()


def with_words(*words: int) -> Graph:
    tiny = graph()
    return replace(tiny, nodes=[replace(n, words=words) if n.name == "t" else n for n in tiny.nodes])


def patched(kind: bytes, at: int, value: int) -> bytes:
    """The tiny model with one uint32 of a section changed, and checksums that fit."""
    sections = {k: bytearray(v) for k, v in container.unpack(model_bytes()).items()}
    struct.pack_into("<I", sections[kind], at, value)
    return container.pack({k: bytes(v) for k, v in sections.items()})


def product(name: str, weights: tuple[int, int], bias: str) -> bytes:
    """A fully_connected node of (2, 3) by weights, with a bias of a type."""
    specs = [
        TensorSpec("x", "uint8", (2, 3), **U8),
        TensorSpec("w", "int8", weights, scale=(0.5,), zero_point=(0,)),
        TensorSpec("b", bias, (5,)),
        TensorSpec("rq", "float32", (1,)),
        TensorSpec(name, "uint8", (2, 5), **U8),
    ]
    constants = {"w": np.ones(weights, np.int8), "b": np.ones(5, bias), "rq": np.full(1, 0.5, np.float32)}
    node = Node(name, "fully_connected", ("x", "w", "b", "rq"), (name,), (0, 255))
    return encode(
        Graph([node], {s.name: s for s in specs}, constants, ("x",), (name,), meta={"source_sha256": "0" * 64})
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((0, 2, 2, 1), "t (transpose): word 2 is 2, wanted each of 0 to 3 once"),
        ((0, 2, 7, 1), "t (transpose): word 2 is 7, wanted each of 0 to 3 once"),
        ((0, 1, 2, 3), "t (transpose): dim 1 is 11, wanted 3"),
    ],
)
def test_words(words: tuple[int, ...], said: str, tmp_path: Path) -> None:
    assert refusal(encode(with_words(*words)), tmp_path).endswith(said)


def test_operands(tmp_path: Path) -> None:
    got = "got uint8 (2, 3), constant int8 (5, 3), constant int64 (5), constant float32 (1) -> uint8 (2, 5)"
    assert refusal(product("y", (5, 3), "int64"), tmp_path).endswith(
        f"y (fully_connected): wanted a constant int32 bias of 5; {got}"
    )
    found = refusal(product("y", (5, 4), "int32"), tmp_path)
    assert "wanted (N, C) quantized with one scale, constant quantized weights (M, C)" in found
    assert "; got uint8 (2, 3), constant int8 (5, 4), " in found


def test_a_long_name_leaves_one_line_within_its_room(tmp_path: Path) -> None:
    found = refusal(product("n" * 200, (5, 4), "int32"), tmp_path)
    assert found.count("n" * 100) == 1 and "wanted (N, C)" in found and len(found) < 400


@pytest.mark.parametrize(
    ("kind", "at", "value", "said"),
    [
        (b"TNSR", TENSOR.size + 4, 99, "tensor q: dtype 99, flags 0, rank 4, layout 0, reserved 0; wanted 1 to 10, at most 31, 8, 4, 0"),
        (b"TNSR", TENSOR.size, 0, "tensor 1: its name is empty, or lies outside STRS"),
        (b"NODE", NODE.size, 1 << 30, "node 1: its name or its op lies outside STRS"),
        (b"NODE", 8, 65, "node q: 65 inputs, 1 outputs, 0 words, 0 covers, flags 1, reserved 0; wanted at most 64, 1 to 64, 64, 4096, 1, 0"),
    ],
)  # fmt: skip
def test_records(kind: bytes, at: int, value: int, said: str, tmp_path: Path) -> None:
    assert refusal(patched(kind, at, value), tmp_path).endswith(said)


def test_a_dim(tmp_path: Path) -> None:
    """A word of the first tensor's shape, wherever it lies in WORD."""
    shape = struct.unpack_from("<I", container.unpack(model_bytes())[b"TNSR"], 16)[0]
    found = refusal(patched(b"WORD", 4 * shape + 12, 9), tmp_path)
    assert found.endswith(
        "tensor x: dim 3 is 9, aligned 8, stride 4; wanted 1 to 1073741824, aligned no less, stride 4"
    )


def test_sizes_of_sections(tmp_path: Path) -> None:
    sections = {k: bytes(v) for k, v in container.unpack(model_bytes()).items()}
    size = len(sections[b"WORD"]) + 1
    found = refusal(container.pack({**sections, b"WORD": sections[b"WORD"] + b"x"}), tmp_path)
    assert f"model.bin: GRPH of 64 bytes, WORD of {size}, SCAL of 4, STRS of " in found
    assert found.endswith("; wanted 64, two multiples of 4, a zero at both ends of STRS")


def test_no_message_only_says_bad() -> None:
    sources = sorted((RUNTIME / "src").rglob("*.[ch]"))
    assert len(sources) > 80
    assert [p.name for p in sources if re.search(r'"[^"\n]*\bbad\b', p.read_text())] == []


def test_the_corpus_is_taken(tmp_path: Path) -> None:
    """What is refused above is refused for what was changed."""
    assert decode(product("y", (5, 3), "int32")).outputs == ("y",)
    (tmp_path / "m.bin").write_bytes(product("y", (5, 3), "int32"))
    words = [str(runtime_path(host_architecture())), "model_info", f"--model_file={tmp_path / 'm.bin'}"]
    assert subprocess.run(words, capture_output=True, timeout=20, check=False).returncode == 0
