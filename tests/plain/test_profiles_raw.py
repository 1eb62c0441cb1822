"""Qualcomm's Result_N, Horizon's outputs and layers, raw files with a manifest, through the command line. The dumps are synthetic,
written from the published descriptions; the texts of model_info in horizon_model_info/ are real."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from qverify.cli.main import main
from qverify.profiles import horizon
from qverify.tensors.spec import TensorSpec
from qverify.vendor_files.model_info import outputs_of
from qverify.vendor_files.untrusted_files import UntrustedFile

from tests.ops.qdq import Qdq
from tests.plain.profile_fuzz import spoil

REAL = np.random.default_rng(1).standard_normal((1, 3, 4, 20)).astype(np.float32)
STORED = np.random.default_rng(2).integers(-128, 128, (1, 3, 4, 20)).astype(np.int8)
INFO = Path(__file__).parent / "horizon_model_info"


@pytest.fixture
def host(tmp_path):
    np.savez(tmp_path / "host.npz", **{"/out/Conv:0": REAL})
    return str(tmp_path / "host.npz")


def result(root: Path, files: dict[str, np.ndarray], frame=0) -> str:
    (root / "output" / f"Result_{frame}").mkdir(parents=True, exist_ok=True)
    for name, values in files.items():
        (root / "output" / f"Result_{frame}" / name).write_bytes(values.tobytes())
    return str(root / "output")


def test_qualcomm_by_number_and_by_the_other_sides_shape(host, tmp_path, capsys):
    path = result(tmp_path, {"_out_Conv_0.raw": REAL})
    assert main(["compare", host, path]) == 0 and main(["compare", host, path + "/Result_0"]) == 0
    assert "the file does not" in capsys.readouterr().out
    result(tmp_path, {"_out_Conv_0.raw": REAL + 1}, 1)
    assert main(["compare", host, path]) == 0 and "Result_0 of 2" in capsys.readouterr().out
    assert main(["compare", host, path, "--frame", "1"]) == 1
    assert main(["compare", host, path, "--frame", "2"]) == 2 and "no Result_2" in capsys.readouterr().err
    assert main(["compare", path, path]) == 3  # nobody tells a shape


def test_qualcomm_native_in_the_type_of_the_other_side(tmp_path, capsys):
    np.savez(tmp_path / "a.npz", out=STORED)
    path = result(tmp_path, {"out_native.raw": STORED, "out.raw": STORED.astype(np.float32) * 0.1})
    assert main(["compare", str(tmp_path / "a.npz"), path]) == 0 and "read as int8" in capsys.readouterr().out
    np.savez(tmp_path / "a.npz", out=STORED.astype(np.float32) * np.float32(0.1))
    assert main(["compare", str(tmp_path / "a.npz"), path]) == 0 and "dequantized" not in capsys.readouterr().out


def test_qualcomm_names_that_fall_together(tmp_path, capsys):
    np.savez(tmp_path / "a.npz", **{"a/b": REAL, "a:b": REAL})
    assert main(["compare", str(tmp_path / "a.npz"), result(tmp_path, {"a_b.raw": REAL})]) == 3
    assert "written alike" in capsys.readouterr().out


def test_qualcomm_wrong_size_is_missing(host, tmp_path, capsys):
    assert main(["compare", host, result(tmp_path, {"_out_Conv_0.raw": REAL[:, :2]})]) == 3
    assert "640 bytes do not fit float32[1, 3, 4, 20]" in capsys.readouterr().out


def test_spoiled_qualcomm(host, tmp_path):
    path = Path(result(tmp_path, {"_out_Conv_0.raw": REAL, "x_native.raw": STORED}))
    spoil("qualcomm", host, path, list(path.rglob("*.raw")))


def info_text(
    dtype="S8", stride=(3 * 4 * 32, 4 * 32, 32, 1), scale="0.03125,", name="/out/Conv:0", shape=(1, 3, 4, 20)
) -> str:
    return "\n".join(
        [
            "[model name]: net",
            "",
            "input[0]: ",
            "name: image",
            "output[0]: ",
            f"name: {name}",
            f"valid shape: ({','.join(map(str, shape))},)",
            f"aligned byte size: {stride[0]}",
            f"tensor type: HB_DNN_TENSOR_TYPE_{dtype}",
            "quanti type: SCALE" if scale else "quanti type: NONE",
            f"stride: ({','.join(map(str, stride))},)",
            *([f"scale data: {scale}", "quantizeAxis: -1"] if scale else []),
        ]
    )


def board(root: Path, files: dict[str, bytes], info="") -> str:
    (root / "board").mkdir(exist_ok=True)
    for name, data in files.items():
        (root / "board" / name).write_bytes(data)
    if info:
        (root / "board" / "model_info.txt").write_text(info)
    return str(root / "board")


OUTPUT = "model_infer_output_0__out_Conv_0.bin"


def test_real_texts_of_model_info():
    x5 = outputs_of(UntrustedFile(str(INFO / "x5_yolo11n_cls.txt")))
    assert x5 == {0: TensorSpec("output0", "float32", (1, 1000, 1, 1), layout="NCHW")}
    s100 = outputs_of(UntrustedFile(str(INFO / "s100_yoloe.txt")))
    assert [(s.dtype, s.shape, s.aligned_shape == s.shape, len(s.scale), s.channel_axis) for s in s100.values()] == [
        ("float32", (1, 80, 80, 4585), True, 0, -1),
        ("int32", (1, 80, 80, 64), True, 64, 3),
    ]


@pytest.mark.parametrize(
    ("shape", "stride", "item", "stored"),
    [
        ((1, 3, 212, 212), (301056, 100352, 448, 2), "U16", (1, 3, 224, 224)),
        ((1, 220, 220, 1), (49280, 224, 1, 1), "U8", (1, 220, 224, 1)),
    ],
)
def test_published_strides(tmp_path, shape, stride, item, stored):
    (tmp_path / "i").write_text(info_text(item, stride, "", "x", shape))
    assert outputs_of(UntrustedFile(str(tmp_path / "i")))[0].aligned_shape == stored


@pytest.mark.parametrize(
    ("size", "aligned"), [(1, 16), (16, 16), (20, 32), (80, 128), (129, 256), (256, 256), (300, 320), (390, 512)]
)
def test_the_alignment_of_the_innermost_bytes(size, aligned):
    assert horizon.aligned_bytes(size) == aligned


def test_horizon_float_output_by_index_and_name(host, tmp_path, capsys):
    path = board(tmp_path, {OUTPUT: REAL.tobytes()})
    assert main(["compare", host, path]) == 0
    shown = capsys.readouterr().out
    assert "model_info" in shown and "read as float32" in shown
    padded = np.pad(REAL, [(0, 0)] * 3 + [(0, 12)])
    assert main(["compare", host, board(tmp_path, {OUTPUT: padded.tobytes()})]) == 0


def test_horizon_by_model_info(host, tmp_path, capsys):
    real = STORED.astype(np.float32) * np.float32(0.03125)
    np.savez(tmp_path / "host.npz", **{"/out/Conv:0": real})
    padded = np.pad(STORED, [(0, 0)] * 3 + [(0, 12)], constant_values=99)
    for data in (padded, STORED):
        path = board(tmp_path, {OUTPUT: data.tobytes()}, info_text())
        assert main(["compare", host, path]) == 2 and "known only to" in capsys.readouterr().err
        assert main(["compare", host, path, "-c", "4"]) == 0 and "dequantized" in capsys.readouterr().out
    path = board(tmp_path, {OUTPUT: real.tobytes()}, info_text())
    assert main(["compare", host, path]) == 0
    path = board(tmp_path, {OUTPUT: STORED[:, :2].tobytes()}, info_text())
    assert main(["compare", host, path]) == 3 and "bytes do not fit int8" in capsys.readouterr().out


def test_horizons_stated_layout_moves_axes_of_one_length(tmp_path, capsys):
    """[1,4,4,4] fits as it is and transposed: model_info states the board's order of axes, and -m the host's."""
    m = Qdq(seed=5)
    weight = m.weight((4, 3, 1, 1))
    y = m.op("Conv", [m.quantize(m.input((1, 3, 4, 4))), weight])
    m.output(y)
    onnx.save(m.model(), tmp_path / "q.onnx")
    x = np.random.default_rng(6).uniform(-2, 3, (1, 3, 4, 4)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    host, model = str(tmp_path / "host"), ["-m", str(tmp_path / "q.onnx")]
    given = [*model, "-i", str(tmp_path / "x.npy")]
    assert main(["infer", *given, "--side", "reference", "-o", host]) == 0
    value = next(np.load(f) for f in Path(host).glob(f"{y}*.npy"))
    file = f"model_infer_output_0_{y}.bin"
    info = info_text("F32", (256, 64, 16, 4), "", y, (1, 4, 4, 4))
    nhwc, nchw = (f"{info}\ntensor layout: HB_DNN_LAYOUT_{layout}" for layout in ("NHWC", "NCHW"))
    moved = np.ascontiguousarray(value.transpose(0, 2, 3, 1)).tobytes()
    path = board(tmp_path, {file: moved}, nhwc)
    for command in (["compare", host, path, "--outputs-only", *model], ["-m", f"{tmp_path}/q.onnx,{path}", *given[2:]]):
        assert main(command) == 0
        assert "NHWC to NCHW" in capsys.readouterr().out
    assert main(["compare", host, path]) == 3 and "fits as it is and transposed" in capsys.readouterr().out
    board(tmp_path, {file: moved}, nchw)
    assert main(["compare", host, path, "--outputs-only", *model]) == 1
    board(tmp_path, {file: value.tobytes()}, nchw)
    assert main(["compare", host, path, "--outputs-only", *model]) == 0


@pytest.mark.parametrize(
    ("more", "gate"), [([], "-c 5 (the default)"), (["--criteria", "horizon"], "-c 5 (of --criteria horizon)")]
)
def test_whose_decimals_are_too_fine_and_what_the_model_lacks(sized, tmp_path, more, gate, capsys):
    host, path, quant = sized
    assert main(["compare", host, path, *more]) == 2
    assert f"{gate}: the dump's values are known only to 4" in (shown := capsys.readouterr().err)
    assert "or -m, which has the exact scales" in shown
    assert main(["compare", host, path, "-m", quant, *more]) == 2
    assert gate in (shown := capsys.readouterr().err) and "-m has no scale of them" in shown


@pytest.fixture
def sized(tmp_path, digits):
    """A host's floats, the board's integers with a printed scale, and a model that has them as floats."""
    real = (np.arange(10, dtype=np.float32) * np.float32(0.0371)).reshape(1, 10)
    np.savez(tmp_path / "host.npz", prob=real)
    text = info_text("S16", (20, 2), "0.0371,", "prob", (1, 10))
    path = board(tmp_path, {"model_infer_output_0_prob.bin": np.arange(0, 1000, 100, np.int16).tobytes()}, text)
    return str(tmp_path / "host.npz"), path, str(digits / "digits_quant.onnx")


def test_horizon_sizes_that_fit_two_types(tmp_path, capsys):
    """64 int8 padded to 256 have as many bytes as 64 float32."""
    real = np.random.default_rng(3).standard_normal((1, 2, 2, 64)).astype(np.float32)
    np.savez(tmp_path / "a.npz", **{"/out/Conv:0": real})
    text = info_text("S8", (1024, 512, 256, 1), "0.5,", shape=(1, 2, 2, 64))
    path = board(tmp_path, {OUTPUT: real.tobytes()}, text)
    assert main(["compare", str(tmp_path / "a.npz"), path]) == 3 and "give --dtype" in capsys.readouterr().out
    assert main(["compare", str(tmp_path / "a.npz"), path, "--dtype", "float32"]) == 0


def test_horizon_text(host, tmp_path, capsys):
    name = OUTPUT.replace(".bin", ".txt")
    path = board(tmp_path, {name: " ".join(f"{v:.9f}" for v in REAL.reshape(-1)).encode()})
    assert main(["compare", host, path, "-c", "8"]) == 0 and "known to 9 decimals" in capsys.readouterr().out
    assert main(["compare", host, board(tmp_path, {name: b"1.0 nonsense"})]) == 2
    assert "byte 4: b'nonsense' is not a number" in capsys.readouterr().err


def test_horizon_names_that_disagree(host, tmp_path, capsys):
    path = board(tmp_path, {"model_infer_output_0_other.bin": REAL.tobytes()}, info_text("F32", (960, 320, 80, 4), ""))
    assert main(["compare", host, path]) == 3 and "its file says 'other'" in capsys.readouterr().out


def test_horizon_layers_of_names_with_dashes(tmp_path, capsys):
    np.savez(tmp_path / "a.npz", **{"b-output-0-c": REAL, "d": STORED})
    files = {
        "layer-3-Conv-a-output-0-b-output-0-c.bin": REAL.tobytes(),
        "layer-4-bpu-net-subgraph_0-output-1-d.bin": STORED.tobytes(),
        "layer-4-bpu-net-subgraph_0-input-0-d.bin": STORED.tobytes(),
    }
    path = board(tmp_path, files)
    assert main(["compare", str(tmp_path / "a.npz"), path, "--profile-b", "horizon"]) == 0
    assert "not verified on a board" in capsys.readouterr().out


def test_run_shs_own_dump_is_not_taken_for_horizons(host, tmp_path, capsys):
    path = board(tmp_path, {OUTPUT: REAL.tobytes(), "about.txt": b"qverify.dump/1\n"})
    assert main(["compare", host, path]) == 2 and "with -m model.bin a dump of run.sh" in capsys.readouterr().err


def test_spoiled_horizon(host, tmp_path):
    padded = np.pad(STORED, [(0, 0)] * 3 + [(0, 12)])
    text = " ".join(f"{v:.9f}" for v in REAL.reshape(-1)).encode()
    path = Path(board(tmp_path, {OUTPUT: padded.tobytes(), OUTPUT.replace(".bin", ".txt"): text}, info_text()))
    spoil("horizon", host, path, list(path.iterdir()))


def manual(root: Path, entries: list[dict], files: dict[str, np.ndarray], toml=True) -> Path:
    path = root / "manual"
    path.mkdir(exist_ok=True)
    for name, values in files.items():
        (path / name).write_bytes(values.tobytes())
    rows = ["\n".join(["[[tensor]]", *(f"{k} = {json.dumps(v)}" for k, v in e.items())]) for e in entries]
    (path / ("dump.toml" if toml else "dump.json")).write_text(
        "\n".join(rows) if toml else json.dumps({"tensor": entries})
    )
    return path


ENTRY = {"name": "/out/Conv:0", "file": "x.raw", "dtype": "float32", "shape": [1, 3, 4, 20]}


@pytest.mark.parametrize("toml", [True, False])
def test_generic_layout_padding_offset(host, tmp_path, toml):
    nhwc = np.ascontiguousarray(REAL.transpose(0, 2, 3, 1))
    padded = np.pad(nhwc, [(0, 0)] * 3 + [(0, 1)], constant_values=9)
    entry = ENTRY | {"shape": [1, 4, 20, 3], "aligned_shape": [1, 4, 20, 4], "layout": "NHWC", "offset": 960}
    path = manual(tmp_path, [entry], {"x.raw": np.concatenate([REAL.reshape(-1), padded.reshape(-1)])}, toml)
    assert main(["compare", host, str(path)]) == 0


@pytest.mark.parametrize("axis", [-1, 1])
def test_generic_scales(tmp_path, axis, capsys):
    scales = np.array([0.5, 0.25, 0.125], np.float32) if axis == 1 else np.float32(0.5)
    real = (STORED.astype(np.float32) - 3) * (scales.reshape(1, 3, 1, 1) if axis == 1 else scales)
    np.savez(tmp_path / "a.npz", **{"/out/Conv:0": real})
    entry = ENTRY | {"dtype": "int8", "scale": scales.tolist(), "zero_point": 3, "channel_axis": axis}
    assert main(["compare", str(tmp_path / "a.npz"), str(manual(tmp_path, [entry], {"x.raw": STORED}))]) == 0
    assert "dequantized" in capsys.readouterr().out
    nhwc = np.ascontiguousarray(STORED.transpose(0, 2, 3, 1))
    entry |= {"shape": [1, 4, 20, 3], "channel_axis": 3 if axis == 1 else -1}
    assert main(["compare", str(tmp_path / "a.npz"), str(manual(tmp_path, [entry], {"x.raw": nhwc}))]) == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"file": "../host.npz"},
        {"file": "/etc/passwd"},
        {"file": "link"},
        {"file": "gone"},
        {"dtype": "float31"},
        {"shape": [1, 3, 4, 21]},
        {"shape": [1, 3, 4]},
        {"shape": [-1, 3, 4, 20]},
        {"shape": [2**62, 2**62]},
        {"shape": "1,3"},
        {"aligned_shape": [1, 3, 4, 19]},
        {"layout": "CHWN"},
        {"scale": 0.5},
        {"zero_point": 3},
        {"colour": "red"},
        {"offset": 2**63},
        {"name": 7},
        {"dtype": "int8", "scale": [0.5, 0.5], "channel_axis": 1, "shape": [1, 3, 4, 80]},
        {"dtype": "int8", "scale": 0.0, "shape": [1, 3, 4, 80]},
    ],
)
def test_generic_manifests_that_are_wrong(host, tmp_path, wrong, capsys):
    path = manual(tmp_path, [ENTRY | wrong], {"x.raw": REAL})
    (path / "link").symlink_to(host)
    assert main(["compare", host, str(path)]) == 2
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1 and (
        "dump.toml: tensor 1" in shown or "leads out" in shown or "No such file" in shown
    )


def test_generic_twice_or_not_at_all(host, tmp_path, capsys):
    path = manual(tmp_path, [ENTRY, ENTRY], {"x.raw": REAL})
    assert main(["compare", host, str(path)]) == 2 and "two tensors of one name" in capsys.readouterr().err
    manual(tmp_path, [ENTRY], {}, toml=False)
    assert main(["compare", host, str(path)]) == 2 and "dump.toml and dump.json" in capsys.readouterr().err


def test_generic_there_and_missing(host, tmp_path, capsys):
    path = manual(tmp_path, [ENTRY], {"x.raw": REAL})
    manifest = path / "dump.toml"
    manifest.write_text(f"{manifest.read_text()}\n[missing]\n{json.dumps(ENTRY['name'])} = 'gone'\n")
    assert main(["compare", host, str(path)]) == 2
    assert "is listed as a tensor and as missing" in capsys.readouterr().err


def test_spoiled_generic(host, tmp_path):
    path = manual(
        tmp_path,
        [ENTRY, {"name": "s", "file": "s.raw", "dtype": "int8", "shape": [240], "scale": 0.5}],
        {"x.raw": REAL, "s.raw": STORED},
    )
    spoil("generic", host, path, list(path.iterdir()))
