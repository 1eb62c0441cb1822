"""The files of qverify infer: tensors by name, a description that other tools can read, stored or real values."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from qverify.cli.main import main
from qverify.sides.dumps.array_dump import open_array_dump
from qverify.sides.dumps.write_arrays import write_arrays
from qverify.tensors.file_names import MAX_STEM_LENGTH, file_stems
from qverify.tensors.recording import Recording
from qverify.tensors.spec import TensorSpec

HOSTILE = [
    "a/b",
    "a:b",
    "A/B",
    "../../etc/passwd",
    "..",
    "",
    "CON",
    "nul.x",
    "\0",
    "x\n",
    "-rf",
    "\udc80",
    "é",
    "w" * 500,
    "w" * 501,
]


def test_file_names_are_safe_distinct_and_bounded():
    stems = file_stems(HOSTILE)
    assert [*stems] == HOSTILE and len({s.lower() for s in stems.values()}) == len(HOSTILE)
    assert all(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", s) and len(s) <= MAX_STEM_LENGTH for s in stems.values()), (
        stems
    )
    assert stems["a/b"] == "a_b" and stems["CON"].startswith("CON-") and stems["nul.x"].startswith("nul.x-")


def test_a_name_that_looks_like_the_suffix_of_another_stays_distinct():
    second = file_stems(["a/b", "a:b"])["a:b"]
    stems = file_stems([second, "a/b", "a:b"])
    assert len(set(stems.values())) == 3 and stems[second] == second


def _recording(names: list[str]) -> Recording:
    specs = {n: TensorSpec(n, "int8", (2, 2), scale=(0.5, 0.25), zero_point=(1, -1), channel_axis=1) for n in names}
    values = {n: np.asfortranarray(np.arange(4, dtype=np.int8).reshape(2, 2)) + np.int8(i) for i, n in enumerate(names)}
    return Recording("simulator", "", specs=specs, finals=tuple(names), tensors=values, missing={"gone": "no reason"})


def test_hostile_names_stay_in_the_folder_and_come_back_exactly(tmp_path):
    names = [n for n in HOSTILE if n != "\udc80"]  # half a surrogate pair is refused in a manifest
    folder = tmp_path / "in" / "o"
    assert write_arrays(_recording(names), [], str(folder), [], False) == len(names)
    assert [f.name for f in tmp_path.iterdir()] == ["in"] and [f.name for f in folder.parent.iterdir()] == ["o"]
    read = open_array_dump(str(folder), "dump")
    assert sorted(read.tensors) == sorted(names)
    for at, name in enumerate(names):
        assert read.tensors[name].tolist() == [[at, 1 + at], [2 + at, 3 + at]]


def test_the_description_tells_raw_readers_where_the_elements_are(tmp_path):
    write_arrays(_recording(["a/b"]), [], str(tmp_path), [], False)
    held = json.loads((tmp_path / "dump.json").read_text())
    (entry,) = held["tensor"]
    assert entry == {
        **{"name": "a/b", "file": "a_b.npy", "dtype": "int8", "shape": [2, 2], "offset": entry["offset"]},
        **{"scale": [0.5, 0.25], "zero_point": [1, -1], "channel_axis": 1},
    }
    assert (tmp_path / "a_b.npy").read_bytes()[entry["offset"] :] == bytes(range(4))
    assert held["missing"] == {"gone": "no reason"}


def test_dequantized_are_real_values_without_a_scale(tmp_path):
    write_arrays(_recording(["y"]), [], str(tmp_path), [], True)
    value = np.load(tmp_path / "y.npy")
    assert value.dtype == np.float32 and value.tolist() == [[-0.5, 0.5], [0.5, 1.0]]
    (entry,) = json.loads((tmp_path / "dump.json").read_text())["tensor"]
    assert entry["dtype"] == "float32" and "scale" not in entry


@pytest.mark.parametrize("way", [["-m", "MODEL"], ["--profile-a", "generic"]], ids=["the model", "dump.json"])
def test_stored_and_real_values_agree_by_the_scales_of(way, digits, tmp_path, capsys):
    model, stored, real = str(digits / "digits_quant.onnx"), str(tmp_path / "stored"), str(tmp_path / "real")
    assert main(["infer", "-m", model, "-o", stored]) == 0
    assert main(["infer", "-m", model, "-o", real, "--dequantize"]) == 0
    assert {np.load(f).dtype for f in (tmp_path / "real").glob("*.npy")} == {np.dtype(np.float32)}
    assert main(["compare", stored, real]) == 3, "stored integers are not real values, nor wrong"
    said = capsys.readouterr().out
    assert "INCONCLUSIVE" in said and "uint8 without a scale, float32 on the other side: give -m quant.onnx" in said
    assert main(["compare", stored, real, *(model if w == "MODEL" else w for w in way)]) == 0
    shown = capsys.readouterr().out
    assert "8 of 8 tensors" in shown and "without a scale" not in shown


def test_a_dump_json_of_another_tool_is_not_replaced(digits, tmp_path, capsys):
    (tmp_path / "dump.json").write_text("{}")
    assert main(["infer", "-m", str(digits / "digits_quant.onnx"), "-o", str(tmp_path)]) == 2
    assert "not written by qverify infer" in capsys.readouterr().err
    assert [f.name for f in tmp_path.iterdir()] == ["dump.json"] and (tmp_path / "dump.json").read_text() == "{}"


def test_a_second_description_beside_it_is_ambiguous(digits, tmp_path, capsys):
    assert main(["infer", "-m", str(digits / "digits_quant.onnx"), "-o", str(tmp_path)]) == 0
    assert main(["compare", str(tmp_path), str(tmp_path)]) == 0
    (tmp_path / "dump.toml").write_text("")
    capsys.readouterr()
    assert main(["compare", str(tmp_path), str(tmp_path)]) == 2
    assert ".npy files beside a dump of generic" in capsys.readouterr().err


def test_a_float_onnx_is_run_by_onnxruntime_and_has_the_names_of_the_quantized_one(digits, tmp_path, capsys):
    model, x = str(digits / "digits_float.onnx"), tmp_path / "x.npy"
    np.save(x, np.random.default_rng(0).random((1, 1, 8, 8), np.float32))
    words = ["-i", str(x), "--side", "reference", "-o"]
    assert main(["infer", "-m", model, *words, str(tmp_path / "float")]) == 0
    assert main(["infer", "-m", str(digits / "digits_quant.onnx"), *words, str(tmp_path / "quant")]) == 0
    given, quantized = (np.load(tmp_path / side / "prob.npy") for side in ("float", "quant"))
    assert given.shape == quantized.shape and 0 < np.abs(given - quantized).max() < 0.05
    assert main(["infer", "-m", model, "-i", str(x), "-o", str(tmp_path / "none")]) == 2
    assert "--side reference runs it on onnxruntime" in capsys.readouterr().err
