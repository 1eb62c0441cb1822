"""The JSON of `polygraphy run --save-outputs`: read through the command line, spoiled, and beside both forms of a tensor."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from qverify.cli.main import main
from qverify.session.other_jobs.demo import write_example

from tests.plain.profile_fuzz import spoil

VALUES = {
    "conv1": np.random.default_rng(1).standard_normal((1, 3, 4, 5)).astype(np.float32),
    "scores": np.arange(6, dtype=np.int64).reshape(1, 6),
}


def array(value: np.ndarray, kind: str = "ndarray") -> dict[str, Any]:
    held = io.BytesIO()
    np.save(held, value)
    return {"array": base64.b64encode(held.getvalue()).decode(), "polygraphy_class": kind}


def iteration(tensors: dict[str, np.ndarray]) -> dict[str, Any]:
    outputs = {name: {"values": array(v), "polygraphy_class": "LazyArray"} for name, v in tensors.items()}
    return {"outputs": outputs, "runtime": 0.001, "runner_name": "r", "polygraphy_class": "IterationResult"}


def results(runs: dict[str, list[dict[str, np.ndarray]]]) -> dict[str, Any]:
    lst = [[name, [iteration(tensors) for tensors in iterations]] for name, iterations in runs.items()]
    return {"lst": lst, "polygraphy_class": "RunResults"}


def save(folder: Path, content: Any, name: str = "trt.json") -> str:
    (folder / name).write_text(json.dumps(content, indent=4))
    return str(folder / name)


@pytest.fixture
def host(tmp_path: Path) -> str:
    np.savez(tmp_path / "host.npz", **VALUES)
    return str(tmp_path / "host.npz")


def test_outputs_are_recognised_and_compared(host: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", host, save(tmp_path, results({"trt-runner-N0": [VALUES]}))]) == 0
    out = capsys.readouterr().out
    assert "2 of 2 tensors, 66 elements compared" in out and "bit-equal" in out
    assert "polygraphy: the outputs of trt-runner-N0, iteration 0" in out


def test_one_wrong_element_fails_and_a_missing_tensor_is_inconclusive(host: str, tmp_path: Path) -> None:
    wrong = VALUES["conv1"].copy()
    wrong[0, 2, 1, 0] += 0.001
    assert main(["compare", host, save(tmp_path, results({"r": [{**VALUES, "conv1": wrong}]}))]) == 1
    assert main(["compare", host, save(tmp_path, results({"r": [{"conv1": VALUES["conv1"]}]}))]) == 3


def test_a_runner_and_an_iteration_are_chosen(host: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = {**VALUES, "conv1": VALUES["conv1"] + 1}
    path = save(tmp_path, results({"trt-N0": [other, VALUES], "onnxrt-N0": [other]}))
    assert main(["compare", host, path]) == 2
    assert "2 runners (trt-N0, onnxrt-N0); say which with --side NAME" in capsys.readouterr().err
    assert main(["compare", host, path, "--side-b", "onnxrt"]) == 1
    assert main(["compare", host, path, "--side-b", "trt"]) == 1
    assert main(["compare", host, path, "--side-b", "trt", "--frame", "1"]) == 0
    assert main(["compare", host, path, "--side-b", "trt", "--frame", "2"]) == 2
    assert "2 iterations of trt-N0; --frame 2 asked for" in capsys.readouterr().err


def _tensor(content: dict[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = content["lst"][0][1][0]["outputs"]["conv1"]["values"]
    return values


REFUSED: dict[str, tuple[Any, str]] = {
    "a tensor of torch": (lambda c: _tensor(c).update(polygraphy_class="Tensor"), "a Tensor; wanted an ndarray"),
    "no base64": (lambda c: _tensor(c).update(array="*" * 40), "not base64"),
    "no array": (lambda c: _tensor(c).update(array=5), "wanted an ndarray"),
    "cut": (lambda c: _tensor(c).update(array=_tensor(c)["array"][:240]), "float32[1, 3, 4, 5] has 240"),
    "a pickle": (lambda c: _tensor(c).update(array(np.array([{}], object))), "only numbers"),
    "no outputs": (lambda c: c["lst"][0][1][0].pop("outputs"), "no outputs of r at iteration 0"),
    "no pair": (lambda c: c["lst"][0].append(1), "no RunResults of polygraphy"),
    "another class": (lambda c: c.update(polygraphy_class="Other"), "no RunResults of polygraphy"),
    "no run": (lambda c: c["lst"].clear(), "0 runners (none)"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_files_that_are_refused_in_one_line(
    kind: str, host: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = results({"r": [VALUES]})
    REFUSED[kind][0](content)
    assert main(["compare", host, save(tmp_path, content), "--profile-b", "polygraphy"]) == 2
    error = capsys.readouterr().err
    assert REFUSED[kind][1] in error and error.count("\n") == 1


def test_spoiled_files(host: str, tmp_path: Path) -> None:
    small = {"conv1": VALUES["conv1"][:, :1, :1], "scores": VALUES["scores"]}
    path = Path(save(tmp_path, results({"r": [small]})))
    spoil("polygraphy", host, path, [path])


@pytest.mark.parametrize("contradicts", [False, True])
def test_both_forms_of_a_quantized_tensor(
    contradicts: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--onnx-outputs mark all` gives the integers, their real values, and tensors inside nodes of the integer form."""
    monkeypatch.chdir(tmp_path)
    write_example(".")
    assert main(["infer", "-m", "digits_quant.onnx", "-o", "host"]) == 0
    assert main(["infer", "-m", "digits_quant.onnx", "-o", "real", "--dequantize"]) == 0
    names = json.loads(Path("host/manifest.json").read_text())["tensors"]
    tensors = {}
    for file, name in names.items():
        tensors[name] = np.load(f"host/{file}")
        real = np.load(f"real/{file}")
        tensors[name.replace("_QuantizeLinear_", "_DequantizeLinear_")] = real + contradicts * (name[:5] == "relu2")
    tensors["logits"] = tensors["logits_DequantizeLinear_Output"] + np.float32(1e-4)  # before it is quantized
    status = main(["compare", "host", save(tmp_path, results({"r": [tensors]})), "-m", "digits_quant.onnx"])
    out = capsys.readouterr().out
    if contradicts:
        assert status == 3 and "relu2_DequantizeLinear_Output contradict each other" in out
    else:
        assert status == 0 and "8 of 8 tensors" in out
    assert "1 tensor is in one dump only and not compared" in out and "logits" in out
