"""No tensor is kept from the comparison by a flag of the file that names it: set on each in turn, on both sides."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from qverify.cli.main import main
from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.errors import BadFileError
from qverify.inputs.random_inputs import random_inputs
from qverify.model_bin import container
from qverify.model_bin.cut_graph import cut
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.records import INTERIOR, TENSOR, decode, encode
from qverify.model_bin.units import may_be_interior, units
from qverify.sides.board import Board
from qverify.sides.simulator import Simulator
from qverify.tensors.spec import TensorSpec
from qverify_agents.binaries import host_architecture, runtime_path

CORPUS = sorted((Path(__file__).parents[2] / "board_runtime" / "fuzz" / "corpus_model_bin").iterdir())
REFUSED = "flagged interior"


def flagged(data: bytes, places: list[int]) -> bytes:
    """With the flag of these tensors set, or cleared where it was."""
    sections = {k: bytes(v) for k, v in container.unpack(data).items()}
    records = bytearray(sections[b"TNSR"])
    for place in places:
        records[place * TENSOR.size + 8] ^= INTERIOR
    return container.pack({**sections, b"TNSR": bytes(records)})


def by_host(data: bytes) -> bool:
    try:
        decode(data)
    except BadFileError as error:
        assert REFUSED in str(error)
        return False
    return True


def by_board(data: bytes, folder: Path) -> bool:
    (folder / "m.bin").write_bytes(data)
    words = [str(runtime_path(host_architecture())), "model_info", f"--model_file={folder / 'm.bin'}"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 0 or (done.returncode == 2 and REFUSED in done.stderr), done.stderr
    return done.returncode == 0


@pytest.mark.parametrize("source", CORPUS, ids=lambda p: p.name)
def test_both_sides_refuse_the_same(source: Path, tmp_path: Path) -> None:
    data = source.read_bytes()
    graph, taken = decode(data), []
    for place, (name, spec) in enumerate(graph.tensors.items()):
        changed = flagged(data, [place])
        taken.append(by_host(changed))
        assert taken[-1] == (spec.interior or name in may_be_interior(graph))
        assert by_board(changed, tmp_path) == taken[-1], name
    assert not all(taken)


def test_a_faulty_board_is_never_passed(digits: Path, tmp_path: Path) -> None:
    """A flag on each tensor of the example alone, and on all at once; the board is wrong there."""
    data = encode(compile_model((digits / "digits_quant.onnx").read_bytes(), "digits", CompilerOptions()).graph)
    graph = decode(data)
    makers, names = graph.producers(), list(graph.tensors)
    for places in [[i] for i, n in enumerate(names) if n in makers] + [list(range(len(names)))]:
        (tmp_path / "m.bin").write_bytes(flagged(data, places))
        node = makers.get(names[places[0]], graph.nodes[-1]).name
        kind = "zero_tail" if graph.spec(node).dtype == "float32" else "plus_one"
        assert main(["-m", str(tmp_path / "m.bin"), "-b", f"faulty:local?fault={kind}@{node}"]) in (1, 2, 3), node


def residual() -> Graph:
    """q -> d (float) -> s (float) -> o: what float operators leave between integer tensors."""
    nodes = [
        Node("d", "dequantize", ("q",), ("d",)),
        Node("s", "softmax_float", ("d",), ("s",), (1,)),
        Node("o", "quantize", ("s",), ("o",)),
    ]
    quantized = {"scale": (0.05,), "zero_point": (3,)}
    specs = [
        TensorSpec("q", "uint8", (2, 5), **quantized),
        TensorSpec("d", "float32", (2, 5), interior=True),
        TensorSpec("s", "float32", (2, 5), interior=True),
        TensorSpec("o", "uint8", (2, 5), **quantized),
    ]
    return Graph(nodes, {s.name: s for s in specs}, {}, ("q",), ("o",))


def test_what_lies_inside_a_unit() -> None:
    graph = residual()
    assert may_be_interior(graph) == {"d", "s"}
    assert may_be_interior(replace(graph, outputs=("o", "s"))) == {"d"}
    again = replace(graph, nodes=[*graph.nodes, Node("z", "reshape", ("s",), ("z",))])
    again.tensors = {**graph.tensors, "z": TensorSpec("z", "float32", (5, 2))}
    assert may_be_interior(again) == {"d"}  # another node reads s
    assert cut(graph, {"q"}, ("s",)).spec("s").interior is False  # a part's output is shown


@pytest.mark.parametrize(
    ("name", "reference", "hidden", "inside"),
    [
        ("y/preactivation", False, False, True),
        ("y/preactivation", True, False, False),
        ("conv", False, False, False),
        ("y/preactivation", False, True, False),
    ],
)
def test_a_preactivation_of_no_fuse(name: str, reference: bool, hidden: bool, inside: bool, tmp_path: Path) -> None:
    """Only of the lookup of its name, only where there is no integer reference, only where that lookup is shown."""
    quantized = {"scale": (0.05,), "zero_point": (3,), "integer_reference": reference}
    table = np.arange(256).clip(9, 99).astype(np.uint8)
    nodes = [
        Node(name, "transpose", ("q",), (name,), (1, 0), integer_reference=reference),
        Node("y", "lookup", (name, "y/clip"), ("y",), integer_reference=reference),
        Node("z", "transpose", ("y",), ("z",), (1, 0)),
    ]
    specs = [
        TensorSpec("q", "uint8", (2, 5), **quantized),
        TensorSpec(name, "uint8", (5, 2), **quantized, interior=True),
        TensorSpec("y/clip", "uint8", (256,)),
        TensorSpec("y", "uint8", (5, 2), **quantized),
        TensorSpec("z", "uint8", (2, 5), **quantized),
    ]
    tensors = {s.name: s for s in specs}
    graph = Graph(nodes, {**tensors, name: replace(tensors[name], interior=False)}, {"y/clip": table}, ("q",), ("z",))
    data = flagged(encode(graph), [1, 3] if hidden else [1])
    assert by_host(data) == by_board(data, tmp_path) == inside


def test_a_unit_of_which_one_output_is_inside(tmp_path: Path) -> None:
    """A split, half of which is a graph output: the board says no digest of the other half, and none is asked of it."""
    graph = decode(next(p for p in CORPUS if p.name == "split_two_outputs_u8").read_bytes())
    (node,) = (n for n in graph.nodes if n.op == "split")
    shown = node.outputs[0]
    graph.tensors[shown] = replace(graph.spec(shown), interior=False)
    graph.outputs = (*graph.outputs, shown)
    prepared, unit = random_inputs(graph), next(u for u in units(graph) if u.name == node.name)
    simulator, board = Simulator(graph), Board("local", encode(graph), graph, 20)
    try:
        recording = board.run(prepared)
        assert recording.state == "complete" and recording.digests == simulator.run(prepared).digests
        given = {n: board.pull([n])[n] if n not in graph.inputs else prepared.arrays()[n] for n in unit.inputs}
        found = board.run_unit(unit, given)
    finally:
        board.close()
    assert set(found) == {shown} and np.array_equal(found[shown], simulator.run_unit(unit, given)[shown])
