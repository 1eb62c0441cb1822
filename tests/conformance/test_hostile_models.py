"""Well-formed model.bin files of mutated graphs: the host never fails but by BadFileError, the board never but by
exit 2, and what both take they compute alike. The seed is printed by the test's name."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from qverify.errors import BadFileError
from qverify.inputs.random_inputs import random_inputs
from qverify.model_bin import container
from qverify.model_bin.graph import ROUNDINGS, Graph
from qverify.model_bin.records import INPUT, OUTPUT, TENSOR, decode, encode
from qverify.sides.board import Board
from qverify.sides.simulator import Simulator
from qverify.tensors.prepared import PreparedInputs
from qverify.tensors.spec import TensorSpec
from qverify_agents.binaries import host_architecture, runtime_path
from tiny_model import model_bytes

CORPUS = sorted((Path(__file__).parents[2] / "board_runtime" / "fuzz" / "corpus_model_bin").iterdir())
ROUNDS = int(os.environ.get("QVERIFY_MUTATIONS", "12"))


def mutated(graph: Graph, rng: np.random.Generator) -> bytes:
    """One or two changes a valid container can carry: words, wiring, shapes, types, quantization, constants, mode."""
    for _ in range(rng.integers(1, 3)):
        nodes, tensors, constants = list(graph.nodes), dict(graph.tensors), dict(graph.constants)
        at = int(rng.integers(len(nodes)))
        node, name = nodes[at], str(rng.choice(list(tensors)))
        spec, kind = tensors[name], int(rng.integers(7))
        if kind < 2 and node.words:
            nodes[at] = replace(node, words=_changed(node.words, rng))
        elif kind == 2 and node.inputs:
            place = int(rng.integers(len(node.inputs)))
            sources = (
                *node.inputs[:place],
                ([*tensors, None])[int(rng.integers(len(tensors) + 1))],
                *node.inputs[place + 1 :],
            )
            nodes[at] = replace(node, inputs=sources)
        elif kind == 3:
            shape = tuple(max(1, min(d, 64)) for d in _changed(spec.shape or (1,), rng))
            tensors[name] = replace(spec, shape=shape, aligned_shape=shape)
            if name in constants:
                constants[name] = np.resize(constants[name], shape)
        elif kind == 4:
            dtype = str(rng.choice(["int8", "uint8", "int16", "int32", "float32", "float64", "int64"]))
            tensors[name] = TensorSpec(name, dtype, spec.shape)
            if name in constants:
                with np.errstate(all="ignore"):
                    constants[name] = constants[name].astype(dtype)
        elif kind == 5 and name in constants:
            changed = constants[name].copy().reshape(-1)
            changed.view(np.uint8)[int(rng.integers(changed.nbytes))] ^= 1 << int(rng.integers(8))
            constants[name] = changed.reshape(spec.shape)
        else:
            graph = replace(graph, rounding=str(rng.choice(ROUNDINGS)))
        graph = replace(graph, nodes=nodes, tensors=tensors, constants=constants)
    return encode(graph)


def _changed(words: tuple[int, ...], rng: np.random.Generator) -> tuple[int, ...]:
    at = int(rng.integers(len(words)))
    new = int(rng.choice([0, 1, 2, 3, -1, words[at] + 1, words[at] - 1, 255, 65536, 2**31 - 1, -(2**31)]))
    return (*words[:at], new, *words[at + 1 :])


def inputs_of(graph: Graph) -> PreparedInputs:
    """Returns random inputs as the file describes them, or for its tensors alone if the change made the description wrong."""
    try:
        return random_inputs(graph, 1)
    except BadFileError:
        return random_inputs(replace(graph, meta={}), 1)


def by_host(data: bytes) -> dict[str, str] | None:
    """Digests of every tensor, or None when the file is refused."""
    try:
        graph = decode(data)
        with np.errstate(all="ignore"):
            return Simulator(graph).run(inputs_of(graph), keep=set()).digests
    except BadFileError:
        return None


def by_board(data: bytes, address: str) -> dict[str, str] | None:
    """The same of a board, which must answer, not die."""
    graph = decode(data)
    board = Board(address, data, graph, 60.0)
    try:
        recording = board.run(inputs_of(graph))
    finally:
        board.close()
    if recording.state != "complete":
        assert "the agent says" in (recording.why or ""), recording.why
        return None
    return dict(recording.digests)


@pytest.mark.parametrize("source", CORPUS, ids=lambda p: p.name)
def test_mutated(source: Path) -> None:
    graph = decode(source.read_bytes())
    rng = np.random.default_rng(int.from_bytes(source.name.encode()[-7:], "little"))
    for _ in range(ROUNDS):
        try:
            changed = mutated(graph, rng)
        except BadFileError:
            continue  # check_graph refuses it; the host pushes no such file
        host, board = by_host(changed), by_board(changed, "local")
        if host is not None and board is not None:
            assert host == board


@pytest.mark.parametrize(
    ("tensor", "flag"), [("x", INPUT), ("q", INPUT), ("u", OUTPUT), ("y", OUTPUT), ("x", OUTPUT), ("y", INPUT)]
)
def test_a_flag_that_disagrees_with_the_graph_is_refused_on_both_sides(tensor: str, flag: int, tmp_path: Path) -> None:
    """Set where it was not, cleared where it was: the board keeps the values of what is flagged as an output."""
    sections = {k: bytes(v) for k, v in container.unpack(model_bytes()).items()}
    records, at = bytearray(sections[b"TNSR"]), "xqtuy".index(tensor) * TENSOR.size
    records[at + 8] ^= flag
    data = container.pack({**sections, b"TNSR": bytes(records)})
    with pytest.raises(BadFileError, match=f"tensor {tensor}: its input or output flag disagrees with GRPH"):
        decode(data)
    path = tmp_path / "m.bin"
    path.write_bytes(data)
    words = [str(runtime_path(host_architecture())), "model_info", f"--model_file={path}"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 2 and f"tensor {tensor}: its input or output flag disagrees with GRPH" in done.stderr
