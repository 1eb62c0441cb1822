"""Operators that ONNX defines by others, and rotary embeddings, written out: each verified without a host island."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from qverify.compiler.compile_model import compile_model
from qverify.errors import InternalError, QVerifyError
from qverify.onnx_model.decompose import check_same_values, decompose
from qverify.onnx_model.load import load

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
    """Adds a SpaceToDepth of floats and one of integers."""
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


def spectra(m: Qdq) -> None:
    """Real and complex, whole, cut and padded, half spectra, along each axis, there and back."""
    real, two = m.op("Tanh", [m.input((2, 8, 3, 1))]), m.op("Tanh", [m.input((2, 8, 3, 2))])
    shorter, longer = m.constant("shorter", np.int64(5)), m.constant("longer", np.int64(12))
    for x in (real, two):
        for length in ("", shorter, longer):
            m.output(m.op("DFT", [x, length]))
            m.output(m.op("DFT", [x, length], axis=-2, inverse=1))
    m.output(m.op("DFT", [real], axis=0, onesided=1))
    m.output(m.op("DFT", [real, longer], onesided=1))
    m.output(m.quantize(m.op("DFT", [real, shorter], onesided=1)))


def long_spectra(m: Qdq) -> None:
    """Adds transforms of lengths at which onnxruntime's float32 kernel is off by more than 2^-12."""
    x, length = m.op("Tanh", [m.input((2, 8, 1))]), m.constant("length", np.int64(3001))
    m.output(m.op("DFT", [x, length]))
    m.output(m.op("DFT", [x, length], inverse=1))


def spectra_along_an_input(m: Qdq) -> None:
    """The axis as an input; to a real signal of even and odd length."""
    real, two, flat = (m.op("Tanh", [m.input(shape)]) for shape in ((2, 8, 3, 1), (2, 8, 3, 2), (7, 1)))
    first, length = m.constant("first", np.int64(1)), m.constant("length", np.int64(15))
    m.output(m.op("DFT", [flat]))
    m.output(m.op("DFT", [real, "", first], onesided=1))
    m.output(m.op("DFT", [two, "", first], inverse=1, onesided=1))
    m.output(m.quantize(m.op("DFT", [two, length, first], inverse=1, onesided=1)))


def spectrograms(m: Qdq) -> None:
    """Real and complex signals, half and whole spectra, of even and odd length; without a window, with
    one that is constant, with one that is not."""
    real, two = m.op("Tanh", [m.input((2, 20, 1))]), m.op("Tanh", [m.input((2, 20, 2))])
    step, window = m.constant("step", np.int64(4)), m.constant("window", np.hanning(7).astype(np.float32))
    lengths = [m.constant(f"length{n}", np.int64(n)) for n in (6, 7)]
    for x in (real, two):
        m.output(m.op("STFT", [x, step, "", lengths[0]], onesided=1))
        m.output(m.op("STFT", [x, step, window], onesided=0))
    m.output(m.quantize(m.op("STFT", [real, step, window, lengths[1]], onesided=1)))
    m.output(m.op("STFT", [real, step, m.op("Tanh", [m.input((7,))])], onesided=1))


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
    "spectra": (spectra, 17),
    "long_spectra": (long_spectra, 17),
    "spectra_along_an_input": (spectra_along_an_input, 20),
    "spectrograms": (spectrograms, 17),
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


@pytest.mark.parametrize("build", [spectra, long_spectra, spectrograms])
def test_a_wrong_spectrum_is_a_bug(build: Callable[[Qdq], None]) -> None:
    m = Qdq(seed=6)
    build(m)
    done = decompose(load(m.model().SerializeToString(), "q.onnx"), "q.onnx", {})
    check_same_values(done)
    matrix = next(i for i in done.rounds[-1].after.graph.initializer if i.name.endswith("/matrix"))
    matrix.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(matrix) * np.float32(1.001), matrix.name))
    with pytest.raises(InternalError, match="FT out changed it"):
        check_same_values(done)


def spectrum(m: Qdq, kind: str, shape: tuple[int, ...], *numbers: object, **attributes: object) -> None:
    """A node whose further inputs are these; None: a number that is computed at run time."""
    x, inputs = m.op("Tanh", [m.input(shape)]), list[str]()
    for at, number in enumerate(numbers):
        name = "" if number == "" else m.constant(f"number{at}", np.asarray(4 if number is None else number))
        if number is None:
            zero = m.op("Cast", [m.op("ReduceMax", [x], keepdims=0)], to=onnx.TensorProto.INT64)
            name = m.op("Add", [zero, name])
        inputs.append(name)
    y = m.op(kind, [x, *inputs], **attributes)
    m.kinds[y] = (1, 4, 2)
    m.output(y)


REFUSED: dict[str, tuple[Callable[[Qdq], None], str]] = {
    "moving length": (lambda m: spectrum(m, "DFT", (1, 8, 1), None), "its dft_length is computed at run time"),
    "no length": (lambda m: spectrum(m, "DFT", (1, 8, 1), 0), "dft_length=0 is not supported"),
    "to more": (
        lambda m: spectrum(m, "DFT", (1, 8, 2), 5, inverse=1, onesided=1),
        "onesided from 8 values to 5 is not supported; from 3 it is",
    ),
    "to none": (lambda m: spectrum(m, "DFT", (1, 1, 2), inverse=1, onesided=1), "from 1 values to 0"),
    "three parts": (lambda m: spectrum(m, "DFT", (1, 8, 3)), "wanted float32 whose last dim is 1 or 2"),
    "large": (lambda m: spectrum(m, "DFT", (1, 8, 1), 1 << 40), "its matrix or its frames would have"),
    "moving step": (lambda m: spectrum(m, "STFT", (1, 8, 1), None, "", 4), "its frame_step is computed at run time"),
    "no step": (lambda m: spectrum(m, "STFT", (1, 8, 1), 0, "", 4), "frame_step=0 is not supported"),
    "moving frames": (lambda m: spectrum(m, "STFT", (1, 8, 1), 2, "", None), "its frame_length is computed at"),
    "long frames": (lambda m: spectrum(m, "STFT", (1, 8, 1), 2, "", 9), "frame_length=9 does not fit the signal"),
    "many frames": (lambda m: spectrum(m, "STFT", (1, 1 << 17, 1), 1, "", 400), "its matrix or its frames would"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_spectrum_refused_by_name(name: str) -> None:
    m = Qdq(opset=17)
    build, said = REFUSED[name]
    build(m)
    with pytest.raises(QVerifyError, match=rf"FT\): .*{said}"):
        compile_model(m.model().SerializeToString(), "q.onnx")
