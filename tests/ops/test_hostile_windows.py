"""Windows of huge kernels, paddings and dilations over few elements: a model.bin of some hundred bytes neither keeps the
runtime and the simulator computing for minutes nor takes gigabytes, and both give what the few taps in the image give."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import xxhash
from qverify.arithmetic.windows import Window, find_landing_slices, taps_counted
from qverify.model_bin.records import encode
from qverify.ops import simulate_node

from tests.ops.random_nodes import Array, RandomNodes
from tests.ops.runtime_library import COMPILER, binary
from tests.ops.test_runtime_equals_simulator import digests

FAR = 65536
SMALL = (
    Window((3, 2), (2, 1), (1, 4, 0, 1), (1, 3)),
    Window((9, 1), (1, 1), (8, 0, 8, 0), (2, 1)),
    Window((40, 50), (3, 2), (37, 20, 5, 60), (1, 1)),
    Window((2, 2), (7, 9), (70, 30, 0, 0), (50, 20)),
)


def walked(window: Window, x: Array, out: tuple[int, int]) -> list[list[Array]]:
    """Returns, for each output, what its taps read in the image, one at a time."""
    made: list[list[Array]] = []
    for at in np.ndindex(*out):
        start = [at[k] * window.stride[k] - window.pad[k] for k in (0, 1)]
        places = [
            (start[0] + i * window.dilation[0], start[1] + j * window.dilation[1]) for i, j in np.ndindex(window.kernel)
        ]
        made.append([x[..., i, j] for i, j in places if 0 <= i < x.shape[-2] and 0 <= j < x.shape[-1]])
    return made


@pytest.mark.parametrize("window", SMALL)
def test_every_tap_in_the_image_is_read_once_and_in_its_order(window: Window) -> None:
    x, out = np.arange(1, 61).reshape(1, 2, 5, 6), (4, 7)
    read = [
        [v for v in taps if v.any()]
        for taps in zip(*(np.moveaxis(t.reshape(2, -1), 1, 0) for t in window.reads(x, out, 0)), strict=True)
    ]
    wanted = [[v.reshape(-1) for v in taps] for taps in walked(window, x, out)]
    assert [[v.tolist() for v in taps] for taps in read] == [[v.tolist() for v in taps] for taps in wanted]
    assert taps_counted(window, (5, 6), out, False).reshape(-1).tolist() == [len(taps) for taps in wanted]
    wide = np.ones((1, 1, 5 + window.pad[0] + window.pad[2], 6 + window.pad[1] + window.pad[3]))
    inside = walked(Window(window.kernel, window.stride, (0, 0, 0, 0), window.dilation), wide, out)
    assert taps_counted(window, (5, 6), out, True).reshape(-1).tolist() == [len(taps) for taps in inside]


@pytest.mark.parametrize("window", SMALL)
def test_a_cropped_window_reads_the_same_of_the_image(window: Window) -> None:
    x, out = np.arange(1, 61).reshape(1, 2, 5, 6), (4, 7)
    small, taps, kept = window.cropped((5, 6), out)
    assert np.ones(window.kernel)[taps].shape == small.kernel
    for full, cut in zip(walked(window, x, out), walked(small, x[kept], out), strict=True):
        assert [v.tolist() for v in full] == [v.tolist() for v in cut]


@pytest.mark.parametrize("start", range(-9, 9))
@pytest.mark.parametrize("stride", [1, 2, 5])
def test_elements_land_where_they_should(start: int, stride: int) -> None:
    for size in (1, 3, 6):
        row = np.zeros(4, int)
        target, source = find_landing_slices(start, stride, size, 4)
        row[target] += np.arange(1, size + 1)[source]
        wanted = {start + i * stride: i + 1 for i in range(size)}
        assert row.tolist() == [wanted.get(i, 0) for i in range(4)]


def pools(r: RandomNodes) -> None:
    """Every output of most of these reads padding only; the sums of the others have one to nine terms."""
    for dtype in ("int8", "uint8"):
        x = r.input(dtype, (1, 2, 3, 3))
        r.node("max_pool", (x,), r.like(x, (1, 2, 300, 280)), (1024, 1000, 4, 5, 1020, 999, 1020, 999, 1, 1))
        for include in (0, 1):
            rq = r.constant(np.array([x.scale[0], 1e-7 if include else 0.01], np.float32))
            y = r.output(dtype, (1, 2, 300, 280))
            words = (1024, 1000, 4, 5, 1020, 999, 1020, 999, include, *r.limits(dtype))
            r.node("average_pool", (x, rq), y, words)
    x = r.floats((1, 2, 3, 3))
    for include in (0, 1):
        words = (FAR, 16, 3, 2, FAR, FAR, FAR, FAR, 1, 3, include)
        r.node("average_pool_float", (x,), r.float_output((1, 2, 40, FAR)), words)
        words = (16, FAR, 70, FAR, FAR, FAR, FAR, FAR, FAR, 1, include)
        r.node("average_pool_float", (x,), r.float_output((1, 2, 1800, 2)), words)
    r.node("max_pool", (x,), r.float_output((1, 2, FAR, 3)), (1, FAR, 2, FAR, FAR, FAR, FAR, FAR, FAR, FAR))


def convolutions(r: RandomNodes) -> None:
    """Kernels of four taps, of which most read padding that is further away than memory reaches."""
    for pads in ((0, 0, 0, 0), (FAR, FAR, FAR, FAR)):
        words, stride = (*pads, FAR, FAR, 1), (FAR, FAR) if pads[0] else (1, 1)
        shape = (1, 3, 2, 2)
        x, w = r.input("int8", (1, 2, 3, 3)), r.weights("int8", (3, 2, 2, 2), 1)
        y = r.output("int8", shape)
        r.node("conv", (x, w, None, r.rq(8, 3)), y, (2, 2, *stride, *words, *r.limits("int8")))
        f, k = r.floats((1, 2, 3, 3)), r.floats((3, 2, 2, 2))
        r.node("conv_float", (f, k, None), r.float_output(shape), (2, 2, *stride, *words))
        weird = r.rng.normal(0, 1, (3, 2, 2, 2)).astype(np.float32)
        weird[1, 0, 1, 1] = np.inf
        r.node("conv_float", (f, r.constant(weird), None), r.float_output(shape), (2, 2, *stride, *words))
        zeros = (r.constant(np.array([3], np.int8)), r.constant(np.array([-5], np.int8)))
        plain = [r.plain(r.rng.integers(-128, 128, s).astype(np.int8)) for s in ((1, 2, 3, 3), (3, 2, 2, 2))]
        r.node("conv_integer", (*plain, *zeros), r.plain_output("int32", shape), (2, 2, *stride, *words))
        w = r.weights("int8", (2, 3, 2, 2), 1)
        y = r.output("int8", shape)
        r.node("conv_transpose", (x, w, None, r.rq(8, 3, single=False)), y, (2, 2, 1, 1, *words, *r.limits("int8")))
        k = r.constant(r.rng.normal(0, 1, (2, 3, 2, 2)).astype(np.float32))
        r.node("conv_transpose_float", (f, k, None), r.float_output(shape), (2, 2, 1, 1, *words))


def sums_that_land_nowhere(r: RandomNodes) -> None:
    """Input pixels times taps are 2^21, of which few land on the four elements of the output."""
    x, w = r.input("int8", (1, 1, 128, 64)), r.weights("int8", (1, 1, 16, 16), 1)
    y = r.output("int8", (1, 1, 2, 2))
    r.node("conv_transpose", (x, w, None, r.rq(8, 1)), y, (16, 16, 1, 1, 0, 0, 0, 0, 1, 1, 1, *r.limits("int8")))


@pytest.mark.skipif(COMPILER is None, reason="no C compiler on this machine")
@pytest.mark.parametrize("nodes", [pools, convolutions, sums_that_land_nowhere])
def test_the_runtime_and_the_simulator_end_and_agree(nodes: object, tmp_path: Path) -> None:
    made = RandomNodes("ref-exact", 77)
    assert callable(nodes)
    nodes(made)
    graph = made.graph()
    (tmp_path / "model.bin").write_bytes(encode(graph))
    for i, value in enumerate(made.values.values()):
        (tmp_path / f"{i}.bin").write_bytes(value.tobytes())
    ran = digests(binary(), tmp_path, list(made.values))
    for node in graph.nodes:
        (y,) = simulate_node(graph, node, made.values).values()
        assert node.op == "average_pool" or len(np.unique(y)) > 1, f"{node.op} {node.words}: it reads nothing"
        assert ran[node.name] == xxhash.xxh64(np.ascontiguousarray(y).tobytes(), seed=0).hexdigest(), (
            f"{node.op} {node.words}"
        )
