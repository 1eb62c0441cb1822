"""float16 is an input or an output of the graph that half_float reads or computes (FORMAT.md); both readers refuse every other
place of it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from qverify.errors import BadFileError
from qverify.model_bin import container
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.records import TENSOR, decode, encode
from qverify.tensors.spec import TensorSpec
from qverify_agents.binaries import host_architecture, runtime_path

FLOAT16, SHAPE = 10, (2, 3)


def graph(*nodes: Node, halves: str, outputs: str, **constants: np.ndarray) -> Graph:
    """A graph of these nodes. The tensors in `halves` are uint16, which float16() turns to float16, the others float32."""
    names = dict.fromkeys(n for node in nodes for n in (*node.inputs, *node.outputs) if n)
    made = {o for node in nodes for o in node.outputs} | constants.keys()
    specs = {n: TensorSpec(n, "uint16" if n in halves else "float32", SHAPE) for n in names}
    inputs = tuple(n for n in names if n not in made)
    return Graph(list(nodes), specs, dict(constants), inputs, tuple(outputs), meta={"source_sha256": "0" * 64})


def float16(of: Graph) -> bytes:
    """The model.bin with every uint16 tensor as float16."""
    sections = {k: bytes(v) for k, v in container.unpack(encode(of)).items()}
    records = bytearray(sections[b"TNSR"])
    for place, spec in enumerate(of.tensors.values()):
        if spec.dtype == "uint16":
            records[place * TENSOR.size + 4] = FLOAT16
    return container.pack({**sections, b"TNSR": bytes(records)})


def half(x: str, y: str) -> Node:
    return Node(y, "half_float", (x,), (y,))


def reshape(x: str, y: str) -> Node:
    return Node(y, "reshape", (x,), (y,))


def by_board(data: bytes, folder: Path) -> str:
    """The line that the runtime refuses the file with, "" if it takes it."""
    (folder / "m.bin").write_bytes(data)
    words = [str(runtime_path(host_architecture())), "model_info", f"--model_file={folder / 'm.bin'}"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode in (0, 2), done
    return done.stderr


@pytest.mark.parametrize(
    "made",
    [
        graph(half("a", "b"), half("b", "c"), halves="ac", outputs="c"),
        graph(half("a", "b"), half("b", "c"), halves="b", outputs="bc"),
        graph(half("a", "b"), halves="a", outputs="ab"),
    ],
    ids=["both ends", "an output that a node reads", "an input that is an output"],
)
def test_ends(made: Graph, tmp_path: Path) -> None:
    data = float16(made)
    read = decode(data)
    assert {n for n, s in read.tensors.items() if s.dtype == "float16"} == {
        n for n, s in made.tensors.items() if s.dtype == "uint16"
    }
    assert by_board(data, tmp_path) == "" and encode(read) == data


OTHER_PLACES = {
    "inside": (graph(half("a", "b"), half("b", "c"), halves="b", outputs="c"), "no input or output"),
    "a constant": (
        graph(half("k", "b"), halves="k", outputs="b", k=np.ones(SHAPE, np.uint16)),
        "no input or output",
    ),
    "another op reads it": (graph(reshape("a", "b"), halves="ab", outputs="b"), "half_float"),
    "another op computes it": (graph(half("a", "b"), reshape("a", "c"), halves="ac", outputs="bc"), "half_float"),
}


@pytest.mark.parametrize(("made", "why"), OTHER_PLACES.values(), ids=OTHER_PLACES)
def test_other_places(made: Graph, why: str, tmp_path: Path) -> None:
    data = float16(made)
    with pytest.raises(BadFileError, match=f"float16.*{why}"):
        decode(data)
    refusal = by_board(data, tmp_path)
    assert "float16" in refusal and why in refusal


def test_a_scale(tmp_path: Path) -> None:
    made = graph(half("a", "b"), halves="a", outputs="b")
    made.tensors["a"] = TensorSpec("a", "uint16", SHAPE, (), (0.5,), (0,))
    data = float16(made)
    with pytest.raises(BadFileError, match="a scale for float16"):
        decode(data)
    assert "integers" in by_board(data, tmp_path)


def test_float16_to_float16(tmp_path: Path) -> None:
    data = float16(graph(half("a", "b"), halves="ab", outputs="b"))
    assert "float32 in and out, or one of them float16" in by_board(data, tmp_path)
