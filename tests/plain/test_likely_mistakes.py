"""Inputs that fit by size and are surely not meant are said, with the draft of a description that cures them."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import numpy as np
import onnx
import pytest
from PIL import Image
from qverify.cli.main import main
from qverify.inputs.description_tables import parse_description
from qverify.inputs.draft import draft_description
from qverify.tensors.spec import TensorSpec

SIDE = 32

ABSENT = "board: not run: no -b given"  # of every run here without a board


def picture() -> np.ndarray:
    """A smooth picture with edges and three different channels, uint8 (SIDE, SIDE, 3)."""
    y, x = np.mgrid[0:SIDE, 0:SIDE]
    disc = (x - 20) ** 2 + (y - 9) ** 2 < 64
    channels = [120 + 90 * np.sin(x / 7 + y / 11), 30 + 4 * y + 60 * disc, 220 - 3 * x - 100 * disc]
    return np.stack(channels, axis=-1).clip(0, 255).astype(np.uint8)


def one_input(folder: Path, scale: float, zero: int, shape: tuple[int, ...] = (1, 3, SIDE, SIDE)) -> Path:
    """Writes net.onnx: an input `x`, quantized and given back, whose integers cover (0 - zero) * scale and more."""
    helper = onnx.helper
    constants = [
        onnx.numpy_helper.from_array(np.float32(scale), "s"),
        onnx.numpy_helper.from_array(np.uint8(zero), "z"),
    ]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, shape) for n in "xy"]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    (folder / "net.onnx").write_bytes(model.SerializeToString())
    return folder


def verified(folder: Path, inputs: str, *more: str) -> tuple[int, dict[str, object]]:
    words = ["-m", f"{folder}/net.onnx", "-i", inputs, "--json", f"{folder}/r.json"]
    status = main([*words, *more])
    return status, json.loads((folder / "r.json").read_text())


def printed_draft(text: str) -> str:
    """The TOML below the comment that heads a draft, up to an empty line."""
    lines = text[text.index("# draft:") :].split("\n")
    return "\n".join(lines[: lines.index("")] if "" in lines else lines)


def test_pixels_into_a_range_of_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one_input(tmp_path, 2 / 255, 128)
    Image.fromarray(picture()).save(tmp_path / "a.png")
    status, report = verified(tmp_path, f"{tmp_path}/a.png")
    assert (status, report["verdict"]) == (0, "PASSED")
    said = "input x: 8-bit pixels (0..255) do not fit its quantized range -1.004..0.9961"
    assert [c.startswith(said) for c in report["caveats"]] == [False, True] and report["caveats"][0] == ABSENT
    shown = capsys.readouterr().out
    assert said in shown.strip().split("\n")[-1]
    draft = printed_draft(shown)
    assert tomllib.loads(draft) == tomllib.loads(report["drafts"]["x"])
    table = tomllib.loads(draft)["inputs"]["x"]
    assert (table["mean"], table["std"], table["size"]) == (127.5, 127.5, f"{SIDE}x{SIDE}")
    (tmp_path / "in.toml").write_text(draft)
    status, report = verified(tmp_path, f"{tmp_path}/a.png", "--description", f"{tmp_path}/in.toml")
    assert (status, report["caveats"], report["drafts"]) == (0, [ABSENT], {})


@pytest.mark.parametrize(("scale", "zero"), [(1.0, 0), (0.98, 0), (2.0, 128)])
def test_nothing_is_said_where_pixels_fit(tmp_path: Path, scale: float, zero: int) -> None:
    one_input(tmp_path, scale, zero)
    Image.fromarray(picture()).save(tmp_path / "a.png")
    assert verified(tmp_path, f"{tmp_path}/a.png")[1]["caveats"] == [ABSENT]


def test_nothing_is_said_of_random_inputs_and_of_normalized_ones(tmp_path: Path) -> None:
    one_input(tmp_path, 2 / 255, 128)
    np.save(tmp_path / "a.npy", (picture().transpose(2, 0, 1)[None] / 127.5 - 1).astype(np.float32))
    assert verified(tmp_path, f"{tmp_path}/a.npy")[1]["caveats"] == [ABSENT]
    words = ["-m", f"{tmp_path}/net.onnx", "--json", f"{tmp_path}/r.json"]
    assert main(words) == 0
    assert json.loads((tmp_path / "r.json").read_text())["caveats"] == [ABSENT, "random inputs, PCG64 seed 0"]


@pytest.mark.parametrize("wanted", ["NCHW", "NHWC"])
@pytest.mark.parametrize("gray", [False, True])
def test_raw_bytes_of_the_other_layout(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], wanted: str, gray: bool
) -> None:
    shape = (1, 3, SIDE, SIDE) if wanted == "NCHW" else (1, SIDE, SIDE, 3)
    one_input(tmp_path, 1.0, 0, shape)
    pixels = picture().astype(np.float32)
    pixels = np.repeat(pixels[..., :1], 3, axis=-1) if gray else pixels
    by_layout = {"NHWC": pixels, "NCHW": pixels.transpose(2, 0, 1)}
    other = "NHWC" if wanted == "NCHW" else "NCHW"
    (tmp_path / "right.bin").write_bytes(by_layout[wanted].tobytes())
    (tmp_path / "wrong.bin").write_bytes(by_layout[other].tobytes())
    _, right = verified(tmp_path, f"{tmp_path}/right.bin")
    assert right["caveats"] == [ABSENT]
    capsys.readouterr()
    status, report = verified(tmp_path, f"{tmp_path}/wrong.bin")
    said = f"input x: the bytes look like {other} (by the differences of neighbours), the input is {wanted}"
    assert (status, report["verdict"], report["caveats"]) == (0, "PASSED", [ABSENT, said])
    (tmp_path / "in.toml").write_text(printed_draft(capsys.readouterr().out))
    status, cured = verified(tmp_path, f"{tmp_path}/wrong.bin", "--description", f"{tmp_path}/in.toml")
    assert (status, cured["caveats"]) == (0, [ABSENT])
    assert cured["inputs"][0]["sha256"] == right["inputs"][0]["sha256"]


def test_noise_has_no_layout(tmp_path: Path) -> None:
    one_input(tmp_path, 1.0, 0)
    noise = np.random.Generator(np.random.PCG64(0)).integers(0, 256, (3, SIDE, SIDE)).astype(np.float32)
    (tmp_path / "a.bin").write_bytes(noise.tobytes())
    assert verified(tmp_path, f"{tmp_path}/a.bin")[1]["caveats"] == [ABSENT]


@pytest.mark.parametrize("command", ["verify", "triage", "quantize"])
@pytest.mark.parametrize("file", ["large.png", "pixels.npy", "planes.npy", "planes.bin"])
def test_a_refused_picture_prints_the_draft_that_cures_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, file: str
) -> None:
    one_input(tmp_path, 2 / 255, 128)
    Image.fromarray(np.repeat(picture(), 2, axis=0)).save(tmp_path / "large.png")
    np.save(tmp_path / "pixels.npy", picture())
    np.save(tmp_path / "planes.npy", picture().transpose(2, 0, 1)[None])
    (tmp_path / "planes.bin").write_bytes(picture().transpose(2, 0, 1).tobytes())
    model = f"{tmp_path}/net.onnx"
    words = {
        "verify": ["-m", model],
        "triage": ["triage", "-m", model],
        "quantize": ["quantize", float_model(tmp_path)],
    }
    words = [*words[command], "-i", f"{tmp_path}/{file}", *(["-o", f"{tmp_path}/q.onnx"] * (command == "quantize"))]
    assert main(words) == 2
    message, _, _ = (text := capsys.readouterr().err).partition("\n")
    assert message.startswith("qverify: ") and "give --description FILE" in message
    draft = printed_draft(text)
    assert ("std" in tomllib.loads(draft)["inputs"]["x"]) == (command != "quantize")
    if file.startswith("planes"):  # its message says how pixels are stored
        assert "uint8 (height, width, channels)" in message
        return
    (tmp_path / "in.toml").write_text(draft)
    assert main([*words, "--description", f"{tmp_path}/in.toml"]) == 0


def test_a_draft_is_printed_before_anything_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one_input(tmp_path, 2 / 255, 128)
    Image.fromarray(picture()).save(tmp_path / "x.png")
    assert main(["inputs", "draft", f"{tmp_path}/net.onnx"]) == 0
    (tmp_path / "in.toml").write_text(capsys.readouterr().out)
    assert main(["-m", f"{tmp_path}/net.onnx", "-i", f"{tmp_path}/x.png", "--description", f"{tmp_path}/in.toml"]) == 0
    assert (
        main(["compile", f"{tmp_path}/net.onnx", "-o", f"{tmp_path}/m.bin", "--input", "x=rgb,mean=127.5,std=127.5"])
        == 0
    )
    capsys.readouterr()
    assert main(["inputs", "draft", f"{tmp_path}/m.bin"]) == 2
    assert "wanted one of pictures without a description in model.bin" in capsys.readouterr().err


def float_model(folder: Path) -> str:
    helper = onnx.helper
    weights = onnx.numpy_helper.from_array(np.linspace(-1, 1, 3 * 9, dtype=np.float32).reshape(1, 3, 3, 3), "w")
    ends = [
        helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, s)
        for n, s in (("x", (1, 3, SIDE, SIDE)), ("y", (1, 1, SIDE - 2, SIDE - 2)))
    ]
    graph = helper.make_graph([helper.make_node("Conv", ["x", "w"], ["y"])], "net", ends[:1], ends[1:], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    (folder / "float.onnx").write_bytes(model.SerializeToString())
    return str(folder / "float.onnx")


def test_frames_left_out_are_said_in_every_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one_input(tmp_path, 1.0, 0)
    (folder := tmp_path / "frames").mkdir()
    Image.fromarray(picture()).save(folder / "a.png")
    Image.fromarray(np.repeat(picture(), 2, axis=0)).save(folder / "b.png")
    status, report = verified(tmp_path, str(folder), "-b", "local")
    assert (status, report["verdict"]) == (2, "INCONCLUSIVE")
    assert report["caveats"] == ["1 frame could not be prepared"]
    shown = capsys.readouterr().out
    lines = [line for line in shown.split("\n") if "Strict check" in line]
    assert len(lines) == 3
    assert all(line.count("1 frame could not be prepared") == 1 for line in lines)
    assert tomllib.loads(printed_draft(shown)) == tomllib.loads(report["drafts"]["x"])


def test_triage_says_it_in_its_last_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one_input(tmp_path, 2 / 255, 128)
    (folder := tmp_path / "frames").mkdir()
    Image.fromarray(picture()).save(folder / "a.png")
    Image.fromarray(np.repeat(picture(), 2, axis=0)).save(folder / "b.png")
    words = ["triage", "-m", f"{tmp_path}/net.onnx", "-b", "local", "--json", f"{tmp_path}/t.json"]
    assert main([*words, "-i", f"{folder}/a.png"]) == 0
    shown = capsys.readouterr().out
    assert "8-bit pixels (0..255) do not fit" in shown.strip().split("\n")[-1]
    assert printed_draft(shown)
    assert main([*words, "-i", str(folder)]) == 3
    last = next(line for line in capsys.readouterr().out.split("\n") if line.startswith("TRIAGE:"))
    assert "8-bit pixels (0..255) do not fit" in last
    assert "1 frame could not be prepared" in last
    assert len(json.loads((tmp_path / "t.json").read_text())["caveats"]) == 2


@pytest.mark.parametrize(
    "spec",
    [
        TensorSpec("x:0", "float32", (1, 3, 8, 6)),
        TensorSpec("x", "float32", (1, 8, 6, 1)),
        TensorSpec("x", "int8", (1, 3, 8, 6), scale=(1 / 128,), zero_point=(0,)),
        TensorSpec("x", "uint8", (1, 8, 6, 3)),
    ],
)
def test_every_draft_is_a_description(spec: TensorSpec) -> None:
    draft = draft_description(spec.name, spec, None)
    assert parse_description(tomllib.loads(draft)["inputs"][spec.name], "draft").size == (6, 8)
    lines = draft.split("\n")
    for at in (n for n, line in enumerate(lines) if line.startswith("# mean")):
        chosen = [*lines[:at], *(line.removeprefix("# ") for line in lines[at : at + 2])]
        table = tomllib.loads("\n".join(n for n in chosen if not n.startswith(("mean", "std"))))["inputs"][spec.name]
        table |= tomllib.loads("\n".join(chosen[-2:]))
        assert parse_description(table, "draft").scale == tuple(1 / s for s in np.atleast_1d(table["std"]))


@pytest.mark.parametrize("shape", [(1, 5, 8, 6), (2, 3, 8, 6), (1, 1, 1, 50), (10,)])
def test_what_is_no_picture_has_no_draft(shape: tuple[int, ...]) -> None:
    assert draft_description("x", TensorSpec("x", "float32", shape), None) == ""
