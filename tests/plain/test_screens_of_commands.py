"""Commands on a terminal of 80 and of 120 columns: no line is wider, but for verdicts and commands to copy."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from qverify.cli.main import main

from tests.plain.test_live_progress import run_on_terminal

END = "=== the end of command"
RUN = f"""
import sys
from qverify.cli.main import main
for at, line in enumerate(sys.argv[1:]):
    main(line.split(chr(31)))
    print("{END}", at, flush=True)
"""
LONG = re.compile(r"next: |.* Strict check (PASSED|FAILED|INCONCLUSIVE)")  # whole, to be found and copied
FAULT = "faulty:local?fault=round_floor@relu2_QuantizeLinear_Output"
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
COMMANDS = (
    "--help",
    "verify --help",
    "inputs diff --help",
    "-m {quant},{model.bin} -b local -r True -v --all",
    "-m {quant},{model.bin} -b {fault} -i {case.npy} -r True -v",
    "triage -m {float},{quant},{model.bin} -b {fault} -i {case.npy} --explain 5",
    "perf -m {model.bin} -b local --runs 2",
    "inspect {quant}",
    "inspect {quant} relu2_QuantizeLinear_Output",
    "compare {host} {wrong} -m {model.bin}",
    "quantize {float} -i {case.npy} -o {made.onnx}",
    "doctor",
)


@pytest.fixture(scope="module")
def files(digits: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Returns paths by name: the models, a case, the folders of two sides' tensors."""
    folder = tmp_path_factory.mktemp("a_folder_with_a_name_that_takes_some_room")
    names = ("model.bin", "case.npy", "host", "wrong", "made.onnx")
    paths = {name: str(folder / name) for name in names}
    paths |= {kind: str(digits / f"digits_{kind}.onnx") for kind in ("float", "quant")}
    np.save(paths["case.npy"], np.load(digits / "digits.npz")["digit_3"])
    assert main(["compile", paths["quant"], "-o", paths["model.bin"]]) == 0
    for name, side in (("host", ["reference"]), ("wrong", ["board", "-b", FAULT])):
        words = ["infer", "-m", f"{paths['quant']},{paths['model.bin']}", "-i", paths["case.npy"], "-o", paths[name]]
        assert main([*words, "--side", *side]) == 0
    return paths


@pytest.fixture(scope="module", params=[80, 120])
def screens(request: pytest.FixtureRequest, files: dict[str, str]) -> tuple[int, dict[str, str]]:
    """Returns the columns of a terminal and what it shows of each of COMMANDS; one process runs them all."""
    named = {**files, "fault": FAULT}
    filled = [re.sub(r"\{(.*?)\}", lambda m: named[m[1]], words.replace(" ", "\x1f")) for words in COMMANDS]
    shown, _ = run_on_terminal(RUN, True, *filled, columns=request.param)
    parts = re.split(f"{END} \\d+\r?\n", shown)
    assert len(parts) == len(COMMANDS) + 1, shown[-2000:]
    return request.param, dict(zip(COMMANDS, parts, strict=False))


@pytest.mark.parametrize("words", COMMANDS)
def test_no_line_is_wider_than_the_terminal(words: str, screens: tuple[int, dict[str, str]]) -> None:
    columns, shown = screens
    lines = [COLOUR.sub("", line).split("\r")[-1].removeprefix("\x1b[K") for line in shown[words].split("\n")]
    assert len(lines) > 2 and "Traceback" not in shown[words]
    assert not [line for line in lines if len(line) > columns and not LONG.match(line)]


def test_of_two_dumps_only_outputs_are_asked_for_their_largest_values(files: dict[str, str], capsys) -> None:
    assert main(["compare", files["host"], files["wrong"], "-m", files["model.bin"]]) == 1
    printed = capsys.readouterr().out
    assert "prob: arg-max agrees" in printed and printed.count("arg-max") == 1
    assert "location unknown" not in printed and "cause: node" in printed and "\nblame: B at " in printed


def test_inspect_lists_the_opsets_that_nodes_are_of(files: dict[str, str], capsys) -> None:
    assert main(["quantize", files["float"], "-i", files["case.npy"], "-o", files["made.onnx"]]) == 0
    assert main(["inspect", files["made.onnx"]]) == 0
    assert re.search(r"^opset: ai\.onnx \d+$", capsys.readouterr().out, re.MULTILINE)


def test_experiments_that_confirm_are_one_line_unless_all_are_asked_for(files: dict[str, str], capsys) -> None:
    words = ["triage", "-m", f"{files['quant']},{files['model.bin']}", "-b", FAULT, "-i", files["case.npy"]]
    assert main(words) == 1
    short = capsys.readouterr().out
    assert main([*words, "--all"]) == 1
    whole = capsys.readouterr().out
    numbered = re.findall(r"^  experiment \d+, ", whole, re.MULTILINE)
    assert "EXPLAINED" in short and "  experiment 1" not in short and len(numbered) > 3
    assert re.search(
        r"^  \d+ experiments, each of them different from a healthy board: \d+ causes", short, re.MULTILINE
    )


def test_a_picture_in_the_place_of_what_was_captured(tmp_path: Path, capsys) -> None:
    image = pytest.importorskip("PIL.Image", reason="pictures need Pillow")
    pixels = np.arange(64, dtype=np.uint8).reshape(8, 8)
    picture, captured = str(tmp_path / "p.png"), str(tmp_path / "c.bin")
    image.fromarray(pixels).save(picture)
    pixels.tofile(captured)
    words = ["inputs", "diff", "--format", "gray", "--size", "8x8", "--seconds", "2"]
    assert main([*words, captured, picture]) == 1
    assert f"if A and B are exchanged: qverify inputs diff {picture} {captured}" in capsys.readouterr().out
    assert main([*words, picture, captured]) == 0
    assert "exchanged" not in capsys.readouterr().out


def test_doctor_counts_what_is_right_and_lists_what_is_not(capsys, monkeypatch) -> None:
    assert main(["doctor"]) == 0
    printed = capsys.readouterr().out
    assert re.match(r"ok     \d+ of \d+ kernels of onnxruntime \S+ compute known values\n", printed)
    found = {"checked": ["a", "b u8s8"], "failing": ["b u8s8"], "engine": "onnxruntime"}
    monkeypatch.setattr("qverify.onnx_model.canary.run_canaries", lambda use_cache: found)
    assert main(["doctor"]) == 0
    printed = capsys.readouterr().out
    assert "ok     1 of 2 kernels" in printed and "onnxruntime's own products of uint8 by int8 saturate here" in printed
    found = {"checked": ["a", "b", "c"], "failing": ["b"], "engine": "onnxruntime"}
    monkeypatch.setattr("qverify.onnx_model.canary.run_canaries", lambda use_cache: found)  # no kernel here errs
    assert main(["doctor"]) == 1
    first, second = capsys.readouterr().out.splitlines()[:2]
    assert first.startswith("FAILED b on onnxruntime") and second.startswith("FAILED 2 of 3 kernels")
