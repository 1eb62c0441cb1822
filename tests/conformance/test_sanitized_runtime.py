"""The runtime under AddressSanitizer and UndefinedBehaviorSanitizer in real conversations: runs, parts, faults, hostile files
and hostile frames. (Every op's random nodes: tests/ops/test_runtime_equals_simulator.py.)"""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from qverify.cli.main import main
from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.errors import BadFileError
from qverify.inputs.random_inputs import random_inputs
from qverify.model_bin import container
from qverify.model_bin.graph import Graph
from qverify.model_bin.records import decode, encode
from qverify.model_bin.units import units
from qverify.sides.board import Board
from qverify.sides.simulator import Simulator
from qverify_agents.binaries import host_architecture, runtime_path
from qverify_agents.boards.faulty_runtime import KINDS
from test_hostile_models import CORPUS, by_board, mutated

from tests.ops.runtime_library import COMPILER, sanitized_folder

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C compiler on this machine")
FRAMES = sorted((Path(__file__).parents[2] / "board_runtime" / "fuzz" / "corpus_frames").iterdir())
STOPPED = 99  # how the sanitizers end the process, a status that qvrt never gives


@pytest.fixture(autouse=True)
def reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Every runtime of the test is a sanitized one; what they report lies in files, and fails the test."""
    monkeypatch.setenv("QVERIFY_BIN_DIR", str(sanitized_folder()))
    folder = tmp_path / "reports"
    folder.mkdir()
    monkeypatch.setenv("ASAN_OPTIONS", f"log_path={folder / 'asan'}:exitcode={STOPPED}")
    monkeypatch.setenv("UBSAN_OPTIONS", f"log_path={folder / 'ubsan'}:exitcode={STOPPED}:print_stacktrace=1")
    yield folder
    assert [p.read_text(errors="replace")[:3000] for p in folder.iterdir()] == []


@pytest.fixture
def graph(digits: Path) -> Graph:
    return compile_model((digits / "digits_quant.onnx").read_bytes(), "digits", CompilerOptions()).graph


def test_a_report_would_be_seen(reports: Path, tmp_path: Path) -> None:
    """The same flags on a program that reads beyond its array."""
    source, program = tmp_path / "wrong.c", tmp_path / "wrong"
    source.write_text("int main(int n, char **v) { int a[2] = {0}; (void)v; return a[n + 1]; }")
    flags = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    subprocess.run([str(COMPILER), *flags, str(source), "-o", str(program)], check=True, timeout=60)
    done = subprocess.run([program], check=False, timeout=60)
    found = list(reports.iterdir())
    assert done.returncode == STOPPED or found
    for path in found:
        path.unlink()


def test_the_main_job(digits: Path, tmp_path: Path) -> None:
    """The packaged example: all tensors, forced verdicts, a picture of its own."""
    picture = tmp_path / "digit.npy"
    np.save(picture, np.load(digits / "digits.npz")["digit_3"])
    assert main(["-m", str(digits / "digits_quant.onnx"), "-i", str(picture), "-b", "local"]) == 0


def test_runs_pulls_and_units_with_injected_inputs(graph: Graph) -> None:
    prepared, simulator, board = random_inputs(graph), Simulator(graph), Board("local", encode(graph), graph, 60.0)
    try:
        recording = board.run(prepared)
        assert recording.state == "complete" and recording.digests == simulator.run(prepared).digests
        values = {**prepared.arrays(), **board.pull([n for node in graph.nodes for n in node.outputs])}
        for unit in units(graph):
            given = {n: values[n] for n in unit.inputs}
            found = board.run_unit(unit, given)
            wanted = simulator.run_unit(unit, given)
            assert all(np.array_equal(found[n], wanted[n]) for n in found) and found
    finally:
        board.close()


@pytest.mark.parametrize("part", range(4))
def test_every_fault(graph: Graph, part: int) -> None:
    """Each kind at one node: it spoils, it says why it cannot, or (die, garbage) it ends the conversation."""
    data, prepared = encode(graph), random_inputs(graph)
    nodes = [n.name for n in graph.nodes if n.op in ("conv", "fully_connected")]
    right, spoiled, refused = Simulator(graph).run(prepared).digests, 0, 0
    for number, kind in enumerate(k for k in KINDS[part::4] if k != "hang"):
        fault = f"{kind}:{number}@{nodes[number % len(nodes)]}"
        board = Board(f"faulty:local?fault={fault}", data, graph, 60.0)
        try:
            recording = board.run(prepared)
        finally:
            board.close()
        assert recording.state == "complete" or recording.why, fault
        spoiled += recording.state == "complete" and recording.digests != right
        refused += recording.state != "complete"
    assert spoiled > 5 and refused > 0


@pytest.mark.parametrize("source", CORPUS[::7], ids=lambda p: p.name)
def test_hostile_models_in_a_conversation(source: Path) -> None:
    graph, rng = decode(source.read_bytes()), np.random.default_rng(7)
    for _ in range(3):
        try:
            changed = mutated(graph, rng)
        except BadFileError:
            continue  # the host pushes no such file
        by_board(changed, "local")


@pytest.mark.parametrize("part", range(4))
def test_damaged_models_with_right_checksums(part: int, tmp_path: Path) -> None:
    """Bytes changed within the sections; the file's sizes and checksums fit again."""
    path, chance = tmp_path / "m.bin", random.Random(part)
    words = [str(runtime_path(host_architecture())), "model_info", f"--model_file={path}"]
    statuses = set()
    for source in CORPUS[part::4]:
        sections = {k: bytearray(v) for k, v in container.unpack(source.read_bytes()).items()}
        for _ in range(3):
            kind = chance.choice([k for k, v in sections.items() if v and k not in (b"META", b"DATA")])
            at = chance.randrange(len(sections[kind]))
            before = sections[kind][at]
            sections[kind][at] = chance.choice([0, 1, 127, 255, before ^ 1 << chance.randrange(8)])
            path.write_bytes(container.pack({k: bytes(v) for k, v in sections.items()}))
            sections[kind][at] = before
            done = subprocess.run(words, capture_output=True, timeout=60, check=False)
            assert done.returncode in (0, 2), (source.name, kind, at, done.stderr[-2000:])
            statuses.add(done.returncode)
    assert statuses == {0, 2}


@pytest.mark.parametrize("seed", range(8))
def test_hostile_frames_to_the_agent(seed: int, tmp_path: Path) -> None:
    """Real requests in any order, whole or damaged, then the end of the line: the agent ends by itself."""
    chance, corpus = random.Random(seed), [p.read_bytes() for p in FRAMES]
    data = bytearray(b"".join(chance.choices(corpus, k=40)))
    for _ in range(chance.randrange(12)):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    words = [str(runtime_path(host_architecture())), "agent", f"--store={tmp_path / 'store'}"]
    done = subprocess.run(words, input=bytes(data), capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
