"""qverify triage with a float model: its tensors are paired, and the one that quantization loses is named first."""

from __future__ import annotations

import shlex
from pathlib import Path

import jsonschema
import numpy as np
import onnx
import pytest
from PIL import Image
from qverify.cli.main import main
from qverify.report.schema import triage_schema

from tests.plain.triaged_models import PLANTED, float_model, quantized, run


@pytest.mark.parametrize("given", ["x.npy", "frames"])
def test_the_saturated_tensor_is_named_first_and_what_if_restores_the_output(
    models: Path, tmp_path: Path, given: str, capsys: pytest.CaptureFixture[str]
) -> None:
    gate = "float~reference=cosine:0.99"
    words = ("-m", f"{models}/float.onnx,{models}/bad.onnx", "-b", "local", "-i", models / given, "--gate", gate)
    status, found = run(tmp_path, *words)
    assert (status, found["broken"], found["rungs"][0]["kind"]) == (1, "float ~ reference", "few_clipped")
    jsonschema.validate(found, triage_schema())
    first = found["losses"][0]
    assert first["tensor"] == PLANTED and first["clipped"] > 0.3 and first["high"] < first["float_high"]
    assert [s["tensors"] for s in found["what_if"]["steps"]] == [[PLANTED]] and found["what_if"]["holds"]
    assert [r["verdict"] for r in found["rungs"][1:]] == ["PASSED", "PASSED"]
    assert f"next step: recalibrate {PLANTED}" in capsys.readouterr().out
    again = run(tmp_path, *words)[1]
    for one in (again, found):  # but for the spot check, which is of another tensor
        one["timings"], one["date"], one["notes"] = (
            {},
            "",
            [n for n in one["notes"] if not n.startswith("spot check: ")],
        )
    assert again == found


def test_tensors_of_other_names_pair_by_structure(models: Path, tmp_path: Path) -> None:
    float_model(tmp_path / "other.onnx", name="other_{}")
    words = (
        "-m",
        f"{tmp_path}/other.onnx,{models}/bad.onnx",
        "-i",
        models / "x.npy",
        "--gate",
        "float~reference=cosine:0.99",
    )
    status, found = run(tmp_path, *words)
    assert status == 1 and found["losses"][0]["tensor"] == f"other_{PLANTED}" and not found["unpaired"]
    assert {row["paired_by"] for row in found["losses"]} == {"name", "structure", "suffix"}


def test_qoperator_models_pair_too(models: Path, tmp_path: Path) -> None:
    from onnxruntime.quantization import QuantFormat

    quantized(models / "float.onnx", tmp_path / "qop.onnx", quant_format=QuantFormat.QOperator, per_channel=False)
    status, found = run(
        tmp_path, "-m", f"{models}/float.onnx,{tmp_path}/qop.onnx", "-i", models / "x.npy", "--loss", "always"
    )
    assert status == 0 and not found["unpaired"] and all(row["cosine"] > 0.99 for row in found["losses"])
    assert sum(row["weights_sqnr_db"] is not None for row in found["losses"]) == 4
    assert all(row["single"]["cosine"] > 0.999 for row in found["losses"])


def test_two_float_files_that_differ_name_the_first_node(models: Path, tmp_path: Path) -> None:
    float_model(tmp_path / "lost.onnx", bias=False)
    status, found = run(tmp_path, "-m", f"{models}/float.onnx,{tmp_path}/lost.onnx", "-i", models / "x.npy")
    rung = found["rungs"][0]
    assert (status, found["broken"], rung["first_divergence"]["tensor"]) == (1, "float ~ float2", "c2")
    assert rung["forced_failures"] == ["c2"]
    around = rung["neighbourhoods"][0]
    assert [(n["tensor"], n["mark"]) for n in around["above"]] == [("r1", "agree")]
    assert [(n["tensor"], n["mark"]) for n in around["below"]] == [("r2", "differ")]


def test_a_float_model_of_any_batch_takes_the_dims_of_the_quantized_one(models: Path, tmp_path: Path) -> None:
    model = onnx.load(models / "float.onnx")
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    onnx.save(model, tmp_path / "dynamic.onnx")
    words = ("-m", f"{tmp_path}/dynamic.onnx,{models}/bad.onnx", "-i", models / "x.npy", "--loss", "always")
    status, found = run(tmp_path, *words)
    assert status == 1 and found["losses"][0]["tensor"] == PLANTED


def test_stripped_ends_and_bytes_of_pictures_reach_the_float_model(models: Path, tmp_path: Path) -> None:
    quant, binary = models / "bad.onnx", tmp_path / "model.bin"
    given = {"--strip-io-quant": [], "--input": ["x=rgb,train=rgb,mean=127.5,scale=0.0078431373"]}
    for option, value in given.items():
        assert main(["compile", str(quant), "-o", str(binary), option, *value]) == 0
        words = ("-m", f"{models}/float.onnx,{quant},{binary}", "-b", "local", "--loss", "always")
        status, found = run(tmp_path, *words)
        assert (status, found["broken"], found["rungs"][0]["kind"]) == (
            3,
            None,
            "random",
        )  # of noise, nobody is accused
        assert found["losses"][0]["tensor"] == PLANTED
        assert not found["unpaired"]


def test_the_command_that_it_recommends_has_the_description_and_runs(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (folder := tmp_path / "pictures").mkdir()
    for number in range(2):
        noise = np.random.default_rng(number).normal(128, 40, (11, 13, 3)).clip(0, 255)
        Image.fromarray(noise.astype(np.uint8)).save(folder / f"{number}.png")
    table = ['format = "featuremap"', 'size = "13x11"', 'train = "rgb"', 'fit = "stretch"', "mean = 128", "std = 40"]
    (tmp_path / "in.toml").write_text("\n".join(["[inputs.x]", *table]))
    words = ("-m", f"{models}/float.onnx,{models}/bad.onnx", "-i", folder, "--description", "in.toml")
    status, found = run(tmp_path, *words, "--gate", "float~reference=cosine:0.99")
    command = found["next_step"].partition(": qverify ")[2]
    assert status == 1 and "--description in.toml" in command and "--int16" in command
    assert main(shlex.split(command)) == 0
    assert (tmp_path / "quant16.onnx").exists()
