"""Pictures, sound and arrays as inputs of a model: by its own description, or by one given beside it."""

from __future__ import annotations

import json
import wave
from pathlib import Path

import cv2
import numpy as np
import onnx
import pytest
from PIL import Image
from qverify.cli.main import main
from qverify.errors import UsageError
from qverify.inputs.sources import prepare
from qverify.model_bin.graph import Graph
from qverify.tensors.spec import TensorSpec

WIDTH, HEIGHT = 20, 12


def quantized_identity(shapes: dict[str, list[int]]) -> onnx.ModelProto:
    """Every input quantized, dequantized, and given back."""
    info, nodes = onnx.helper.make_tensor_value_info, []
    constants = [onnx.numpy_helper.from_array(np.float32(0.02), "s"), onnx.numpy_helper.from_array(np.uint8(128), "z")]
    for name in shapes:
        nodes.append(onnx.helper.make_node("QuantizeLinear", [name, "s", "z"], [f"{name}_q"]))
        nodes.append(onnx.helper.make_node("DequantizeLinear", [f"{name}_q", "s", "z"], [f"{name}_y"]))
    kind = onnx.TensorProto.FLOAT
    inputs = [info(n, kind, s) for n, s in shapes.items()]
    outputs = [info(f"{n}_y", kind, s) for n, s in shapes.items()]
    graph = onnx.helper.make_graph(nodes, "net", inputs, outputs, constants)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)])
    model.ir_version = 8
    return model


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """A folder with net.onnx of two inputs, `left` a picture and `right` a sound, m.bin fed nv12 for the picture, a.png, b.wav."""
    model = quantized_identity({"left": [1, 3, HEIGHT, WIDTH], "right": [1, 1, 1, 50]})
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    words = ["compile", str(tmp_path / "net.onnx"), "-o", str(tmp_path / "m.bin")]
    assert main([*words, "--input", "left=nv12,train=bgr,mean=1,2,3,scale=0.01,width_align=32"]) == 0
    pixels = np.random.Generator(np.random.PCG64(0)).integers(0, 256, (31, 17, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    with wave.open(str(tmp_path / "b.wav"), "wb") as sound:
        sound.setparams((1, 2, 16000, 50, "NONE", ""))
        sound.writeframes(np.arange(-25, 25, dtype="<i2").tobytes())
    (tmp_path / "in.toml").write_text(
        '[inputs.right]\nformat = "raw_f32"\ntrain = "gray"\nsize = "50x1"\nscale = 0.001\n'
    )
    return tmp_path


def verified(folder: Path, inputs: str, *more: str) -> dict[str, object]:
    words = ["-m", f"{folder}/net.onnx,{folder}/m.bin", "-b", "local", "-i", inputs, "--json", str(folder / "r.json")]
    status = main([*words, *more])
    report = json.loads((folder / "r.json").read_text())
    assert (status == 0) == (report["verdict"] == "PASSED")
    return report


def test_a_picture_and_a_sound_by_name(two: Path) -> None:
    report = verified(two, f"right:{two}/b.wav,left:{two}/a.png", "--description", str(two / "in.toml"))
    assert report["verdict"] == "PASSED"
    out = two / "out"
    words = ["infer", "-m", str(two / "m.bin"), "-i", f"left:{two}/a.png,right:{two}/b.wav", "-o", str(out)]
    assert main([*words, "--description", str(two / "in.toml")]) == 0
    names = {v: k for k, v in json.loads((out / "manifest.json").read_text())["tensors"].items()}
    left = np.load(out / names["left"])[0].transpose(1, 2, 0)
    with Image.open(two / "a.png") as picture:
        small = cv2.resize(np.asarray(picture), (WIDTH, HEIGHT), interpolation=cv2.INTER_LINEAR)
    seen = cv2.cvtColor(cv2.cvtColor(small, cv2.COLOR_RGB2YUV_I420), cv2.COLOR_YUV2BGR_I420)
    assert np.array_equal(left, (seen.astype(np.float32) - np.float32([1, 2, 3])) * np.float32(0.01))
    right = np.load(out / names["right_y"]).reshape(-1)
    assert np.abs(right - np.arange(-25, 25) * 0.001).max() <= 0.0101


def test_arrays_of_one_npz(two: Path) -> None:
    pixels = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    real = np.linspace(-1, 1, 50, dtype=np.float32).reshape(1, 1, 1, 50)
    np.savez(two / "both.npz", left=pixels, right=real)
    assert verified(two, str(two / "both.npz"))["verdict"] == "PASSED"
    np.savez(two / "less.npz", left=pixels, other=real)
    words = ["-m", f"{two}/net.onnx,{two}/m.bin", "-b", "local", "-i", str(two / "less.npz")]
    assert main(words) == 2


def test_many_frames_of_a_list(two: Path) -> None:
    np.save(two / "right.npy", np.zeros((1, 1, 1, 50), np.float32))
    lines = ["left:a.png,right:right.npy", "right:right.npy,left:missing.png", "left:a.png,right:right.npy"]
    (two / "list.txt").write_text("\n".join(lines))
    report = verified_frames(two)
    assert [row["verdict"] for row in report["frames"]] == ["PASSED", "NOT RUN", "PASSED"]


def verified_frames(folder: Path) -> dict[str, list[dict[str, object]]]:
    words = ["-m", f"{folder}/net.onnx,{folder}/m.bin", "-b", "local", "-i", str(folder / "list.txt")]
    assert main([*words, "--json", str(folder / "r.json")]) == 2
    return json.loads((folder / "r.json").read_text())


@pytest.mark.parametrize(
    ("inputs", "more", "said"),
    [
        (
            "left:{f}/a.png,wrong:{f}/b.wav",
            [],
            "no input of this name; the model's inputs are ['left.raw', 'left', 'right']",
        ),
        ("left:{f}/a.png,left:{f}/a.png", [], "2 inputs, but only 1 different name"),
        ("{f}/a.png", [], "1 file for 2 model inputs"),
        ("{f}/a.png,{f}/b.wav", [], "sound needs a description of input 'right'"),
        ("{f}/a.png,{f}/a.png", [], "a picture of 17x31 for input 'right' of 50x1; how to resize"),
        ("{f}/b.wav,{f}/a.png", [], "sound can be converted to featuremap"),
        ("{f}/short.bin,{f}/z.npy", [], "3 bytes, wanted 576 (aligned) or 360 (valid elements alone) for nv12 20x12"),
        ("{f}/a.png,{f}/nan.npy", [], "NaN or infinite"),
        ("{f}/cut.png,{f}/z.npy", [], "not a readable picture"),
        ("{f}/a.png,{f}/z.npy", ["--roi", "left:0,0,99,99"], "is not inside the picture of 17x31"),
        ("{f}/a.png,{f}/z.npy", ["--roi", "mid:0,0,9,9"], "no such input"),
        ("{f}/a.png,{f}/z.npy", ["--roi", "1,2,3"], "wanted x,y,width,height"),
        ("{f}/a.png,{f}/z.npy", ["--description", "{f}/nothing.toml"], "nothing.toml"),
        ("{f}/a.png,{f}/z.npy", ["--description", "{f}/other.toml"], "format rgb, wanted nv12"),
    ],
)
def test_mistakes_are_one_line_each(
    two: Path, inputs: str, more: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(two / "z.npy", np.zeros((1, 1, 1, 50), np.float32))
    np.save(two / "nan.npy", np.full((1, 1, 1, 50), np.nan, np.float32))
    (two / "short.bin").write_bytes(b"abc")
    (two / "cut.png").write_bytes((two / "a.png").read_bytes()[:300])
    (two / "other.toml").write_text('[inputs.left]\nformat = "rgb"\n')
    words = ["-m", f"{two}/net.onnx,{two}/m.bin", "-b", "local", "-i", inputs.format(f=two)]
    assert main([*words, *(w.format(f=two) for w in more)]) == 2
    error = capsys.readouterr().err
    assert said in error and len(error.strip().splitlines()) == 1


def test_prepare_random_and_check_by_the_models_own_description(two: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = ["-m", str(two / "m.bin"), "--name", "left"]
    assert main(["inputs", "prepare", str(two / "a.png"), "-o", str(two / "one"), *model]) == 0
    assert main(["inputs", "random", "-o", str(two / "some"), "--count", "3", "--seed", "7", *model]) == 0
    assert main(["inputs", "random", "-o", str(two / "again"), "--count", "3", "--seed", "7", *model]) == 0
    same = [(two / n / "0002.bin").read_bytes() for n in ("some", "again")]
    assert same[0] == same[1] != (two / "some" / "0000.bin").read_bytes() and len(same[0]) == 576
    for path in ("one", "some", "some/0001.bin"):
        assert main(["inputs", "check", str(two / path), *model]) == 0
    assert main(["inputs", "check", str(two / "one"), *model, "--width-align", "64"]) == 2
    assert "its manifest says planes y [12, 20] as [12, 32]" in capsys.readouterr().err
    assert main(["inputs", "check", str(two / "some" / "0001.bin")]) == 2
    assert "its format is not known" in capsys.readouterr().err
    assert main(["inputs", "prepare", str(two / "a.png"), "-o", str(two / "x"), "-m", str(two / "m.bin")]) == 2
    assert "its inputs are left, right; give --name" in capsys.readouterr().err
    assert main(["inputs", "prepare", str(two / "a.png"), "-o", str(two / "x"), "-m", str(two / "net.onnx")]) == 2
    assert "not a model.bin" in capsys.readouterr().err
    assert main(["inputs", "prepare", str(two / "a.png"), "-o", str(two / "x")]) == 2
    assert "give --format and --size" in capsys.readouterr().err
    assert not (two / "x").exists()


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda data: data[:-1], "575 bytes, wanted 576"),
        (lambda data: data[:31] + b"\1" + data[32:], "padding is not zero"),
        (lambda data: b"", "0 bytes, wanted 576"),
    ],
)
def test_bytes_that_cannot_be_the_input(
    two: Path, spoil: object, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    model = ["-m", str(two / "m.bin"), "--name", "left"]
    assert main(["inputs", "prepare", str(two / "a.png"), "-o", str(two / "one"), *model]) == 0
    assert callable(spoil)
    (two / "bad.bin").write_bytes(spoil((two / "one" / "0000.bin").read_bytes()))
    assert main(["inputs", "check", str(two / "bad.bin"), *model]) == 2
    assert said in capsys.readouterr().err


def test_values_that_cannot_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.array([1, np.inf, 0], "<f4").tofile(tmp_path / "f.bin")
    np.array([1, -32768, 0], "<i2").tofile(tmp_path / "s.bin")
    for file, format_, said in (("f.bin", "raw_f32", "NaN or infinite"), ("s.bin", "raw_s16", "-32768")):
        words = ["inputs", "check", str(tmp_path / file), "--format", format_, "--size", "3x1", "--train", "gray"]
        assert main(words) == 2
        assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("width", "height", "format_"), [(1, 1, "rgb"), (1, 1, "gray"), (3840, 2160, "nv12"), (4095, 3, "bgr")]
)
def test_pictures_of_any_size(width: int, height: int, format_: str, tmp_path: Path) -> None:
    pixels = np.random.Generator(np.random.PCG64(2)).integers(0, 256, (height, width, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    words = ["inputs", "prepare", str(tmp_path / "a.png"), "--format", format_, "--size", f"{width}x{height}"]
    assert main([*words, "-o", str(tmp_path / "out")]) == 0
    data = (tmp_path / "out" / "0000.bin").read_bytes()
    if format_ == "nv12":
        planes = cv2.cvtColor(pixels, cv2.COLOR_RGB2YUV_I420).reshape(-1)
        y, u, v = np.split(planes, [width * height, width * height * 5 // 4])
        assert data == y.tobytes() + np.stack([u, v], -1).tobytes()
    elif format_ == "gray":
        with Image.open(tmp_path / "a.png") as picture:
            assert data == picture.convert("L").tobytes()
    else:
        assert data == (pixels if format_ == "rgb" else pixels[..., ::-1]).tobytes()


def test_a_vendors_defaults_and_pairs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Image.fromarray(np.zeros((20, 20, 3), np.uint8)).save(tmp_path / "a.png")
    words = ["inputs", "prepare", str(tmp_path / "a.png"), "--size", "20x20", "-o", str(tmp_path / "o")]
    assert main([*words, "--profile", "horizon-j6", "--format", "nv12", "--train", "rgb"]) == 0
    held = json.loads((tmp_path / "o" / "manifest.json").read_text())
    assert (
        held["planes"][0]["aligned_shape"] == [20, 32]
        and held["description"]["mode"] == "horizon"
        and held["unverified"]
    )
    assert main(["inputs", "check", str(tmp_path / "o")]) == 0
    assert main([*words, "--profile", "horizon-j6", "--format", "featuremap", "--train", "rgb"]) == 2
    assert "no horizon-j6 chip converts featuremap to rgb; possible" in capsys.readouterr().err
    assert main([*words, "--profile", "acme", "--format", "rgb"]) == 2
    assert "wanted one of horizon-x5" in capsys.readouterr().err


@pytest.mark.parametrize("ending", [".bin", ".npy"])
def test_a_bool_input_holds_0_and_1(tmp_path: Path, ending: str) -> None:
    """The runtime takes any other byte for true, where the simulator would keep it."""
    graph = Graph([], {"chosen": TensorSpec("chosen", "bool", (3,))}, {}, ("chosen",), ())
    path, values = tmp_path / f"in{ending}", np.array([0, 1, 2], np.uint8)
    if ending == ".npy":
        np.save(path, values.view(bool))
    else:
        path.write_bytes(values.tobytes())
    with pytest.raises(UsageError, match="a byte of 2 for input 'chosen', wanted 0 or 1"):
        prepare(graph, str(path), {}, {})
    values[2] = 1
    path.write_bytes(path.read_bytes()[:-1] + b"\x01")
    assert prepare(graph, str(path), {}, {}).inputs[0].data == bytes([0, 1, 1])
