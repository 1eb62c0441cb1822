"""Mistakes with an engine on a board, and engines that answer oddly: one line that says what to type next."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper
from qverify.cli.main import main
from qverify.engines import driver_files
from qverify.errors import BadFileError
from qverify.sides import engine_answer
from qverify.sides.engine_answer import take_answer

ANSWER = {"engine": "e", "version": "1", "ledger": {}, "placement": [], "notes": []}


def start(folder: Path, *interpreter: str, network: str = "0") -> subprocess.CompletedProcess[str]:
    """Starts the driver of OpenVINO as on the engine's machine."""
    run = folder / "run"
    (run / "in").mkdir(parents=True)
    (run / "out").mkdir()
    for name, data in driver_files("openvino").items():
        (run / "in" / name).write_bytes(data)
    request = run / "in" / "request.json"
    content = {"model": "m.onnx", "inputs": [], "outputs": [], "taps": [], "out": ".", "options": {}, "files": {}}
    request.write_text(json.dumps(content))
    words = ["sh", str(run / "in" / "drive.sh"), network, *interpreter]
    words += [str(run / "in" / "drive.py"), "openvino", str(request)]
    return subprocess.run(words, cwd=run / "out", capture_output=True, text=True, check=False)


def program(folder: Path, text: str) -> Path:
    path = folder / "program"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("interpreter", "said"),
    [
        ("/nonexistent/python", "no such file"),
        ("/usr", "a folder"),
        ("/etc/passwd", "not executable"),
        ("./python", "a relative path"),
        ("no-such-python", "no such program in the PATH"),
    ],
)
def test_an_interpreter_that_cannot_be_started(interpreter: str, said: str, tmp_path: Path) -> None:
    ran = start(tmp_path, interpreter)
    assert ran.returncode == 127 and ran.stderr.count("\n") == 1
    assert ran.stderr.startswith(f"python={interpreter}: {said}") and "give python=PYTHON" in ran.stderr


@pytest.mark.parametrize(("flags", "lacks"), [(("-I", "-S"), "numpy"), ((), "openvino")])
def test_an_interpreter_that_lacks_a_package(flags: tuple[str, ...], lacks: str, tmp_path: Path) -> None:
    base = sys.executable if not flags else os.path.realpath(sys.executable)
    ran = start(tmp_path, base, *flags)
    assert ran.returncode != 0 and ran.stderr.count("\n") == 1
    assert f"no module {lacks} there; give python=PYTHON that has {lacks}" in ran.stderr
    assert ran.stderr.startswith(f"python={base}: ")


@pytest.mark.parametrize("network", ["0", "1"])
def test_home_and_temporary_files_are_of_the_run(network: str, tmp_path: Path) -> None:
    told = start(
        tmp_path, str(program(tmp_path, 'echo "$HOME $TMPDIR $TMP $TEMP"; touch "$TMPDIR/x"')), network=network
    )
    run = tmp_path / "run"
    assert told.stdout.split() == [str(run / "out"), *[str(run / "tmp")] * 3]
    assert (run / "tmp" / "x").exists()


@pytest.fixture
def model(digits: Path) -> str:
    return str(digits / "digits_quant.onnx")


def board(model: str, *words: str) -> int:
    return main(["-m", model, "-b", "local", "-r", "False", *words])


def test_the_line_is_the_reason(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert board(model, "--runtime", "openvino,python=/nonexistent/python") == 3
    assert "python=/nonexistent/python: no such file" in capsys.readouterr().out
    assert board(model, "--runtime", "openvino,python=") == 2
    assert "python=: no interpreter is named; wanted" in capsys.readouterr().err


def test_python_of_the_board_is_that_of_its_engine(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert board(model, "--runtime", "openvino", "--python", "/nonexistent/python") == 3
    assert "python=/nonexistent/python: no such file" in capsys.readouterr().out
    assert board(model, "--runtime", "openvino,python=a", "--python", "b") == 2
    assert "--python b and python=a each name the interpreter; give one" in capsys.readouterr().err
    assert board(model, "--runner", "true", "--python", "b") == 2
    assert "--python b: --runner takes no interpreter" in capsys.readouterr().err
    assert board(model, "--python", "b") == 2
    assert "--runtime NAME,python=COMMAND" in capsys.readouterr().err


def test_an_engine_without_an_answer_tells_its_last_line(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = f"openvino,python={program(tmp_path, 'echo begins; echo License expired')}"
    assert board(model, "--runtime", f"{engine},prefix=nice -n 1") == 3
    assert "left no new file; the last line of its output: License expired" in capsys.readouterr().out
    program(tmp_path, "echo waits for a licence; sleep 100")
    assert board(model, "--runtime", engine, "--timeout", "3") == 3
    assert "the last line of its output: waits for a licence" in capsys.readouterr().out


def test_a_pipe_in_place_of_the_tensors(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = f"rm -f tensors.npz; mkfifo tensors.npz; echo '{json.dumps(ANSWER)}' >answer.json"
    assert board(model, "--runtime", f"openvino,python={program(tmp_path, text)}") == 3
    out = capsys.readouterr().out
    assert "it left no tensors that can be read; not read: tensors.npz: not a regular file" in out
    assert "--profile NAME" not in out


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"placement": None}, "answer.json: placement: got nothing; wanted a list"),
        ({"placement": {}}, "answer.json: placement: got dict; wanted a list"),
        ({"placement": [3]}, "answer.json: an item of placement: got int; wanted an object"),
        ({"placement": [{}] * 9}, "answer.json: placement: got 9 items; wanted at most 8"),
        ({"notes": 3}, "answer.json: notes: got int; wanted a list"),
        ({"ledger": []}, "answer.json: ledger: got list; wanted an object"),
        ({"notes": ["x" * 900]}, "bytes; wanted at most 800"),
    ],
)
def test_odd_answers(change: dict[str, object], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_answer, "MAX_ITEMS", 8)
    monkeypatch.setattr(engine_answer, "MAX_BYTES", 800)
    content = {key: value for key, value in {**ANSWER, **change}.items() if value is not None}
    (tmp_path / "answer.json").write_text(json.dumps(content))
    with pytest.raises(BadFileError, match=said):
        take_answer("answer.json", str(tmp_path))


@pytest.mark.parametrize(
    ("engine", "start_of_file", "said"),
    [
        ("rknn", b"RKNN", "is Rockchip RKNN; the engine rknn takes an ONNX: leave other out"),
        ("openvino", b"", "is a model.bin of qverify compile; the engine openvino takes an ONNX or TensorFlow Lite"),
        ("tflm", b"\x01HEF", "is Hailo HEF; the engine tflm takes TensorFlow Lite"),
    ],
)
def test_a_file_that_the_engine_does_not_take(
    engine: str, start_of_file: bytes, said: str, model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other"
    if start_of_file:
        other.write_bytes(start_of_file + bytes(64))
    else:
        assert main(["compile", model, "-o", str(other)]) == 0
    never = program(tmp_path, f"touch {tmp_path}/started")
    assert board(f"{model},{other}", "--runtime", f"{engine},python={never}") == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "started").exists()


def test_the_same_file_twice_is_tied(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    again = tmp_path / "again.onnx"
    again.write_bytes(Path(model).read_bytes())
    board(f"{model},{again}", "--runner", "true {model} {npy} {out}")
    out = capsys.readouterr().out
    assert "again.onnx is tied to digits_quant.onnx by being the same bytes" in out and "nothing ties" not in out


def test_an_arithmetic_of_no_op_of_the_network(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stated = tmp_path / "o.toml"
    stated.write_text('format = 1\nname = "o"\n[op.conv_transpose]\nform = "half even"\nnodes = 1\nelements = 9\n')
    assert main(["-m", model, "-b", "local", "-r", "False", "--arithmetic", str(stated)]) in (0, 3)
    assert "arithmetic o holds for none of the network's ops" in capsys.readouterr().out


def test_identify_says_what_it_takes(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    array = tmp_path / "x.npy"
    np.save(array, np.zeros(3))
    assert main(["identify", str(array), "-m", model]) == 2
    assert "x.npy: one array; identify takes what a side computed of every node: a folder" in capsys.readouterr().err
    assert main(["identify", str(tmp_path), "-m", "no-model.onnx", "-o", "/nonexistent/a.toml"]) == 2
    assert "/nonexistent/a.toml: cannot be written" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("--with", "openvino"), 2, "--with openvino: it quantizes nothing by itself; wanted rknn or sophgo"),
        (("--with", "rknn,python=/nonexistent"), 3, "--with rknn: the runner ended with status 127: python=/nonexistent: no such"),
        (("--with", "rknn", "--from", "cfg"), 2, "--from and --with each say what quantizes; give one"),
    ],
)  # fmt: skip
def test_a_toolkit_that_cannot_quantize(
    words: tuple[str, ...], status: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in "xy"]
    made = helper.make_model(helper.make_graph(nodes, "net", ends[:1], ends[1:]), ir_version=8)
    made.opset_import[0].version = 17
    Path("float.onnx").write_bytes(made.SerializeToString())
    np.save("x.npy", np.ones((1, 4), np.float32))
    Path("cfg").touch()
    inputs = ["-i", "x.npy"] if "--from" not in words else []
    assert main(["quantize", "float.onnx", *words, *inputs, "-o", "quant.onnx"]) == status
    assert said in capsys.readouterr().err and not Path("quant.onnx").exists()
