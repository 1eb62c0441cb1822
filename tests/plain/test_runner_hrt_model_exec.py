"""Horizon's tool as a runner, against a stand-in that writes what the public documents say (synthetic)."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from qverify.cli.main import main
from qverify.engines import CommandReply, RunnerInput, RunnerRequest
from qverify.engines import hrt_model_exec as page
from qverify.tensors.spec import TensorSpec

from tests.plain.hrt_stand_in import model_file

TOOL = Path(__file__).with_name("hrt_stand_in.py")
ALL = "Quanti.onnx and Arm result Strict check "


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory, digits: Path) -> dict[str, np.ndarray]:  # type: ignore[type-arg]
    folder = tmp_path_factory.mktemp("golden") / "dump"
    assert main(["infer", "-m", str(digits / "digits_quant.onnx"), "--side", "simulator", "-o", str(folder)]) == 0
    names = json.loads((folder / "manifest.json").read_text())["tensors"]
    return {name: np.load(folder / file) for file, name in names.items()}


class Chip:
    """A board whose hrt_model_exec is the stand-in, in its folder, and its model file."""

    def __init__(self, folder: Path, onnx: Path, tensors: dict[str, np.ndarray]):  # type: ignore[type-arg]
        self.onnx, self.bin, self.tool = onnx, folder / "model.hbm", folder / "hrt_model_exec"
        self.tool.write_text(f'#!/bin/sh\nexec {sys.executable} {TOOL} "$@"\n')
        self.tool.chmod(0o755)
        self.tensors = tensors
        self.image = np.load(folder / "image.npy")
        self.write()

    def write(self, aligned: tuple[int, ...] = (1, 10)) -> None:
        model_file(self.bin, {"image": self.image}, self.tensors, {"prob": aligned})

    def __call__(self, *words: str, board: str = "local", **environment: str) -> int:
        more = [w for name, value in environment.items() for w in ("--runner-option", f"environment={name}={value}")]
        given = ["--runtime", "hrt_model_exec", "--runner-option", f"program={self.tool}", *more, *words]
        return main(["-m", f"{self.onnx},{self.bin}", "-b", board, *given])


@pytest.fixture
def chip(tmp_path: Path, digits: Path, golden: dict[str, np.ndarray]) -> Chip:  # type: ignore[type-arg]
    """The image is the random input of seed 0, as bytes."""
    from qverify.inputs.sources import InputRequest, prepared_inputs
    from qverify.session.models import open_models

    prepared = prepared_inputs(open_models([str(digits / "digits_quant.onnx")]).graph, InputRequest())
    np.save(tmp_path / "image.npy", prepared.inputs[0].array())
    return Chip(tmp_path, digits / "digits_quant.onnx", golden)


def arm(capsys: pytest.CaptureFixture[str]) -> str:
    return next(line for line in capsys.readouterr().out.splitlines() if line.startswith(ALL))


@pytest.mark.parametrize("build", ["new", "old"])
def test_final_outputs_and_nodes(chip: Chip, build: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert chip(HRT_BUILD=build) == 0
    assert f"{ALL}PASSED (final outputs only" in capsys.readouterr().out
    assert chip("-r", HRT_BUILD=build) == 0
    assert f"{ALL}PASSED (nothing ties model.hbm" in capsys.readouterr().out
    assert chip("-r", HRT_BUILD=build, HRT_SPOIL="pool1_QuantizeLinear_Output") == 1
    assert "pool1_QuantizeLinear_Output" in arm(capsys)
    assert chip(HRT_BUILD=build, HRT_SPOIL="prob") == 1


def test_outputs_that_only_a_run_without_dumps_has_wrong(
    chip: Chip, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "R.json"
    assert chip("-r", "--json", str(out)) == 0
    pair = next(p for p in json.loads(out.read_text())["pairs"] if p["b"] == "board")
    assert pair["untapped"]["changed"] == 0 and pair["untapped"]["elements"] == 10
    assert "\ntaps changed the outputs: no\n" in capsys.readouterr().out
    assert chip("-r", "--json", str(out), HRT_SPOIL_WITHOUT_DUMPS="prob") == 1
    pair = next(p for p in json.loads(out.read_text())["pairs"] if p["b"] == "board")
    assert pair["cause"] == "untapped" and pair["untapped"]["changed"] > 0
    assert chip("--json", str(out)) == 0  # no dumps are requested
    assert all(p["untapped"] is None for p in json.loads(out.read_text())["pairs"])
    explicit = ("--runner-option", "dump_intermediate=1")
    assert chip("-r", *explicit, "--json", str(out), HRT_SPOIL_WITHOUT_DUMPS="prob") == 0  # the same command
    assert all(p["untapped"] is None for p in json.loads(out.read_text())["pairs"])


def test_padding_is_cut_by_what_model_info_states(chip: Chip, capsys: pytest.CaptureFixture[str]) -> None:
    chip.write((1, 32))
    assert chip() == 0 and chip("--runner-option", "remove_padding_process=true") == 0
    assert chip(HRT_SPOIL="prob") == 1


def test_texts_are_judged_to_the_digits_they_have(
    chip: Chip, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--runner-option", "dump_format=txt", "--runner-option", "dump_precision=4")
    assert chip(*words) == 3  # as compare refuses it
    assert "known only to 4 decimals, and nothing finer can be judged: print more, or give -c 4 or less" in arm(capsys)
    assert chip(*words, HRT_SPOIL="prob") == 1
    words = (*words, "-c", "4")
    assert chip(*words) == 0
    assert "judged to 4 decimals" in arm(capsys)
    assert chip(*words, "--json", str(tmp_path / "R.json")) == 0
    pairs = json.loads((tmp_path / "R.json").read_text())["pairs"]
    assert [p["bit_equal"] for p in pairs] == [True, False, False]
    assert chip("--runner-option", "hybrid_dequantize_process=true", HRT_BUILD="old") == 0


def test_perf_is_measured_after_infer(chip: Chip, tmp_path: Path) -> None:
    options = {"perf": "1", "thread_num": "2", "frame_count": "50", "profile_path": "{out}", "core_id": "1"}
    words = [w for k, v in options.items() for w in ("--runner-option", f"{k}={v}")]
    assert chip(*words, "--json", str(tmp_path / "R.json")) == 0
    board = json.loads((tmp_path / "R.json").read_text())["sides"][-1]
    assert board["settings"]["measured_s"] == pytest.approx(0.004003106)
    assert board["engine"] == "hrt_model_exec" and board["version"] == "1.24.5_(3.15.55 HBRT)"


@pytest.mark.parametrize(
    ("fault", "status", "said"),
    [
        ("error", 3, "the runner ended with status 0, but says: [E][DNN] infer failed, error code:-6000006"),
        ("no_output", 3, "left no new file"),
        (
            "packed",
            2,
            "the board's model file has 2 models: stand_in, another; give --runner-option model_name=stand_in",
        ),
        ("other_input", 2, "aligned byte size"),
    ],
)
def test_what_goes_wrong_is_one_line(
    chip: Chip, fault: str, status: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert chip(HRT_FAULT=fault) == status
    shown = capsys.readouterr()
    assert said in (shown.err if status == 2 else shown.out) and f"{ALL}PASSED" not in shown.out


def test_a_packed_model_is_named(chip: Chip) -> None:
    assert chip("--runner-option", "model_name=stand_in", HRT_FAULT="packed") == 0


def test_a_model_or_a_tool_that_is_not_there(chip: Chip, capsys: pytest.CaptureFixture[str]) -> None:
    chip.bin.write_bytes(b"no such model")
    assert chip() == 3 and "the board cannot open the model (status 1): [E][DNN] load model failed" in arm(capsys)
    chip.tool.unlink()
    assert chip() == 3 and "no help of hrt_model_exec (status 127" in arm(capsys)


def test_an_option_that_the_build_lacks_is_refused(chip: Chip, capsys: pytest.CaptureFixture[str]) -> None:
    assert chip("--runner-option", "remove_padding_process=true", HRT_BUILD="old") == 2
    assert "the hrt_model_exec of this board has no such option" in capsys.readouterr().err


def test_inputs_go_in_the_order_of_the_boards_model() -> None:
    info = "".join(
        f"{kind}[{i}]: \nname: {name}\nvalid shape: (1,4,)\naligned byte size: 16\ntensor type: HB_DNN_TENSOR_TYPE_F32\n\n"
        for kind, i, name in (("input", 0, "b/x"), ("input", 1, "a"), ("output", 0, "y"))
    )
    answers = {"-h": "--model_file --input_file --enable_dump --dump_path", "model_info": f"[model name]: m\n\n{info}"}

    def ask(line: str) -> CommandReply:
        return CommandReply(0, answers[line.split()[1]])

    def _unused(name: str, data: bytes) -> str:
        raise AssertionError(name)

    inputs = tuple(RunnerInput(TensorSpec(n, "float32", (1, 4)), f"/in/{n[0]}.bin", "") for n in ("a", "b/x"))
    request = RunnerRequest(
        "/m", "m.bin", inputs, (TensorSpec("y", "float32", (1, 4)),), "/out", {}, False, {}, "", ask, _unused
    )
    assert "--input_file=/in/b.bin,/in/a.bin" in page.plan(request).line
    other = (inputs[0], RunnerInput(TensorSpec("c", "float32", (1, 4)), "/in/c.bin", ""))
    with pytest.raises(Exception, match="which is which is not certain"):
        page.plan(RunnerRequest("/m", "m", other, request.outputs, "/out", {}, False, {}, "", ask, _unused))
