"""Nodes in front of the network: OpenCV says what they make; simulator and board agree bit for bit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import onnx
import pytest
from qverify.compare.options import Options
from qverify.compiler.compile_model import CompilerOptions, compile_model
from qverify.errors import BadFileError, UnsupportedError, UsageError
from qverify.inputs import buffers
from qverify.inputs.described_inputs import described_inputs
from qverify.inputs.formats import FORMATS, REAL, YUV420
from qverify.inputs.sources import InputRequest, prepared_inputs
from qverify.model_bin.graph import Graph
from qverify.model_bin.records import decode, encode
from qverify.session.job import verify
from qverify.session.request import Request
from qverify.sides.board import Board
from qverify.sides.simulator import Simulator
from qverify.tensors.prepared import PreparedInputs

from tests.conftest import need_qemu

WIDTH, HEIGHT = 22, 14
MEAN, SCALE = np.float32([103.9, 116.8, 123.7]), np.float32([0.017, 0.0175, 0.0171])


def network(layout: str = "NCHW", channels: int = 3, dtype: int = onnx.TensorProto.FLOAT) -> bytes:
    """x quantized and dequantized again."""
    shape = [1, channels, HEIGHT, WIDTH] if layout == "NCHW" else [1, HEIGHT, WIDTH, channels]
    constants = [
        onnx.numpy_helper.from_array(np.float32(0.02), "scale"),
        onnx.numpy_helper.from_array(np.uint8(130), "zero"),
    ]
    first = (
        []
        if dtype != onnx.TensorProto.FLOAT
        else [onnx.helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"])]
    )
    nodes = [*first, onnx.helper.make_node("DequantizeLinear", ["q" if first else "x", "scale", "zero"], ["y"])]
    info = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        nodes, "net", [info("x", dtype, shape)], [info("y", onnx.TensorProto.FLOAT, shape)], constants
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)])
    model.ir_version = 8
    return bytes(model.SerializeToString())


def compiled(table: dict[str, object], source: bytes | None = None, align: int = 1) -> Graph:
    options = CompilerOptions(inputs={"x": table}, align=align)
    return compile_model(source or network(), "net.onnx", options).graph


def photo(channels: int = 3) -> np.ndarray:
    made = np.random.Generator(np.random.PCG64(5)).integers(0, 256, (HEIGHT, WIDTH, channels), np.uint8)
    return made[..., 0] if channels == 1 else made


def pixels_on_board(rgb: np.ndarray, format_: str) -> np.ndarray:
    """What a chip sees of the picture, RGB, by OpenCV."""
    if format_ in YUV420:
        return cv2.cvtColor(cv2.cvtColor(rgb, cv2.COLOR_RGB2YUV_I420), cv2.COLOR_YUV2RGB_I420)
    if format_.startswith("yuv444"):
        return cv2.cvtColor(cv2.cvtColor(rgb, cv2.COLOR_RGB2YUV), cv2.COLOR_YUV2RGB)
    return rgb


def fed_values(graph: Graph, tmp_path: Path, picture: np.ndarray) -> tuple[np.ndarray, InputRequest]:
    np.save(tmp_path / "a.npy", picture)
    asked = InputRequest(str(tmp_path / "a.npy"))
    return Simulator(graph).run(prepared_inputs(graph, asked)).tensors["x"], asked


@pytest.mark.parametrize("format_", [f for f in FORMATS if f not in REAL and not f.startswith("gray")])
@pytest.mark.parametrize(("train", "layout", "net"), [("rgb", "NHWC", "NCHW"), ("bgr", "NCHW", "NHWC")])
def test_the_network_gets_what_opencv_says(format_: str, train: str, layout: str, net: str, tmp_path: Path) -> None:
    table = {"format": format_, "train": train, "layout": layout, "mean": MEAN.tolist(), "scale": SCALE.tolist()}
    table |= {"width_align": 16, "height_align": 4, "innermost_align": 8, "buffer_align": 256}
    source = network(net)
    graph = compiled(table, source, align=3)
    rgb = photo()
    got, asked = fed_values(graph, tmp_path, rgb)
    seen = pixels_on_board(rgb, format_)[..., :: 1 if train == "rgb" else -1]
    less = np.float32(128 if format_ in ("rgb_128", "bgr_128") else 0)
    wanted = ((seen.astype(np.float32) - less) - (MEAN.astype(np.float64) - less).astype(np.float32)) * SCALE
    assert np.array_equal(got[0] if net == "NHWC" else got[0].transpose(1, 2, 0), wanted)
    (tmp_path / "net.onnx").write_bytes(source)
    (tmp_path / "m.bin").write_bytes(encode(graph))
    paths = [str(tmp_path / "net.onnx"), str(tmp_path / "m.bin")]
    report = verify(Request(paths, "local", inputs=asked, options=Options(dump_all=True))).report
    assert report.verdict == "PASSED" and all(p.bit_equal for p in report.pairs)
    assert all(row["equal"] for row in report.plain_onnxruntime["outputs"])
    judged = {row.name for p in report.pairs for row in p.tensors}
    assert {"x", "y"} <= judged and any(".unpack" in name or ".planar" in name for name in judged)


@pytest.mark.parametrize("format_", ["yuv444", "yuv444_128", "nv21"])
def test_a_network_trained_on_yuv(format_: str, tmp_path: Path) -> None:
    graph = compiled({"format": format_, "train": "yuv444", "mean": [128.0]})
    rgb = photo()
    got, _ = fed_values(graph, tmp_path, rgb)
    if format_ == "nv21":
        planes = cv2.cvtColor(rgb, cv2.COLOR_RGB2YUV_I420).reshape(-1)
        y, u, v = np.split(planes, [HEIGHT * WIDTH, HEIGHT * WIDTH * 5 // 4])
        small = [p.reshape(HEIGHT // 2, WIDTH // 2).repeat(2, 0).repeat(2, 1) for p in (u, v)]
        yuv = np.dstack([y.reshape(HEIGHT, WIDTH), *small])
    else:
        yuv = cv2.cvtColor(rgb, cv2.COLOR_RGB2YUV)
    assert np.array_equal(got[0].transpose(1, 2, 0), yuv.astype(np.float32) - 128)


@pytest.mark.parametrize("format_", ["gray", "gray_128"])
def test_a_gray_network(format_: str, tmp_path: Path) -> None:
    graph = compiled({"format": format_, "train": "gray", "mean": [10.0]}, network(channels=1))
    got, _ = fed_values(graph, tmp_path, photo(1))
    assert np.array_equal(got[0, 0], photo(1).astype(np.float32) - 10)


def test_integers_without_normalizing(tmp_path: Path) -> None:
    graph = compiled({"format": "bgra", "train": "rgb"}, network(dtype=onnx.TensorProto.UINT8))
    got, _ = fed_values(graph, tmp_path, photo())
    assert got.dtype == np.uint8 and np.array_equal(got[0].transpose(1, 2, 0), photo())


def test_raw_values(tmp_path: Path) -> None:
    real = np.random.Generator(np.random.PCG64(1)).standard_normal((HEIGHT, WIDTH, 3)).astype(np.float32)
    got, _ = fed_values(compiled({"format": "raw_f32", "width_align": 32}), tmp_path, real)
    assert np.array_equal(got[0].transpose(1, 2, 0), real)
    table = {"format": "raw_s16", "quantize": [0.001, 0], "rounding": "half-even"}
    got, _ = fed_values(compiled(table), tmp_path, real)
    assert np.array_equal(
        got[0].transpose(1, 2, 0), np.rint(real.astype(np.float64) / 0.001).astype(np.float32) * np.float32(0.001)
    )


def test_a_featuremap_is_quantized_on_the_host(tmp_path: Path) -> None:
    table = {"format": "featuremap", "train": "bgr", "mean": MEAN.tolist(), "scale": SCALE.tolist(), "width_align": 32}
    source = network()
    graph = compiled(table, source)
    assert [n.op for n in graph.nodes] == ["dequantize"] and graph.inputs == ("q",)
    assert graph.spec("q").aligned_shape == (1, 3, HEIGHT, 32)
    (tmp_path / "net.onnx").write_bytes(source)
    (tmp_path / "m.bin").write_bytes(encode(graph))
    np.save(tmp_path / "a.npy", photo())
    paths = [str(tmp_path / "net.onnx"), str(tmp_path / "m.bin")]
    asked = InputRequest(f"x:{tmp_path / 'a.npy'}")
    real = (photo()[..., ::-1].astype(np.float32) - MEAN) * SCALE
    wanted = np.clip(np.rint(real / np.float32(0.02)) + 130, 0, 255).transpose(2, 0, 1)
    assert np.array_equal(prepared_inputs(graph, asked).inputs[0].array()[0], wanted)
    report = verify(Request(paths, "local", inputs=asked, options=Options(dump_all=True))).report
    assert report.verdict == "PASSED" and all(row["equal"] for row in report.plain_onnxruntime["outputs"])


@pytest.mark.parametrize(
    "table",
    [
        {"format": "nv12", "train": "rgb", "mode": "horizon", "width_align": 16},
        {"format": "bgra", "train": "rgb", "mean": MEAN.tolist()},
        {"format": "raw_f32", "layout": "NCHW", "width_align": 3},
        {"format": "raw_s16", "quantize": [0.001, 3]},
        {"format": "yuv444_128", "train": "bgr", "source": "50x31"},
    ],
    ids=lambda t: t["format"],
)
@pytest.mark.parametrize(
    "arch",
    [
        pytest.param("aarch64", marks=need_qemu("aarch64")),
        pytest.param("armv7", marks=need_qemu("arm")),
        pytest.param("riscv64", marks=need_qemu("riscv64")),
        pytest.param("s390x", marks=need_qemu("s390x")),
    ],
)
def test_other_architectures(table: dict[str, object], arch: str) -> None:
    graph = compiled(table)
    prepared = prepared_inputs(graph, InputRequest(seed=4))
    board = Board(f"qemu-user:{arch}", encode(graph), graph, 300)
    try:
        ran = board.run(prepared)
    finally:
        board.close()
    assert ran.digests == Simulator(graph).run(prepared).digests and ran.digests


def bilinear(pixels: np.ndarray, width: int, height: int) -> np.ndarray:
    """Half-pixel centres in float64; the op rounds its weights to 1/2048."""
    rows, columns = pixels.shape[:2]
    y = ((np.arange(height) + 0.5) * rows / height - 0.5).clip(0)
    x = ((np.arange(width) + 0.5) * columns / width - 0.5).clip(0)
    i, j = y.astype(int), x.astype(int)
    down, right = np.minimum(i + 1, rows - 1), np.minimum(j + 1, columns - 1)
    fy, fx = (y - i)[:, None, None], (x - j)[None, :, None]
    real = pixels.astype(np.float64)
    above = real[i][:, j] * (1 - fx) + real[i][:, right] * fx
    return above * (1 - fy) + (real[down][:, j] * (1 - fx) + real[down][:, right] * fx) * fy


@pytest.mark.parametrize("roi", [None, "10,6,40,30", "0,0,1,1", "63,47,1,1", "3,3,22,14"])
def test_a_resizer_input(roi: str | None, tmp_path: Path) -> None:
    """The frame is fed whole, the roi beside it; both sides cut and resize the same, near to float64."""
    source = network()
    graph = compiled({"format": "rgb", "train": "rgb", "source": "64x48", "width_align": 16}, source)
    assert graph.inputs == ("x.raw", "x.roi")
    frame = np.random.Generator(np.random.PCG64(8)).integers(0, 256, (48, 64, 3), np.uint8)
    np.save(tmp_path / "a.npy", frame)
    asked = InputRequest(str(tmp_path / "a.npy"), tables={"x": {"roi": roi}} if roi else {})
    got = Simulator(graph).run(prepared_inputs(graph, asked)).tensors["x"][0].transpose(1, 2, 0)
    left, top, width, height = map(int, (roi or "0,0,64,48").split(","))
    part = frame[top : top + height, left : left + width]
    assert np.abs(got - bilinear(part, WIDTH, HEIGHT)).max() <= 0.5 + 4 * 255 / 2048
    if roi == "3,3,22,14":
        assert np.array_equal(got, part)
    (tmp_path / "net.onnx").write_bytes(source)
    (tmp_path / "m.bin").write_bytes(encode(graph))
    paths = [str(tmp_path / "net.onnx"), str(tmp_path / "m.bin")]
    report = verify(Request(paths, "local", inputs=asked, options=Options(dump_all=True))).report
    assert report.verdict == "PASSED" and [row["name"] for row in report.inputs] == ["x.raw", "x.roi"]
    for seed in range(5):
        assert verify(Request(paths, "local", inputs=InputRequest(seed=seed))).report.verdict == "PASSED"


def test_a_roi_outside_is_refused_by_host_and_board(tmp_path: Path) -> None:
    graph = compiled({"format": "rgb", "source": "64x48"})
    np.save(tmp_path / "a.npy", np.zeros((48, 64, 3), np.uint8))
    with pytest.raises(UsageError, match="is not inside the frame of 64x48"):
        prepared_inputs(graph, InputRequest(str(tmp_path / "a.npy"), tables={"": {"roi": [60, 0, 5, 5]}}))
    prepared = prepared_inputs(graph, InputRequest(seed=0))
    bad = replace(prepared.inputs[1], data=np.array([60, 0, 5, 5], "<i4").tobytes())
    board = Board("local", encode(graph), graph, 60)
    try:
        ran = board.run(PreparedInputs((prepared.inputs[0], bad)))
    finally:
        board.close()
    assert ran.state != "complete" and "input" in ran.why


@pytest.mark.parametrize(
    ("table", "source", "error", "said"),
    [
        ({"format": "nv12"}, network(), UsageError, "give train=rgb"),
        ({"format": "gray"}, network(), UnsupportedError, "makes \\[1, 1, 14, 22\\]"),
        ({"format": "rgb", "size": "8x8"}, network(), UnsupportedError, "8x8 makes"),
        ({"format": "rgb", "mean": [1.0]}, network(dtype=onnx.TensorProto.UINT8), UsageError, "need a float32 input"),
        ({"format": "rgb_128"}, network(dtype=onnx.TensorProto.UINT8), UnsupportedError, "makes int8 of it"),
        ({"format": "raw_s16"}, network(), UsageError, "needs quantize"),
        ({"format": "featuremap"}, network(dtype=onnx.TensorProto.UINT8), UnsupportedError, "QuantizeLinear"),
        ({"format": "rgb"}, network(channels=5), UsageError, "not a picture"),
    ],
)
def test_what_cannot_be_made_is_said(
    table: dict[str, object], source: bytes, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        compiled(table, source)


def test_a_model_bin_whose_description_lies() -> None:
    graph = compiled({"format": "rgb"})
    for row in (
        {"x": {"tensor": "x.raw", "description": {"format": "rgb", "size": [2, 2]}}},
        {"x": {"tensor": "nothing", "description": {"format": "rgb"}}},
        {"x": {"tensor": "x.raw", "description": {"format": "nv13", "size": [22, 14]}}},
        {"x": {"tensor": ["x.raw"], "description": {"format": "rgb"}}},
        {"x": 5},
        {"x": {"tensor": "x.raw", "description": {"format": ["rgb"], "size": [22, 14]}}},
        {"x": {"tensor": "x.raw", "description": {"format": "rgb", "size": [22, 14], "fill": "7" * 9000}}},
    ):
        graph.meta["inputs"] = row
        with pytest.raises(BadFileError, match="description of input 'x'"):
            described_inputs(decode(encode(graph)))


def test_random_inputs_fill_the_whole_range_and_no_padding() -> None:
    graph = compiled({"format": "nv12", "train": "rgb", "width_align": 64, "buffer_align": 4096})
    prepared = prepared_inputs(graph, InputRequest(seed=1)).inputs[0]
    wanted = described_inputs(graph)["x.raw"].description
    assert wanted is not None and buffers.padding_is_zero(prepared.data, wanted)
    assert {0, 255} <= set(prepared.data) and len(prepared.data) == 4096
