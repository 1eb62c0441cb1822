"""RESIZE_BILINEAR of int8 on a board that runs LiteRT: held to the places of the board's own kernel, and to nothing looser."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from qverify.arithmetic.resize_places import MODES, exact, fixed_point
from qverify.cli.main import main
from qverify.compare.documented_rounding import explain_places
from qverify.compare.error_bounds.own_places import evaluate_own_places, has_own_places
from qverify.compare.options import Options
from qverify.compare.verdict import judge_all
from qverify.model_bin.graph import Graph, Node
from qverify.model_bin.units import units
from qverify.tensors.spec import TensorSpec

from tests.plain.three_sides import record
from tests.tflite_files import File

SIZES = ((33, 257), (20, 61))  # height and width, before and after
RNG = np.random.default_rng(3)
X = RNG.integers(-128, 128, (1, 2, SIZES[0][0], SIZES[1][0])).astype(np.int8)
NAMES = dict(zip(MODES, ({}, {"alignCorners": True}, {"halfPixelCenters": True}), strict=True))


def network(mode, floats=False, dtype="int8", scales=(0.5, 0.5), sizes=SIZES, off=0.0) -> Graph:
    """Returns one resize, with the places of LiteRT's kernel for int8, or as onnxruntime has them (floats), with places
    off by this part of an element."""
    tables = []
    for size, to in sizes:
        first, second, one, part = fixed_point(size, to, *mode)
        if floats:
            place = exact(size, to, *mode)
            first = np.floor(place).astype(np.int64)
            second, part = np.minimum(first + 1, size - 1), place - first + off
            one = 1 - part
        tables.append((first, second, one, part))
    index = np.concatenate([part for t in tables for part in t[:2]]).astype(np.int32)
    weight = np.concatenate([part for t in tables for part in t[2:]]).astype(np.float32 if floats else np.int32)
    shapes = {"x": (1, 2, sizes[0][0], sizes[1][0]), "y": (1, 2, sizes[0][1], sizes[1][1])}
    tensors = {
        n: TensorSpec(n, dtype, s, s, (scale,), (3,)) for (n, s), scale in zip(shapes.items(), scales, strict=True)
    }
    constants = {"y/index": index, "y/weight": weight}
    tensors |= {n: TensorSpec(n, str(c.dtype), c.shape, c.shape) for n, c in constants.items()}
    node = Node("y", "resize_linear", ("x", *constants), ("y",), (0 if floats else 2,))
    return Graph([node], tensors, constants, ("x",), ("y",), "ref-exact" if floats else "gemmlowp")


def between(places) -> np.ndarray:
    """Returns the values at these places of both axes, without rounding."""
    values = X.astype(np.float64)
    for axis, place, (size, _) in zip((2, 3), places, SIZES, strict=True):
        first = np.floor(place).astype(int)
        part = np.expand_dims(place - first, 1) if axis == 2 else place - first
        values = values.take(first, axis) * (1 - part) + values.take(np.minimum(first + 1, size - 1), axis) * part
    return values


def board(kernels: str, mode) -> np.ndarray:
    """Returns what a board with these kernels gives."""
    if kernels == "litert-xnnpack":  # weights of 11 bits, halves up
        value = between([np.round(exact(size, to, *mode) * 2048) / 2048 for size, to in SIZES])
        return np.clip(np.floor(value + 0.5), -128, 127).astype(np.int8)
    tables = [(size, *fixed_point(size, to, *mode)) for size, to in SIZES]
    value = between([np.clip(first + part / 1024, 0, size - 1) for size, first, _, _, part in tables])
    return np.clip(np.trunc(value + np.copysign(0.5, value)), -128, 127).astype(np.int8)  # halves away from 0


def judged(graph: Graph, made: np.ndarray, recorded: np.ndarray, kernels: str, x: np.ndarray = X):
    return explain_places(units(graph)[0], graph, {"x": x}, made, recorded, kernels)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("floats", [False, True])
@pytest.mark.parametrize("kernels", ["litert-xnnpack", "litert-optimized", "litert-reference"])
def test_each_kernel_passes_at_its_own_places_only(kernels, floats, mode):
    graph, own = network(mode, floats), board(kernels, mode)
    other = board("litert-reference" if kernels == "litert-xnnpack" else "litert-xnnpack", mode)
    made = np.where(own == -128, 127, -128).astype(np.int8)  # the host's differ everywhere
    found = judged(graph, made, own, kernels)
    assert found is not None and found.unexplained == 0 and "at their own places" in found.limit
    if not mode[0]:  # with align_corners both places are nearly equal
        assert np.abs(own.astype(int) - other).max() > 3
        found = judged(graph, made, other, kernels)
        assert found is not None and found.unexplained > 0 and "first [0, " in found.why


@pytest.mark.parametrize("kernels", ["litert-xnnpack", "litert-optimized"])
def test_a_step_beyond_the_own_kernel_is_not_excused(kernels):
    graph, own = network((False, True)), board(kernels, (False, True))
    made = np.where(own == -128, 127, -128).astype(np.int8)
    before = judged(graph, made, own, kernels)
    spoilt = own.copy()
    spoilt[0, 1, 100, 7] += 2 if own[0, 1, 100, 7] < 126 else -2
    after = judged(graph, made, spoilt, kernels)
    assert before is not None and after is not None and after.unexplained == before.unexplained + 1


@pytest.mark.parametrize("kernels", ["litert-xnnpack", "litert-optimized"])
def test_the_verdict_of_a_board_is_that_at_its_own_places(kernels):
    mode, graph = (False, True), network((False, True), floats=True)
    made, own = board("litert-xnnpack", mode), board(kernels, mode)
    spoilt = own.copy()
    spoilt[0, 1, 100, 7] += 2 if own[0, 1, 100, 7] < 126 else -2
    for recorded, verdict in ((own, "PASSED"), (spoilt, "FAILED")):
        sides = {"reference": record("reference", lambda unit, given: {"y": made}, graph=graph, x=X)}
        sides["board"] = record("board", lambda unit, given, y=recorded: {"y": y}, graph=graph, x=X)
        sides["board"].runtime, sides["board"].kernels = "litert", kernels
        report = judge_all(sides, graph, units(graph), Options(dump_all=True), {}, None, {"x": X})
        forced = report.pairs[0].tensors[0].forced
        assert (report.verdict, forced.verdict if forced.mismatched else "PASSED") == (verdict, verdict)
        assert ("at their own places" in forced.limit) == bool(forced.mismatched)


def test_places_of_no_mode_and_other_units_keep_their_limit():
    graph = network((False, False))
    graph.constants["y/weight"] = graph.constants["y/weight"][::-1].copy()
    assert (
        judged(graph, board("litert-xnnpack", (False, False)), np.zeros((1, 2, 257, 61), np.int8), "litert-xnnpack")
        is None
    )
    unit, graph = units(network((False, False)))[0], network((False, False))
    assert has_own_places(unit, graph, "litert-xnnpack") and not has_own_places(unit, graph, "onnxruntime")
    assert not has_own_places(unit, network((False, False), dtype="uint8"), "litert-xnnpack")
    assert not has_own_places(unit, network((False, False), scales=(0.5, 0.25)), "litert-xnnpack")

    two = replace(unit, nodes=unit.nodes * 2)  # what follows the resize is not at these places
    assert not has_own_places(two, graph, "litert-xnnpack")


def test_places_are_those_of_a_mode_within_a_1024th_of_an_element():
    own = board("litert-xnnpack", (False, True))
    made = np.where(own == -128, 127, -128).astype(np.int8)
    for off, known in ((0.0009, True), (-0.0009, True), (0.0011, False), (-0.0011, False)):
        found = judged(network((False, True), True, off=off), made, own, "litert-xnnpack")
        assert (found is not None) == known and (found is None or found.unexplained == 0)


def test_the_error_of_xnnpack_is_that_of_its_weights_and_its_places():
    """Weights of 11 bits, places in float32 over the longest axis, of 257 elements."""
    unit, graph = units(network((False, True)))[0], network((False, True))
    every = np.arange(2 * 257 * 61)
    for kernels, error in (("litert-xnnpack", 255 * 2.0**-11 + 255 * 2.0**-21 * 257), ("litert-optimized", 0.0)):
        found = evaluate_own_places(unit, graph, {"x": X}, every, kernels)
        assert found is not None and found.error is not None and set(found.error.tolist()) == {error}


def test_where_every_mode_has_the_same_places_any_of_them_holds():
    x = X[:, :, :5, :7]
    for kernels in ("litert-xnnpack", "litert-reference"):
        graph = network((False, True), sizes=((5, 5), (7, 7)))
        found = judged(graph, np.where(x == 127, -128, 127).astype(np.int8), x, kernels, x)
        assert found is not None and found.unexplained == 0
        found = judged(graph, x, np.where(x < 100, x + 2, x - 2).astype(np.int8), kernels, x)
        assert found is not None and found.unexplained == x.size


@pytest.mark.parametrize("sizes", [((100, 513), (4, 4)), ((4, 4), (100, 513))])
def test_a_kernel_that_reads_beyond_its_input_excuses_nothing(sizes):
    """From 100 to 513 elements, in steps of 200/1024 of an element, LiteRT's own kernels read element 100; XNNPACK does not."""
    graph = network((False, False), True, sizes=sizes)
    x = np.zeros((1, 2, sizes[0][0], sizes[1][0]), np.int8)
    made = np.zeros((1, 2, sizes[0][1], sizes[1][1]), np.int8)
    recorded = made.copy()
    recorded[0, 0, 0, 0] = 1  # where nothing is read beyond it
    assert judged(graph, made, recorded, "litert-reference", x) is None
    found = judged(graph, made, recorded, "litert-xnnpack", x)
    assert found is not None and found.unexplained == 1


def resize(size: int, to: int, **how: bool) -> bytes:
    f = File()
    x, y = (f.tensor(n, [1, s, s, 1], "int8", 0.05, 3) for n, s in (("x", size), ("y", to)))
    dims = f.tensor("dims", [2], "int32", None, value=np.array([to, to]))
    f.operator("RESIZE_BILINEAR", [x, dims], [y], "ResizeBilinearOptions", **how)
    f.inputs, f.outputs = [x], [y]
    return f.written()


@pytest.mark.skipif(find_spec("ai_edge_litert") is None, reason="ai-edge-litert is not installed")
def test_the_real_xnnpack_passes_where_litert_is_many_steps_away(tmp_path: Path):
    path, out = tmp_path / "m.tflite", tmp_path / "r.json"
    path.write_bytes(resize(33, 257, halfPixelCenters=True))
    words = ["-m", str(path), "--runtime", "litert", "-b", "local?kernels=xnnpack", "-r", "True", "-q"]
    assert main([*words, "--json", str(out)]) == 0
    row = json.loads(out.read_text())["pairs"][1]["tensors"][0]
    assert row["max_lsb"] > 10 and row["forced"]["verdict"] == "PASSED"
    assert main([*words, "--strict"]) == 1


@pytest.mark.skipif(find_spec("ai_edge_litert") is None, reason="ai-edge-litert is not installed")
def test_a_resize_in_which_litert_reads_beyond_its_input_is_refused(tmp_path: Path, capsys):
    path = tmp_path / "m.tflite"
    path.write_bytes(resize(100, 513))
    assert main(["-m", str(path), "-b", "local"]) == 2
    printed = capsys.readouterr().err
    assert (
        "m.tflite: y (resize_linear): from 100 to 513 elements its kernel reads beyond its input" in printed
        and printed.count("\n") == 1
    )
