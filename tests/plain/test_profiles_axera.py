"""AXera's folders of raw outputs. Every fixture is synthetic, written from the published description."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from qverify.cli.main import main

from tests.plain.profile_fuzz import spoil

OUT = {
    "resnetv15_dense0_fwd": np.random.default_rng(1).standard_normal((1, 10)).astype(np.float32),
    "head/box": np.random.default_rng(2).standard_normal((1, 3, 5)).astype(np.float32),
}


def gt(root: Path, off=0.0) -> Path:
    path = root / "gt"
    for side in ("joint", "onnx", "input"):
        (path / side).mkdir(parents=True)
    np.zeros(12, np.uint8).tofile(path / "input" / "data.bin")
    for side, more in (("joint", off), ("onnx", 0.0)):
        for name, array in OUT.items():
            (array + np.float32(more)).tofile(path / side / f"{name.replace('/', '_')}.bin")
            np.save(path / side / f"{name.replace('/', '_')}.npy", array + np.float32(more))
    return path


def bins(path: Path, off=0.0) -> Path:
    path.mkdir(parents=True)
    for name, array in OUT.items():
        (array + np.float32(off)).tofile(path / f"{name.replace('/', '_')}.bin")
    return path


@pytest.fixture
def host(tmp_path):
    np.savez(tmp_path / "host.npz", **OUT)
    return str(tmp_path / "host.npz")


def test_both_sides_of_gt(host, tmp_path, capsys):
    path = str(gt(tmp_path, off=0.001))
    assert main(["compare", path, path, "--side-a", "onnx", "--side-b", "joint"]) == 1
    printed = capsys.readouterr().out
    assert "2 of 2 tensors" in printed and "compared with itself" not in printed
    assert main(["compare", host, path, "--side", "onnx"]) == 0
    assert main(["compare", host, path]) == 2
    assert "contains joint, onnx; name one of them" in capsys.readouterr().err


def test_a_bin_that_contradicts_its_npy_is_refused(host, tmp_path, capsys):
    path = gt(tmp_path)
    (OUT["head/box"] + 1).astype(np.float32).tofile(path / "joint" / "head_box.bin")
    assert main(["compare", host, str(path), "--side", "joint"]) == 2
    assert "head_box.bin: other values than" in capsys.readouterr().err


def test_raw_folders_of_frames(host, tmp_path, capsys):
    bins(tmp_path / "output" / "0")
    bins(tmp_path / "output" / "1", off=0.5)
    words = ["compare", host, str(tmp_path / "output"), "--profile-b", "axera"]
    assert main([*words, "--dtype", "float32"]) == 0
    assert main([*words, "--dtype", "float32", "--frame", "1"]) == 1
    assert main([*words, "--frame", "2"]) == 2
    assert "there is no frame 2" in capsys.readouterr().err


def test_random_inputs_and_nothing_are_refused(host, tmp_path, capsys):
    path = bins(tmp_path / "out")
    words = ["compare", host, str(path), "--profile-b", "axera", "--dtype", "float32"]
    (path / "run_joint.log").write_text("run joint version\ninput[0] data data not provided, using random data\n")
    assert main(words) == 2
    assert "run_joint.log: line 2: the run used random inputs" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    assert main(["compare", host, str(tmp_path / "empty"), "--profile-b", "axera"]) == 2
    (path / "run_joint.log").unlink()
    (path / "head_box.bin").unlink()
    assert main(words) == 3
    (path / "head_box.bin").write_bytes(b"")
    assert main(words) == 3


def test_spoiled(host, tmp_path):
    path = gt(tmp_path) / "joint"
    spoil("axera", host, path, list(path.iterdir()))


def build(root: Path, off: int = 0) -> Path:
    """The dumps of a build: every layer as integers, one output as real values too, and the scales beside them."""
    quant = root / "quant"
    codes = {
        "_a_conv_output_0": np.arange(40, dtype=np.uint8).reshape(1, 4, 10) + off,
        "_b_Add_output_0": np.arange(300, 340, dtype=np.uint16).reshape(1, 40),
    }
    scales = {"/a/conv_output_0": (0.5, 7), "/b/Add_output_0": (0.25, 300)}
    for kind, side in (("numpy", "float"), ("numpy", "xrun"), ("io", "float"), ("io", "quant")):
        (quant / "debug" / kind / side).mkdir(parents=True)
    for (stem, code), (scale, zero) in zip(codes.items(), scales.values(), strict=True):
        real = (code.astype(np.int64) - zero).astype(np.float32) * np.float32(scale)
        np.save(quant / "debug" / "numpy" / "xrun" / f"{stem}.npy", code)
        np.save(quant / "debug" / "numpy" / "float" / f"{stem}.npy", real)
    np.save(quant / "debug" / "io" / "float" / "_b_Add_output_0.npy", real)
    np.save(quant / "debug" / "io" / "quant" / "_b_Add_output_0.npy", real)
    content = {
        "tensor_configs": {
            "op_1:onnx.Conv": {"/a/conv_output_0": {"bit_width": 8, "hash": 11, "dominator": 11}},
            "op_2": {"/b/Add_output_0": {"bit_width": 16, "hash": 12, "dominator": 13}, "w": {"hash": 14}},
        },
        "values": {
            "11": {"scale": [0.5], "zero_point": [7.0]},
            "13": {"scale": 0.25, "zero_point": 300},
            "14": {"scale": [0.1, 0.2], "zero_point": [0, 0]},
        },
    }
    (quant / "quant_axmodel.json").write_text(json.dumps(content))
    return quant


def test_integers_of_a_build_have_their_scales(tmp_path, capsys):
    quant = str(build(tmp_path))
    for path in (str(tmp_path), quant, f"{quant}/debug"):
        assert main(["compare", path, path, "--side-a", "float", "--side-b", "xrun"]) == 0
        printed = capsys.readouterr().out
        assert "2 of 2 tensors" in printed and "dequantized" in printed
    assert main(["compare", quant, quant, "--side-a", "float", "--side-b", "quant"]) != 0  # one layer of two
    assert "missing" in capsys.readouterr().out


def test_a_difference_in_one_layer_is_found(tmp_path, capsys):
    (tmp_path / "other").mkdir()
    sound, other = build(tmp_path), build(tmp_path / "other", off=1)
    assert main(["compare", str(sound), str(other), "--side-a", "float", "--side-b", "xrun"]) == 1
    assert "a_conv_output_0" in capsys.readouterr().out


def test_without_the_scales_integers_are_not_compared(tmp_path, capsys):
    quant = build(tmp_path)
    (quant / "quant_axmodel.json").unlink()
    assert main(["compare", str(quant), str(quant), "--side-a", "float", "--side-b", "xrun"]) not in (0, 1)
    assert "INCONCLUSIVE" in capsys.readouterr().out


def test_a_build_without_a_side_and_damaged_scales_are_refused(tmp_path, capsys):
    quant = build(tmp_path)
    assert main(["compare", str(quant), str(quant)]) == 2
    assert "contains xrun, quant, float; name one of them: --side xrun" in capsys.readouterr().err
    (quant / "quant_axmodel.json").write_text('{"tensor_configs": []}')
    assert main(["compare", str(quant), str(quant), "--side-a", "float", "--side-b", "xrun"]) == 2
    assert "quant_axmodel.json: wanted an object with tensor_configs and values" in capsys.readouterr().err
