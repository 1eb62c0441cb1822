"""RoiAlign and DeformConv written out: each is verified, and its results are onnxruntime's, also outside the image."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from qverify.cli.main import main
from qverify.compare.options import Options
from qverify.compiler.compile_model import compile_model
from qverify.errors import UnsupportedError
from qverify.inputs.sources import InputRequest
from qverify.onnx_model.decompose import check_same_values, decompose
from qverify.onnx_model.engine import Engine
from qverify.onnx_model.load import load
from qverify.session.job import verify
from qverify.session.request import Request

from tests.exact_default import exact_default
from tests.ops.qdq import Qdq
from tests.plain.test_decompositions import normal
from tests.plain.verified_model import verified

Array = np.ndarray[Any, Any]
Feed = dict[str, Array]
BINS = {"output_height": 3, "output_width": 2}


def regions(m: Qdq, **attributes: Any) -> str:
    """A RoiAlign of 11 regions, many of which lie outside the images in part."""
    inputs = [m.input((2, 3, 9, 7)), m.input((11, 4), -6, 20), m.integers((11,))]
    return m.op("RoiAlign", inputs, **BINS, **attributes)


def means(m: Qdq) -> None:
    """Between quantized tensors, and of floats."""
    m.output(m.quantize(regions(m, sampling_ratio=2, spatial_scale=0.5)))
    x, wide = m.op("Tanh", [m.input((3, 2, 5, 6))]), m.constant("wide", np.float32(9))
    boxes = m.op("Mul", [m.op("Tanh", [m.input((7, 4))]), wide])
    m.output(m.op("RoiAlign", [x, boxes, m.integers((7,), 3)], sampling_ratio=1))


def means_of_shifted_regions(m: Qdq) -> None:
    for name in ("half_pixel", "output_half_pixel"):
        y = regions(m, sampling_ratio=3, spatial_scale=0.4, mode="avg", coordinate_transformation_mode=name)
        m.output(m.quantize(y))


def maxima(m: Qdq) -> None:
    m.output(m.quantize(regions(m, sampling_ratio=2, mode="max")))
    m.output(regions(m, sampling_ratio=1, mode="max", spatial_scale=0.5))


def constant_regions(m: Qdq) -> None:
    """The regions and their images are constants; one image."""
    boxes, which = np.float32([[0, 0, 3, 3], [1, 2, 9, 5]]), np.zeros(2, np.int64)
    inputs = [m.input((1, 3, 6, 5)), m.constant("boxes", boxes), m.constant("which", which)]
    m.output(m.quantize(m.op("RoiAlign", inputs, **BINS, sampling_ratio=2)))


def moved_taps(m: Qdq) -> None:
    """Two groups and two groups of offsets; between quantized tensors, with a mask, and of floats."""
    x, offsets, mask = m.input((2, 4, 6, 7)), m.input((2, 36, 6, 7)), m.input((2, 18, 6, 7), 0, 1)
    more = {"group": 2, "offset_group": 2, "pads": [1, 1, 1, 1], "kernel_shape": [3, 3]}
    m.output(m.quantize(m.op("DeformConv", [x, m.weight((6, 2, 3, 3), axis=0), offsets, normal(m, 6), mask], **more)))
    m.output(m.op("DeformConv", [m.op("Tanh", [x]), normal(m, 6, 2, 3, 3), offsets], **more))


def taps_of_strides(m: Qdq) -> None:
    """Strides, dilations and uneven pads, weights and bias that are computed, a mask without a bias."""
    x, offsets, more = m.input((1, 3, 9, 8)), m.input((1, 12, 5, 7)), {"strides": [2, 1], "dilations": [1, 2]}
    kernel, bias = m.op("Tanh", [m.input((4, 3, 3, 2))]), m.op("Tanh", [m.input((4,))])
    m.output(m.quantize(m.op("DeformConv", [x, kernel, offsets, bias], pads=[1, 0, 1, 1], **more)))
    mask = m.op("Sigmoid", [m.input((1, 6, 5, 7))])
    m.output(m.op("DeformConv", [x, normal(m, 4, 3, 3, 2), offsets, "", mask], pads=[1, 0, 1, 1], **more))


CASES: dict[str, tuple[Callable[[Qdq], None], int]] = {
    "means": (means, 10),
    "means_of_a_later_opset": (means, 21),
    "means_of_shifted_regions": (means_of_shifted_regions, 16),
    "maxima": (maxima, 17),
    "constant_regions": (constant_regions, 18),
    "moved_taps": (moved_taps, 19),
    "taps_of_strides": (taps_of_strides, 22),
}


@pytest.mark.parametrize("name", CASES)
def test_written_out(name: str, tmp_path: Path) -> None:
    build, opset = CASES[name]
    m = Qdq(seed=6, opset=opset)
    build(m)
    assert not verified(m.model(), tmp_path).islands


@pytest.mark.parametrize("name", ["means", "maxima", "moved_taps"])
def test_the_whole_way(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build, opset = CASES[name]
    m = Qdq(seed=7, opset=opset)
    build(m)
    path, target = tmp_path / "q.onnx", tmp_path / "m.bin"
    path.write_bytes(m.model().SerializeToString())
    with exact_default():
        assert main(["compile", str(path), "-o", str(target)]) == 0
        assert main(["-m", f"{path},{target}", "-b", "local", "-s", "True", "-r", "True"]) == 0
    assert capsys.readouterr().out.count("Strict check PASSED") == 3


def node_model(kind: str, inputs: list[str], feed: Feed, opset: int, **attributes: Any) -> onnx.ModelProto:
    """A model of one node, all of whose inputs are inputs of the graph."""
    kinds = {name: helper.np_dtype_to_tensor_dtype(value.dtype) for name, value in feed.items()}
    ends = [helper.make_tensor_value_info(name, kinds[name], feed[name].shape) for name in feed]
    node = helper.make_node(kind, inputs, ["y"], name="node", **attributes)
    graph = helper.make_graph([node], "g", ends, [onnx.ValueInfoProto(name="y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    return onnx.shape_inference.infer_shapes(model)


def written_out(model: onnx.ModelProto) -> onnx.ModelProto:
    done = decompose(load(model.SerializeToString(), "m.onnx"), "m.onnx", {})
    check_same_values(done)
    assert done.rounds and not done.refused
    return done.model


def result(model: onnx.ModelProto, feed: Feed) -> Array:
    return Engine(model.SerializeToString()).run(feed)["y"]


def drawn_regions(rng: np.random.Generator, height: int, width: int, scale: float) -> Array:
    """Regions inside and outside the image, of no size, reversed, and with corners on pixels and between two, so that
    samples lie just at a limit."""
    boxes = rng.uniform(-5, 1.5 * max(height, width), (60, 4))
    boxes[:10, 2:] = boxes[:10, :2]
    boxes[10:40] = np.round(boxes[10:40] * 2) / 2
    return (boxes / scale).astype(np.float32)


@pytest.mark.parametrize("mode", ["avg", "max"])
@pytest.mark.parametrize("opset", [10, 16])
@pytest.mark.parametrize("samples", [1, 2, 3])
def test_regions_are_bit_for_bit_those_of_onnxruntime(samples: int, opset: int, mode: str) -> None:
    rng = np.random.default_rng(samples + opset)
    pixels = ("half_pixel", "output_half_pixel") if opset > 10 else ("",)
    for at, (height, width) in enumerate(((9, 7), (1, 5), (6, 1), (1, 1))):
        scale = (1.0, 0.25, 0.37, 3.0)[at]
        boxes, which = drawn_regions(rng, height, width, scale), rng.integers(0, 3, 60)
        feed = {"x": rng.normal(size=(3, 2, height, width)).astype(np.float32), "boxes": boxes, "which": which}
        more = {"coordinate_transformation_mode": pixels[at % 2]} if opset > 10 else {}
        attributes = {"mode": mode, "sampling_ratio": samples, "spatial_scale": scale, **BINS, **more}
        model = node_model("RoiAlign", list(feed), feed, opset, **attributes)
        assert np.array_equal(result(model, feed), result(written_out(model), feed))


def drawn_taps(rng: np.random.Generator, channels: int) -> Feed:
    """Offsets of a 3 x 2 kernel inside and outside the image, whole and fractional, some of them huge."""
    offsets = rng.normal(size=(2, 24, 7, 8)) * 4
    offsets[:, ::3] = np.round(offsets[:, ::3])
    offsets[0, 0, 0, :2] = 1e30, -1e30
    x, mask = rng.normal(size=(2, channels, 7, 8)), rng.random((2, 12, 7, 8))
    return {n: v.astype(np.float32) for n, v in (("x", x), ("offsets", offsets), ("mask", mask))}


@pytest.mark.parametrize("opset", [19, 22])
@pytest.mark.parametrize("masked", [False, True])
def test_taps_are_those_of_onnxruntime(masked: bool, opset: int) -> None:
    """With one tap that counts in each filter bit for bit; with several, which a Conv adds, within the order of sums."""
    feed, more = drawn_taps(np.random.default_rng(opset), 4), {"offset_group": 2, "pads": [1, 1, 1, 0]}
    names = ["x", "w", "offsets", "", "mask"] if masked else ["x", "w", "offsets"]
    chosen = np.zeros((24, 1, 6), np.float32)
    chosen[np.arange(24), 0, np.arange(24) % 6] = 1
    several = np.random.default_rng(1).normal(size=(6, 2, 3, 2)).astype(np.float32)
    for kernel, group, within in ((chosen.reshape(24, 1, 3, 2), 4, 0.0), (several, 2, 2.0**-20)):
        given = {"w": kernel, **feed} if masked else {"w": kernel, "x": feed["x"], "offsets": feed["offsets"]}
        model = node_model("DeformConv", names, given, opset, group=group, **more)
        theirs, mine = result(model, given), result(written_out(model), given)
        assert np.abs(mine - theirs).max() <= within * np.abs(theirs).max()


ODD = ((0, 0), (1, 0), (-1, 0), (3e38, 1), (-3e38, 1), (2.0**24, 1), (1e-40, 1), (2, 1))  # quotients


@pytest.mark.parametrize("kind", ["RoiAlign", "DeformConv"])
def test_odd_coordinates_count_as_0_on_every_side(kind: str, tmp_path: Path) -> None:
    """At NaN onnxruntime's own kernel reads outside of the image; so the file that is verified is the written-out one."""
    rng = np.random.default_rng(3)
    x, which = rng.normal(size=(2, 2, 5, 6)).astype(np.float32), rng.integers(0, 2, 40)
    kernel = rng.normal(size=(2, 2, 3, 3)).astype(np.float32)
    if kind == "RoiAlign":
        shape, attributes = (40, 4), dict[str, Any](sampling_ratio=2)
        feed = {"x": x, "places": np.zeros(shape, np.float32), "which": which}
    else:
        shape, attributes = (2, 18, 5, 6), {"pads": [1, 1, 1, 1]}
        feed = {"x": x, "w": kernel, "places": np.zeros(shape, np.float32)}
    model = written_out(node_model(kind, list(feed), feed, 19, **attributes))
    drawn = rng.integers(0, len(ODD), shape)
    quotients = np.float32(ODD)[np.where(rng.random(shape) < 0.3, drawn, -1)]
    del feed["places"]
    feed |= {"over": quotients[..., 0].copy(), "under": quotients[..., 1].copy()}
    model = between_quotient_and_quantizer(model, shape)
    path, inputs = tmp_path / "q.onnx", tmp_path / "inputs.npz"
    path.write_bytes(model.SerializeToString())
    np.savez(inputs, **feed)  # type: ignore[arg-type]
    given = result(model, feed)
    assert np.isfinite(given).all() and given.any()
    with exact_default():
        request = Request([str(path)], "local", inputs=InputRequest(files=str(inputs)), options=Options(dump_all=True))
        report = verify(request).report
    rows = [t for p in report.pairs for t in p.tensors]
    assert all(t.forced is not None and t.forced.verdict == "PASSED" for t in rows)
    assert all(t.bit_equal for t in rows if t.name == "y_q")


def between_quotient_and_quantizer(model: onnx.ModelProto, shape: tuple[int, ...]) -> onnx.ModelProto:
    """Returns the model with `places` computed as over / under, and y quantized, too."""
    graph = model.graph
    ends = [v for v in graph.input if v.name != "places"]
    more = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("over", "under")]
    scale, zero = (onnx.numpy_helper.from_array(v, n) for n, v in SCALE.items())
    nodes = [
        helper.make_node("Div", ["over", "under"], ["places"], name="quotient"),
        *graph.node,
        helper.make_node("QuantizeLinear", ["y", "scale", "zero"], ["y_q"], name="quantizer"),
    ]
    outputs = [*graph.output, helper.make_tensor_value_info("y_q", TensorProto.UINT8, None)]
    made = helper.make_graph(nodes, "g", [*ends, *more], outputs, [*graph.initializer, scale, zero])
    return helper.make_model(made, opset_imports=model.opset_import, ir_version=8)


SCALE: dict[str, Array] = {"scale": np.array(0.05, np.float32), "zero": np.array(128, np.uint8)}

Case = tuple[str, dict[str, tuple[int, ...]], type[Any], dict[str, Any], str]
ONE_REGION: dict[str, tuple[int, ...]] = {"x": (1, 1, 5, 5), "boxes": (1, 4), "which": (1,)}
ONE_TAP: dict[str, tuple[int, ...]] = {"x": (1, 2, 5, 5), "w": (2, 2, 1, 1), "offsets": (1, 2, 5, 5)}
LARGE = (1, 1, 1 << 13, 1 << 12)
REFUSED: dict[str, Case] = {
    "as many samples as the region has": (
        "RoiAlign", ONE_REGION, np.float32, {},
        "with sampling_ratio=0 the number of samples depends on the regions. Export it with a sampling_ratio of 1 to 8",
    ),
    "many samples": (
        "RoiAlign", ONE_REGION, np.float32, {"sampling_ratio": 9}, "sampling_ratio=9 is not supported; 1 to 8 are"
    ),
    "large image": (
        "RoiAlign", {**ONE_REGION, "x": LARGE}, np.float32, {"sampling_ratio": 1}, "more than 2^24 images"
    ),
    "doubles": (
        "RoiAlign", ONE_REGION, np.float64, {"sampling_ratio": 1}, "other types than float32 are not supported"
    ),
    "large image of taps": (
        "DeformConv", {"x": LARGE, "w": (1, 1, 1, 1), "offsets": (1, 2, *LARGE[2:])}, np.float32, {}, "more than 2^24"
    ),
    "a kernel without end": (
        "DeformConv", {**ONE_TAP, "w": (2, 2, 1 << 20, 1 << 20)}, np.float32, {"pads": [1 << 20] * 4}, "of all taps"
    ),
    "taps of doubles": ("DeformConv", ONE_TAP, np.float64, {}, "other types than float32 are not supported"),
    "offsets of other places": (
        "DeformConv", {**ONE_TAP, "offsets": (1, 2, 5, 4)}, np.float32, {},
        "'offsets' has dims [1, 2, 5, 4]; wanted [1, 2, 5, 5]",
    ),
    "groups of offsets": (
        "DeformConv", ONE_TAP, np.float32, {"offset_group": 3}, "offset_group=3 does not divide the 2 channels"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused_by_name(name: str) -> None:
    kind, shapes, dtype, attributes, said = REFUSED[name]
    feed = {n: np.broadcast_to(np.int64(0) if n == "which" else dtype(0), shape) for n, shape in shapes.items()}
    model = load(node_model(kind, list(feed), feed, 19, **attributes).SerializeToString(), "m.onnx")
    ((_, error),) = decompose(model, "m.onnx", {}).refused
    assert str(error).startswith(f"node ({kind}): ") and said in str(error)


def test_a_refused_region_stops_the_compiler() -> None:
    m = Qdq(opset=16)
    m.output(regions(m))
    with pytest.raises(UnsupportedError, match="with sampling_ratio=0 the number of samples"):
        compile_model(m.model().SerializeToString(), "m.onnx")
