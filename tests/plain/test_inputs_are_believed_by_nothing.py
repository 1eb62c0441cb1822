"""What a hostile or careless user gives as inputs: refused by name, never taken for something else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image
from qverify.cli.main import main
from qverify.errors import UsageError
from qverify.inputs import picture

from tests.plain.test_inputs_of_models import quantized_identity

SIZE = 16


@pytest.fixture
def net(tmp_path: Path) -> Path:
    """net.onnx with input x [1, 3, 16, 16], m.bin fed nv12, a.png, and `prep`, a.png prepared for it."""
    (tmp_path / "net.onnx").write_bytes(quantized_identity({"x": [1, 3, SIZE, SIZE]}).SerializeToString())
    words = ["compile", str(tmp_path / "net.onnx"), "-o", str(tmp_path / "m.bin"), "--no-check"]
    assert main([*words, "--input", "x=nv12,train=rgb,mean=127.5,scale=0.0078"]) == 0
    pixels = np.random.Generator(np.random.PCG64(0)).integers(0, 256, (40, 40, 3), np.uint8)
    (tmp_path / "pics").mkdir()
    for name in ("a", "b"):
        Image.fromarray(pixels).save(tmp_path / "pics" / f"{name}.png")
    assert (
        main(["inputs", "prepare", str(tmp_path / "pics"), "-m", str(tmp_path / "m.bin"), "-o", str(tmp_path / "prep")])
        == 0
    )
    return tmp_path


def run(net: Path, *more: str) -> int:
    return main(["-m", f"{net}/net.onnx,{net}/m.bin", "-b", "local", *more])


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    error = capsys.readouterr().err
    assert len(error.strip().splitlines()) == 1 and "internal error" not in error, error
    return error


@pytest.mark.parametrize(
    "how", [["--format", "nv21"], ["--format", "gray", "--size", "24x16"], ["--format", "nv12", "--mode", "bt709"]]
)
def test_bytes_prepared_for_another_model_do_not_pass(how, net, capsys):
    words = ["inputs", "prepare", str(net / "pics"), "--size", "16x16", *how, "-o", str(net / "other")]
    assert main(words) == 0
    assert run(net, "-i", str(net / "other")) == 2
    assert "prepared as" in capsys.readouterr().err
    assert main(["inputs", "check", str(net / "other"), "-m", str(net / "m.bin")]) == 2


def test_a_changed_byte_and_a_failed_picture_are_frames_that_did_not_run(net, capsys):
    data = bytearray((net / "prep" / "0001.bin").read_bytes())
    data[5] ^= 1
    (net / "prep" / "0001.bin").write_bytes(data)
    held = json.loads((net / "prep" / "manifest.json").read_text())
    held["failed"] = [{"source": "c.png", "why": "broken"}]
    (net / "prep" / "manifest.json").write_text(json.dumps(held))
    assert run(net, "-i", str(net / "prep"), "--json", str(net / "r.json")) == 2
    report = json.loads((net / "r.json").read_text())
    assert [f["verdict"] for f in report["frames"]] == ["PASSED", "NOT RUN", "NOT RUN"]
    assert report["verdict"] == "INCONCLUSIVE" and "SHA-256" in report["frames"][1]["why"]


@pytest.mark.parametrize(
    "lie", [{"format": "nv21"}, {"train": "bgr"}, {"mode": "sigmastar"}, {"mean": "3"}, {"width_align": 32}]
)
def test_a_description_that_is_not_what_the_nodes_do(lie, net, capsys):
    from qverify.model_bin.records import decode, encode

    graph = decode((net / "m.bin").read_bytes())
    graph.meta["inputs"]["x"]["description"].update(lie)
    (net / "m.bin").write_bytes(encode(graph))
    assert run(net, "-i", str(net / "pics" / "a.png")) == 2
    assert "its description of input 'x'" in one_line(capsys)


@pytest.mark.parametrize("key", ["mean = 0", "scale = 5", 'mode = "sigmastar"', 'train = "bgr"', 'format = "nv21"'])
def test_a_description_beside_cannot_change_what_the_board_does(key, net, capsys):
    (net / "d.toml").write_text(f"[inputs.x]\n{key}\n")
    assert run(net, "-i", str(net / "pics" / "a.png"), "--description", str(net / "d.toml")) == 2
    assert "qverify compile --input" in one_line(capsys)


@pytest.mark.parametrize("key", ['size = "8x8"', 'layout = "NHWC"', "quantize = [9, 3]"])
def test_a_featuremap_keeps_its_tensors_own_shape(key, net, capsys):
    words = ["compile", str(net / "net.onnx"), "-o", str(net / "f.bin"), "--no-check"]
    (net / "d.toml").write_text(f'[inputs.x]\nformat = "featuremap"\n{key}\n')
    assert main([*words, "--description", str(net / "d.toml")]) == 2
    assert "the tensor's own is" in one_line(capsys)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--input", "x=nv12,train=rgb", "--input", "x=rgb"], "given twice"),
        (["--input", "x=nv12,train=rgb,format=rgb"], "format is given twice"),
        (["--input", "x=rgb,scale=0"], "no scale of 0"),
        (["--input", "x=rgb,quantize=0.1,3"], "contains no quantized values"),
        (["--input", "x=raw_s16,quantize=0.1"], "wanted SCALE,ZERO"),
        (["--input", "x=raw_s16,quantize=0.1,99999"], "is not within"),
        (["--input", "x=raw_s16,quantize=0.1," + "9" * 400], "wanted a whole number"),
        (["--input", "x=rgb,width_align=2.5"], "wanted a whole number"),
        (["--input", "x=rgb,std=2,scale=3"], "mean the same"),
        (["--input", "x=rgb,std=0"], "std 0"),
        (["--input", "x=nv12,train=rgb,source=32768x32768"], "are taken"),
        (["--input", "x=nv12,train=rgb,width_align=65536,height_align=65536"], "are allowed"),
        (["--input", "x=rgb,stride=50"], "wanted a multiple of 3"),
        (["--input", "x=nv12,train=rgb,resize_order=after-normalize"], "is not normalized"),
    ],
)
def test_descriptions_that_say_nothing_sensible(words, said, net, capsys):
    assert main(["compile", str(net / "net.onnx"), "-o", str(net / "o.bin"), "--no-check", *words]) == 2
    assert said in one_line(capsys) and not (net / "o.bin").exists()


def test_a_file_and_an_option_make_one_description(net):
    (net / "d.toml").write_text("[inputs.x]\nformat = 'nv12'\nmean = 127.5\nstd = 100\n")
    words = [
        "compile",
        str(net / "net.onnx"),
        "-o",
        str(net / "o.bin"),
        "--no-check",
        "--description",
        str(net / "d.toml"),
    ]
    assert main([*words, "--input", "x=rgb,train=rgb"]) == 0
    from qverify.inputs.described_inputs import described_inputs
    from qverify.model_bin.records import decode

    one = described_inputs(decode((net / "o.bin").read_bytes()))["x.raw"].description
    assert one is not None and (one.format, one.mean, one.scale) == ("rgb", (127.5,), (0.01,))
    (net / "d.json").write_text(json.dumps({"inputs": {"x": {"format": "bgr", "train": "rgb", "stride": 96}}}))
    words = [
        "compile",
        str(net / "net.onnx"),
        "-o",
        str(net / "o.bin"),
        "--no-check",
        "--description",
        str(net / "d.json"),
    ]
    assert main(words) == 0


def test_sixteen_bits_a_channel(tmp_path):
    rng = np.random.Generator(np.random.PCG64(4))
    deep = rng.integers(0, 65536, (8, 9, 3), np.uint16)
    wanted = np.floor(deep / 257 + 0.5).astype(np.uint8)
    for name, values in (("a.png", deep), ("a.tif", deep), ("b.png", np.dstack([deep, deep[..., :1]]))):
        cv2.imwrite(
            str(tmp_path / name),
            cv2.cvtColor(values, cv2.COLOR_RGBA2BGRA if values.shape[2] == 4 else cv2.COLOR_RGB2BGR),
        )
        assert np.array_equal(picture.read(str(tmp_path / name)), wanted), name


@pytest.mark.parametrize("mode", ["F", "I"])
def test_values_of_32_bits_are_no_picture(mode, tmp_path):
    Image.fromarray(np.linspace(0, 1, 64).reshape(8, 8).astype(np.float32 if mode == "F" else np.int32)).save(
        tmp_path / "a.tif"
    )
    with pytest.raises(UsageError, match="32-bit"):
        picture.read(str(tmp_path / "a.tif"))


def test_one_broken_picture_of_any_kind_does_not_end_the_others(net, monkeypatch):
    def burst(*_: object, **__: object) -> None:
        raise RuntimeError("Failed to decode image")

    real = Image.open
    monkeypatch.setattr(Image, "open", lambda path, **k: burst() if str(path).endswith("b.png") else real(path, **k))
    assert run(net, "-i", str(net / "pics"), "--json", str(net / "r.json")) == 2
    assert [f["verdict"] for f in json.loads((net / "r.json").read_text())["frames"]] == ["PASSED", "NOT RUN"]


def test_show_writes_in_its_own_folder(net, capsys):
    held = json.loads((net / "prep" / "manifest.json").read_text())
    victim = net / "victim"
    victim.mkdir()
    (victim / "0000.bin").write_bytes((net / "prep" / "0000.bin").read_bytes())
    for file in (str(victim / "0000.bin"), "../victim/0000.bin", "0000\0.bin", "a\x1b[2J.bin"):
        held["files"][0]["file"] = file
        (net / "prep" / "manifest.json").write_text(json.dumps(held))
        for words in (["show"], ["check"]):
            assert main(["inputs", *words, str(net / "prep")]) == 2
            assert "wanted names like 0000.bin" in one_line(capsys)
    assert sorted(p.name for p in victim.iterdir()) == ["0000.bin"]


def test_a_captured_file_is_shown_by_a_description(net):
    words = ["inputs", "show", str(net / "prep" / "0000.bin"), "-m", str(net / "m.bin"), "-o", str(net / "seen")]
    assert main(words) == 0 and (net / "seen" / "0000.png").is_file()


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
def test_quantized_featuremaps_are_shown_as_the_picture(dtype, net):
    zero = {"int8": 0, "uint8": 128, "int16": 5}[dtype]
    words = [
        "inputs",
        "prepare",
        str(net / "pics" / "a.png"),
        "--format",
        "featuremap",
        "--size",
        "40x40",
        "--mean",
        "127.5",
    ]
    words += [
        "--scale",
        "0.0078431373",
        "--quantize",
        f"0.0078431373,{zero}",
        "--quantize-dtype",
        dtype,
        "-o",
        str(net / "q"),
    ]
    assert main(words) == 0 and main(["inputs", "show", str(net / "q")]) == 0
    with Image.open(net / "q" / "shown" / "0000.png") as seen, Image.open(net / "pics" / "a.png") as real:
        assert np.abs(np.asarray(seen).astype(int) - np.asarray(real)).max() <= 1


def test_preparing_again_leaves_nothing_stale_and_no_source_is_overwritten(net, capsys):
    (net / "prep" / "0007.bin").write_bytes(b"stranger")
    assert main(["inputs", "check", str(net / "prep")]) == 2
    assert "0007.bin: not in the manifest" in one_line(capsys)
    (net / "prep" / "0007.bin").unlink()
    words = ["inputs", "prepare", str(net / "pics" / "a.png"), "-m", str(net / "m.bin"), "-o"]
    assert main([*words, str(net / "prep")]) == 0
    assert sorted(p.name for p in (net / "prep").iterdir()) == ["0000.bin", "manifest.json"]
    assert main([*words, str(net / "pics")]) == 2
    assert "name another folder" in one_line(capsys)


@pytest.mark.slow
def test_pipes_and_endless_files_are_not_waited_for(net):
    """Each in a process of its own, with a deadline."""
    os.mkfifo(net / "pipe.bin")
    os.mkfifo(net / "l.txt")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    bad = [
        ["inputs", "check", str(net / "pipe.bin"), "-m", str(net / "m.bin")],
        ["inputs", "prepare", str(net / "l.txt"), "-m", str(net / "m.bin"), "-o", str(net / "o")],
        ["inputs", "prepare", str(net / "pics"), "--description", "/dev/zero", "-o", str(net / "o")],
        ["inputs", "prepare", str(net / "pics"), "-m", str(net / "pipe.bin"), "-o", str(net / "o")],
        ["-m", str(net / "pipe.bin"), "-b", "local"],
    ]
    for words in bad:
        done = subprocess.run(
            [sys.executable, "-m", "qverify.cli.main", *words],
            env=environment,
            capture_output=True,
            text=True,
            timeout=30,
        )
        assert done.returncode == 2 and len(done.stderr.strip().splitlines()) == 1, (words, done.stderr)


@pytest.mark.slow
def test_arrays_that_promise_too_much(net, capsys):
    header = np.lib.format.magic(1, 0)
    text = "{'descr': '|u1', 'fortran_order': False, 'shape': (1000000, 1000000, 3), }".ljust(117) + "\n"
    (net / "big.npy").write_bytes(header + len(text).to_bytes(2, "little") + text.encode())
    assert run(net, "-i", str(net / "big.npy")) == 2
    assert "does not fit into" in one_line(capsys)
    with zipfile.ZipFile(net / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as target, target.open("x.npy", "w") as file:
        for _ in range(1100):
            file.write(bytes(1 << 20))
    assert run(net, "-i", str(net / "bomb.npz")) == 2
    assert "bytes are read" in one_line(capsys)


def test_names_with_commas_and_colons_in_folders(net):
    made = net / "odd"
    made.mkdir()
    for name in ("a,b.png", "x:c.png"):
        (made / name).write_bytes((net / "pics" / "a.png").read_bytes())
    assert run(net, "-i", str(made)) == 0
    (made / "gone.png").symlink_to(net / "nothing.png")
    assert run(net, "-i", str(made)) == 2


def test_frames_of_two_inputs_by_folder(tmp_path, capsys):
    model = quantized_identity({"left": [1, 3, SIZE, SIZE], "right": [1, 3, SIZE, SIZE]})
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    for side in ("l", "r"):
        (tmp_path / side).mkdir()
        for k in range(3):
            np.save(tmp_path / side / f"{k}.npy", np.zeros((1, 3, SIZE, SIZE), np.float32))
    words = ["-m", str(tmp_path / "net.onnx"), "-b", "local", "-i"]
    assert main([*words, f"left:{tmp_path}/l,right:{tmp_path}/r"]) == 0
    assert "frames: 3 of 3 ran" in capsys.readouterr().out
    (tmp_path / "r" / "2.npy").unlink()
    assert main([*words, f"left:{tmp_path}/l,right:{tmp_path}/r"]) == 2
    assert "wanted equally many for each" in one_line(capsys)


def test_doubts_are_said(net, capsys):
    words = [
        "compile",
        str(net / "net.onnx"),
        "-o",
        str(net / "s.bin"),
        "--no-check",
        "--input",
        "x=nv12,train=rgb,mode=sigmastar",
    ]
    assert main(words) == 0
    assert main(["-m", f"{net}/net.onnx,{net}/s.bin", "-b", "local", "--json", str(net / "r.json")]) == 0
    assert any(
        "sigmastar follows published facts" in note for note in json.loads((net / "r.json").read_text())["notes"]
    )
    words = ["inputs", "prepare", str(net / "pics"), "--format", "nv12", "--size", "16x16", "--profile", "horizon-x5"]
    assert main([*words, "-o", str(net / "h")]) == 0
    assert "unverified: colour mode horizon and profile horizon-x5" in capsys.readouterr().out
