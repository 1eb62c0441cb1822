"""A mistake of the command line ends in one line that says what to type next."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from qverify.cli.main import main
from qverify_agents.inventory import suggest_board

NAME = "relu2_QuantizeLinear_Output"


@pytest.fixture
def folder(digits: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns the working directory: q.onnx, case.npy, photo.png, an archive of arrays, a folder of pictures."""
    (tmp_path / "float.onnx").write_bytes((digits / "digits_float.onnx").read_bytes())
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
        ("compile q.onnx model.bin", "unexpected extra argument (model.bin); did you mean -o model.bin?"),
        ("compile q.onnx -o none/model.bin", "-o: there is no folder none; make it first"),
        ("compile q.onnx local", "unexpected extra argument (local)"),
        ("local -m q.onnx", "for a board: -b local"),
        ("root@10.0.0.5 -m q.onnx", "for a board: -b root@10.0.0.5"),
        ("-m q.onnx,case.npy -b local", "case.npy: this looks like a NumPy array"),
        (
            "-m q.onnx,case.npy -b local",
            "arrays are inputs: -i; what a device gave is a folder with NAME.npy, NAME that of the output",
        ),
        ("-m case.npz -b local", "arrays are inputs: -i"),
        ("-m q.onnx,photo.png -b local", "a PNG picture, not an ONNX or a model.bin of qverify compile; pictures"),
        ("-m q.onnx,pics -b local", "pics: a folder, not a model; -i takes a folder of inputs"),
        ("compile photo.png -o m.bin", "a PNG picture"),
        ("compile w.onnx -o m.bin", "w.onnx: No such file or directory; did you mean q.onnx?"),
        ("-m q.onnx,pics/q.onnx -b local", "pics/q.onnx: No such file or directory\n"),
        ("-m q.onnx -b local -i image:casse.npy", "casse.npy: no such file for input 'image'; did you mean case.npy?"),
        ("compile float.onnx -o m.bin", "Quantize it first: qverify quantize float.onnx -i PICTURES -o quant.onnx"),
        ("triage pics", "pics: no capture, as it has no capture.json; wanted what --capture DIR of a run wrote"),
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


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("extract pics -o x", "No such option '-o'; see qverify extract --help"),
        ("perf -b local", "Missing option '-m' / '--model'; see qverify perf --help"),
        ("compare pics", "no two sides of one run in it; wanted compare A B"),
        (
            "-m q.onnx -b local -s Tru",
            "; -s takes True, False or an engine (qverify boards runner list); did you mean True?",
        ),
        ("-m q.onnx -b local --simulator onxruntime_ep", "did you mean onnxruntime_ep?"),
        ("-m q.onnx -b local --runtime OpenVINO", "did you mean openvino?"),
        ("doctor x", "Got unexpected extra argument (x); see qverify doctor --help"),
        ("boards up", "Missing argument 'NAME'; see qverify boards up --help"),
        ("-m q.onnx -b", "Option '-b' requires an argument; see qverify verify --help"),
        ("triage q.onnx", "q.onnx: a file; wanted a folder of --capture DIR. Models are given by -m"),
        ("replay pics", "wanted a folder of --capture, or the one that qverify pack made"),
        ("compile model.bin -o m.bin", "model.bin: this is a model.bin, compiled already; wanted the ONNX"),
        ("-m net.so -b local", "net.so: this looks like a program or library (ELF)"),
        ("-m net.hef -b local", "net.hef: this looks like Hailo HEF"),
        ("-m net.espdl -b local", "net.espdl: a damaged .espdl: its contents have 0 bytes; copy or export it again"),
        (
            "-m q.onnx,net.dlc -b local",
            "(.dlc), not an ONNX or a model.bin of qverify compile; its tool runs it on the board",
        ),
        ("-m q.onnx,net.axmodel -b local", "--runner 'TOOL {model} {input} {out}'), and what it computed"),
        (
            "-m q.onnx,context.bin -b local",
            "a context binary of Qualcomm's QNN and Horizon's .bin are run by their tools",
        ),
        ("compile net.h5 -o m.bin", "net.h5: this looks like HDF5, as Keras writes it"),
        ("inspect q.onnx relu3", "no ONNX node 'relu3'; near it: relu1"),
        ("-m q.onnx -i q.onnx", "; a model: -m takes it"),
        ("-m q.onnx -i in.toml", "; a description of inputs: --description takes it"),
        ("-m q.onnx -i last.npy", "wanted float32[1, 1, 8, 8]; save array.transpose(0, 3, 1, 2)"),
        ("-m q.onnx -i *.npy", "*.npy: no such file for input 'image'; give the folder, or a list of files (.txt)"),
        (
            "-m q.onnx -i case.npy last.npy plane.npy",
            "; several files: -i takes their folder, or a list of them (.txt)",
        ),
        (
            "-m q.onnx -i case.npy,last.npy",
            "2 files for 1 model input ['image']; for a frame of each, give their folder",
        ),
        ("-m q.onnx -repeat 3", "; did you mean --repeat?"),
        ("triage -m q.onnx -b local -k False", "No such option '-k'; see qverify triage --help"),
        ("-m q.onnx -json x.json", "No such option '-j'; did you mean --json?"),
        (
            "-m q.onnx --description case.npy",
            "case.npy: not text; wanted a TOML or JSON file with tables [inputs.NAME]",
        ),
        ("-m q.onnx -i plane.npy", "wanted float32[1, 1, 8, 8]; save array[None].astype('float32')"),
        (
            "-m q.onnx -i clips.npy",
            "; 3 inputs of it in one array: save each one by itself (array[0:1] ...), or export",
        ),
    ],
)
def test_what_is_missing_or_of_another_kind_says_the_next_step(
    words: str, said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "model.bin").write_bytes(b"QVMODEL\0" + bytes(64))
    (folder / "net.so").write_bytes(b"\x7fELF" + bytes(64))
    (folder / "net.hef").write_bytes(b"\x01HEF" + bytes(64))
    (folder / "net.espdl").write_bytes(b"EDL2" + bytes(64))
    (folder / "net.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(64))
    (folder / "net.dlc").write_bytes(b"PK\x03\x04" + bytes(64))
    (folder / "net.axmodel").write_bytes(b"\xff\xff" + bytes(64))
    (folder / "context.bin").write_bytes(b"\xff\xff" + bytes(64))
    (folder / "in.toml").write_text("[inputs.image]\n")
    np.save(folder / "last.npy", np.zeros((1, 8, 8, 1), np.float32))
    np.save(folder / "plane.npy", np.zeros((1, 8, 8)))
    np.save(folder / "clips.npy", np.zeros((3, 1, 8, 8), np.float32))
    assert main(words.split()) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1, error


def test_a_blank_beside_a_comma_is_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-m", "q.onnx, case.bin"]) == 2
    assert capsys.readouterr().err.endswith("begins or ends with a blank: none beside the commas\n")


def test_a_shape_that_nothing_simple_cures_gets_no_hint(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for array in (np.zeros((1, 1, 8, 9), np.float32), np.zeros((1, 1, 8, 8), np.int32)):
        np.save(folder / "other.npy", array)
        assert main(["-m", "q.onnx", "-i", "other.npy"]) == 2
        assert capsys.readouterr().err.endswith("wanted float32[1, 1, 8, 8]\n")


def test_a_misspelt_board_is_asked_back(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "boards.toml").write_text('[boards.bench7]\nuri = "local"\n')
    monkeypatch.setenv("QVERIFY_BOARDS", str(folder / "boards.toml"))
    for typed, meant in (("lcoal", "local"), ("bnech7", "bench7")):
        assert suggest_board(typed) == meant
    assert suggest_board("10.0.0.5") == ""


def test_a_group_without_a_command_prints_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["boards"]) == 2
    assert capsys.readouterr().err.startswith("Usage: qverify boards ")
    assert main(["help", "boards", "up"]) == 0
    assert capsys.readouterr().out.startswith("Usage: qverify boards up ")
