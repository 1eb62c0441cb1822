"""Operators that ONNX defines by others, and rotary embeddings, written out: each verified without a host island."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from qverify.compiler.compile_model import compile_model
from qverify.errors import QVerifyError

from tests.ops.qdq import Qdq
from tests.plain.test_decompositions import fused, normal
from tests.plain.verified_model import verified


def angles(m: Qdq, *shape: int) -> list[str]:
    turns = m.rng.uniform(-3, 3, shape)
    return [m.constant(f"{f.__name__}{len(m.constants)}", f(turns).astype(np.float32)) for f in (np.cos, np.sin)]


def rotations(m: Qdq) -> None:
    """Halves and neighbours, whole heads and a part, heads apart and side by side, with positions and without."""
    x, flat = m.op("Tanh", [m.input((2, 3, 5, 8))]), m.op("Tanh", [m.input((2, 5, 24))])
    ids = m.constant("ids", m.rng.integers(0, 9, (2, 5)))
    m.output(m.op("RotaryEmbedding", [x, *angles(m, 9, 4), ids]))
    m.output(m.op("RotaryEmbedding", [x, *angles(m, 9, 4), ids], interleaved=1))
    m.output(m.op("RotaryEmbedding", [x, *angles(m, 9, 2), ids], rotary_embedding_dim=4))
    m.output(m.op("RotaryEmbedding", [flat, *angles(m, 2, 5, 4)], num_heads=3))


def rotations_of_onnxruntime(m: Qdq) -> None:
    x, flat = m.op("Tanh", [m.input((2, 3, 5, 8))]), m.op("Tanh", [m.input((2, 5, 24))])
    first, ids = m.constant("first", np.array([2])), m.constant("ids", m.rng.integers(0, 9, (2, 5)))
    m.output(fused(m, "RotaryEmbedding", [x, first, *angles(m, 9, 4)], (2, 3, 5, 8)))
    m.output(fused(m, "RotaryEmbedding", [flat, ids, *angles(m, 9, 4)], (2, 5, 24), interleaved=1))


def attentions(m: Qdq) -> None:
    """Causal; after a past; with a mask that is added; fewer heads of keys than of queries; a query from which every key is hidden."""
    q, k, v = (m.op("Tanh", [m.input((1, heads, 5, 8))]) for heads in (4, 2, 2))
    m.output(m.op("Attention", [q, q, q], is_causal=1))
    past = m.op("Tanh", [m.input((1, 4, 3, 8))])
    m.output(m.op("Attention", [q, q, q, "", past, past], 3))
    m.output(m.quantize(m.op("Attention", [q, k, v, normal(m, 5, 5)], scale=0.4)))
    hidden = np.tri(5, dtype=bool)
    hidden[2] = False
    m.output(m.op("Attention", [q, q, q, m.constant("kept", hidden)], is_causal=1))


def normalization(m: Qdq) -> None:
    m.output(m.op("MeanVarianceNormalization", [m.input((1, 3, 5, 4))]))


def spaces(m: Qdq) -> None:
    """Of floats and of integers."""
    m.output(m.op("SpaceToDepth", [m.op("Tanh", [m.input((2, 3, 4, 6))])], blocksize=2))
    x = m.input((1, 3, 6, 6))
    m.output(m.quantize(m.op("SpaceToDepth", [x], blocksize=3), like=x))


def norm_pools(m: Qdq) -> None:
    """One, two and three as the power; padded; of one dim."""
    for p in (1, 2, 3):
        m.output(m.op("LpPool", [m.input((1, 3, 7, 6))], kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1], p=p))
    m.output(m.quantize(m.op("LpPool", [m.input((1, 3, 9))], kernel_shape=[3], auto_pad="SAME_UPPER")))


def samples(m: Qdq) -> None:
    """Points inside and outside, both paddings, with and without aligned corners."""
    x, grid = m.input((2, 3, 5, 7)), m.op("Tanh", [m.input((2, 4, 3, 2))])
    wide = m.op("Mul", [grid, m.constant("wide", np.float32(1.4))])
    m.output(m.op("GridSample", [x, wide], mode="bilinear"))
    m.output(m.op("GridSample", [x, wide], mode="bilinear", padding_mode="border", align_corners=1))
    m.output(m.quantize(m.op("GridSample", [x, wide], mode="bilinear", align_corners=1)))


def nearest_samples(m: Qdq) -> None:
    """The same points, and such as lie between two pixels."""
    x, grid = m.input((2, 3, 5, 7)), m.op("Tanh", [m.input((2, 4, 3, 2))])
    wide = m.op("Mul", [grid, m.constant("wide", np.float32(1.4))])
    m.output(m.op("GridSample", [x, wide], mode="nearest"))
    m.output(m.quantize(m.op("GridSample", [x, wide], mode="nearest", align_corners=1)))
    m.output(m.op("GridSample", [x, wide], mode="nearest", padding_mode="border"))
    halves = np.stack(np.meshgrid(np.arange(-3.5, 4, 0.5) / 3, np.arange(-2.5, 3, 0.5) / 2), -1)[None].repeat(2, 0)
    between = m.constant("between", halves.astype(np.float32))
    m.output(m.op("GridSample", [x, between], mode="nearest", align_corners=1))
    m.output(m.op("GridSample", [x, between], mode="nearest", padding_mode="border", align_corners=1))


def grids(m: Qdq) -> None:
    theta, cubes = m.input((2, 2, 3)), m.input((2, 3, 4))
    plane, space = (m.constant(f"size{len(s)}", np.array(s)) for s in ((2, 1, 4, 5), (2, 1, 3, 4, 2)))
    for corners in (0, 1):
        m.output(m.op("AffineGrid", [theta, plane], align_corners=corners))
        m.output(m.op("AffineGrid", [cubes, space], align_corners=corners))


def crops(m: Qdq) -> None:
    """Cut, padded, and both; of all dims and of two."""
    x = m.op("Tanh", [m.input((2, 3, 5, 8))])
    every, two = m.constant("every", np.array([2, 4, 3, 8])), m.constant("two", np.array([7, 5]))
    m.output(m.op("CenterCropPad", [x, every]))
    m.output(m.op("CenterCropPad", [x, two], axes=[-2, 3]))


CASES: dict[str, tuple[Callable[[Qdq], None], int]] = {
    "rotations": (rotations, 23),
    "rotations_of_onnxruntime": (rotations_of_onnxruntime, 17),
    "attentions": (attentions, 23),
    "normalization": (normalization, 17),
    "spaces": (spaces, 17),
    "samples": (samples, 16),
    "nearest_samples": (nearest_samples, 16),
    "grids": (grids, 20),
    "crops": (crops, 18),
    "norm_pools": (norm_pools, 18),
}


@pytest.mark.parametrize("name", CASES)
def test_written_out(name: str, tmp_path: Path) -> None:
    build, opset = CASES[name]
    m = Qdq(seed=6, opset=opset)
    build(m)
    assert not verified(m.model(), tmp_path).islands


@pytest.mark.parametrize("size", [(1, 1, 40000, 40000), (1, 1, -4, 4)])
def test_a_grid_without_end_is_refused(size: tuple[int, ...]) -> None:
    m = Qdq(opset=20)
    m.kinds["y"] = (1, 4, 4, 2)
    m.output(m.op("AffineGrid", [m.input((1, 2, 3)), m.constant("size", np.array(size))], "y"))
    with pytest.raises(QVerifyError, match=r"wanted 1 to|AffineGrid"):
        compile_model(m.model().SerializeToString(), "q.onnx")


def test_a_mode_that_is_no_text_is_refused() -> None:
    m = Qdq(opset=20)
    grid = m.constant("grid", np.zeros((1, 2, 2, 2), np.float32))
    m.output(m.quantize(m.op("GridSample", [m.input((1, 1, 4, 4)), grid])))
    model = m.model()
    next(n for n in model.graph.node if n.op_type == "GridSample").attribute.add(name="mode", s=b"\xff\xfe", type=3)
    with pytest.raises(QVerifyError):
        compile_model(model.SerializeToString(), "q.onnx")
