"""A mistake of the command line ends in one line that says what to type next."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from qverify.cli.main import main

NAME = "relu2_QuantizeLinear_Output"


@pytest.fixture
def folder(digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns the working directory: q.onnx, case.npy, photo.png, an archive of arrays, a folder of pictures."""
    (tmp_path / "q.onnx").write_bytes((digits / "digits_quant.onnx").read_bytes())
    np.save(tmp_path / "case.npy", np.zeros((1, 1, 8, 8), np.float32))
    np.savez(tmp_path / "case.npz", image=np.zeros(4))
    (tmp_path / "photo.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(64))
    (tmp_path / "model.tflite").write_bytes(b"\x1c\x00\x00\x00TFL3" + bytes(64))
    (tmp_path / "pics").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("-m q.onnx local", "(local); did you mean -b local?"),
        ("-m q.onnx local case.npy", "did you mean -b local?"),
        ("-m q.onnx 10.0.0.5", "did you mean -b 10.0.0.5?"),
        ("-m q.onnx root@board", "did you mean -b root@board?"),
        ("-m q.onnx desk", "did you mean -b desk?"),
        ("-m q.onnx -b local case.npy", "did you mean -i case.npy?"),
        ("-m q.onnx -b local pics", "did you mean -i pics?"),
        ("-m q.onnx -b local q.bin", "did you mean -m q.bin?"),
        ("compile q.onnx local", "unexpected extra argument (local)"),
        ("local -m q.onnx", "for a board: -b local"),
        ("root@10.0.0.5 -m q.onnx", "for a board: -b root@10.0.0.5"),
        ("-m q.onnx,case.npy -b local", "case.npy: this looks like a NumPy array"),
        ("-m q.onnx,case.npy -b local", "arrays are inputs: -i; two dumps of tensors are compared by qverify compare"),
        ("-m case.npz -b local", "arrays are inputs: -i"),
        ("-m q.onnx,photo.png -b local", "a PNG picture, not an ONNX or a model.bin of qverify compile; pictures"),
        ("-m q.onnx,pics -b local", "pics: a folder, not a model; -i takes a folder of inputs"),
        ("compile photo.png -o m.bin", "a PNG picture"),
        ("compile model.tflite -o m.bin", "a damaged .tflite: no subgraph"),
        ("-m q.onnx -b faulty:local?fault=bitflip@relu2", f"no node 'relu2'; did you mean {NAME}?"),
        ("-m q.onnx -b faulty:finals:local?fault=nan@Relu2_QuantizeLinear_Outptu", f"did you mean {NAME}"),
        (f"-m q.onnx -b faulty:local?fault=nan@{NAME}|bitflip@pool", "did you mean pool1_QuantizeLinear_Output?"),
        ("perf -m q.onnx -b faulty:local?fault=bitflip@zzz", "no node 'zzz'; `qverify inspect"),
    ],
)
def test_a_mistake_says_what_to_type(words: str, said: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words.split()) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1, error


@pytest.mark.skipif(os.name == "nt", reason="COM3 is a serial port there")
@pytest.mark.parametrize("port", ["COM3", "com3"])
def test_a_serial_port_of_windows(port: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-m", "q.onnx", "-b", port]) == 3
    said = capsys.readouterr().out
    assert f"{port}: a serial port of Windows; on this system a serial board is -b serial:///dev/ttyUSB0" in said


def test_extra_words_get_no_option_that_the_command_lacks(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", "q.onnx", "local"]) == 2
    assert "did you mean" not in capsys.readouterr().err
