"""--reference-python: another interpreter takes part in the spread; what lies, hangs or breaks is one line, and nothing of it stays."""

from __future__ import annotations

import ast
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from jsonschema import Draft202012Validator
from qverify.cli.main import main
from qverify.report.schema import report_schema
from qverify.report.spread import SpreadRun, combine_runs
from qverify.sides.reference_variants import other_interpreter
from qverify.sides.reference_variants.run_variants import distance
from qverify.tensors.spec import TensorSpec

HONEST = other_interpreter.PROGRAM.read_text().replace("del sys.path[0]", "")
NEVER = "import time; time.sleep(600)"
SAYS = """
import json, os, sys, time
import numpy as np
folder = sys.argv[2]
job = json.load(open(os.path.join(folder, "job.json")))
def ran(**more):
    json.dump({"onnxruntime": "1", "python": "3", "machine": "m", **more}, open(os.path.join(folder, "ran.json"), "w"))
def put(number, data):
    open(os.path.join(folder, f"part{number}"), "wb").write(data)
    os.replace(os.path.join(folder, f"part{number}"), os.path.join(folder, f"run-{number}.npz"))
"""
SPOIL = """
write_honest = write
def write(path, values):
    {spoil}
    write_honest(path, values)
"""


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where scratch folders are made; empty before and after."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def program(tmp_path: Path, text: str) -> str:
    """A command that runs this instead of ours."""
    path = tmp_path / "foreign.py"
    path.write_text(text)
    return f"{sys.executable} {path}"


def spoiling(spoil: str) -> str:
    """Ours, but for what becomes of `values`. The first word after the program is our own program's path."""
    head, tail = HONEST.split('if __name__ == "__main__":')
    return (
        head + SPOIL.format(spoil=spoil) + '\nif __name__ == "__main__":' + tail.replace("sys.argv[1]", "sys.argv[2]")
    )


def run(digits: Path, *words: str) -> int:
    return main(["-m", str(digits / "digits_quant.onnx"), "-b", "local", *words])


def processes_with(text: str) -> list[str]:
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != os.getpid():
            try:
                line = Path("/proc", entry, "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            found += [line] if text in line else []
    return found


def test_our_own_interpreter_as_a_foreign_one(digits, tmp_path, scratch, capsys):
    words = ["-r", "--reference-spread", "--json", str(tmp_path / "r.json")]
    assert run(digits, *words) == 0
    alone = json.loads((tmp_path / "r.json").read_text())
    assert "kernels of other architectures were not run; --reference-python" in capsys.readouterr().out
    command = f"env QVERIFY_X=1 {sys.executable}"
    assert run(digits, *words, "--reference-python", command, "--reference-python", sys.executable) == 0
    held = json.loads((tmp_path / "r.json").read_text())
    Draft202012Validator(report_schema()).validate(held)
    own, *others = held["reference_spread"]
    assert [own["command"], *(o["command"] for o in others)] == ["", command, sys.executable]
    same = ("onnxruntime", "python", "machine", "runs", "tensors", "differing", "max_abs", "max_lsb", "widest")
    assert all({k: o[k] for k in same} == {k: own[k] for k in same} for o in others)
    assert sum("ran it as well" in note for note in held["notes"]) == 2
    rows, before = ({r["name"]: r for r in h["pairs"][0]["tensors"]} for h in (held, alone))
    assert all(r["reference_spread"] == before[n]["reference_spread"] for n, r in rows.items())
    assert all(r["reference_spread_by"].startswith(f"onnxruntime {own['onnxruntime']} on ") for r in rows.values())
    assert list(scratch.iterdir()) == []


def test_named_by_the_environment(digits, scratch, monkeypatch, capsys):
    monkeypatch.setenv("QVERIFY_REFERENCE_PYTHON", sys.executable)
    assert run(digits, "--reference-spread") == 0
    assert "ran it as well" in capsys.readouterr().out
    assert run(digits) == 0
    assert "reference spread" not in capsys.readouterr().out


def test_a_wider_one_is_named_beside_the_tensor(digits, tmp_path, scratch, capsys):
    """Every tensor of this onnxruntime is off by 3."""
    lies = spoiling("values = [v + v.dtype.type(3) for v in values]").replace("ort.__version__,", "'9.9',")
    words = ["--reference-spread", "--reference-python", program(tmp_path, lies)]
    board = "faulty:local?fault=plus_one@relu2_QuantizeLinear_Output"
    words += ["-r", "--json", str(tmp_path / "r.json")]
    status = main(["-m", str(digits / "digits_quant.onnx"), "-b", board, *words])
    held = json.loads((tmp_path / "r.json").read_text())
    foreign = held["reference_spread"][1]
    assert (status, foreign["onnxruntime"], foreign["differing"]) == (1, "9.9", foreign["tensors"])
    assert 253 >= foreign["max_lsb"] >= 3
    row = next(r for r in held["pairs"][1]["tensors"] if r["name"] == "relu2_QuantizeLinear_Output")
    assert row["reference_spread_by"].startswith("onnxruntime 9.9 on") and row["reference_spread"] >= row["max_abs"] > 0


def test_many_frames_are_one_row_an_interpreter(digits, tmp_path, scratch):
    frames = tmp_path / "frames"
    frames.mkdir()
    for number in range(3):
        np.save(frames / f"{number}.npy", np.random.default_rng(number).random((1, 1, 8, 8), np.float32))
    words = ["--reference-spread", "--reference-python", sys.executable, "-i", str(frames)]
    assert run(digits, *words, "--json", str(tmp_path / "r.json")) == 0
    rows = json.loads((tmp_path / "r.json").read_text())["reference_spread"]
    assert [r["runs"] for r in rows] == [27, 27] and list(scratch.iterdir()) == []


LIES = {
    "ends": ("sys.exit('the disk burns')", "before run 1 of 9: the disk burns"),
    "ends silently": ("", "ended with status 0 before run 1 of 9"),
    "killed": ("os.kill(os.getpid(), 11)", "ended with signal 11"),
    "nothing in it": ("ran(); put(0, b'')", "run-0.npz cannot be read"),
    "garbage": ("ran(); put(0, os.urandom(5000))", "run-0.npz cannot be read"),
    "a pipe": ("ran(); os.mkfifo(os.path.join(folder, 'run-0.npz')); time.sleep(600)", "not a regular file"),
    "a folder": ("ran(); os.mkdir(os.path.join(folder, 'run-0.npz')); time.sleep(600)", "Is a directory"),
    "a link": ("ran(); os.symlink('/dev/zero', os.path.join(folder, 'run-0.npz')); time.sleep(600)", "run-0.npz"),
    "a longer file": ("ran(); put(0, bytes(1 << 23))", "run-0.npz cannot be read"),
    "a flood": ("ran()\nwith open(os.path.join(folder, 'x'), 'wb') as f:\n  while True: f.write(bytes(1 << 20)); time.sleep(.002)", "writes more than"),
    "a flood of words": ("while True: sys.stdout.write('x' * 1000000); time.sleep(.002)", "writes more than"),
    "late": ("ran(); time.sleep(600)", "no run 1 of 9 within 2 s; --reference-timeout"),
    "an escape": ("sys.exit('a\\x1b[31mb')", "a?[31mb"),
}  # fmt: skip


@pytest.mark.parametrize("kind", LIES)
def test_what_gives_no_results_is_one_line(kind, digits, tmp_path, scratch, capsys):
    text, said = LIES[kind]
    refused(digits, program(tmp_path, SAYS + text), said, scratch, capsys)


SPOILT = {
    "shape": ("values[0] = values[0][..., :-1]", "the reference's uint8["),
    "type": ("values[0] = values[0].astype(np.int16)", "is int16"),
    "one less": ("values.pop()", "contains 7 arrays, not the 8 asked for"),
    "one more": ("values.append(values[0])", "contains 9 arrays, not the 8 asked for"),
    "NaN": ("values = [v * np.float32('nan') if v.dtype == np.float32 else v for v in values]", "is NaN or Inf where"),
    "Inf": ("values = [v * np.float32('inf') if v.dtype == np.float32 else v for v in values]", "is NaN or Inf where"),
    "objects": ("values[0] = np.array([{}], object)", "run-0.npz cannot be read"),
    "large": ("values[0] = np.zeros(10_000_000, np.uint8)", "run-0.npz"),
    "no versions": ("os.unlink(os.path.join(os.path.dirname(path), 'ran.json'))", "ran.json does not state"),
    "versions of another kind": (
        "open(os.path.join(os.path.dirname(path), 'ran.json'), 'w').write('{\"onnxruntime\": [1]}')",
        "ran.json does not state",
    ),
}


@pytest.mark.parametrize("kind", SPOILT)
def test_results_unlike_ours_are_refused(kind, digits, tmp_path, scratch, capsys):
    spoil, said = SPOILT[kind]
    if kind == "no versions":
        spoil = "p = os.path.join(os.path.dirname(path), 'ran.json'); os.path.exists(p) and os.unlink(p)"
    refused(digits, program(tmp_path, spoiling(spoil)), said, scratch, capsys)


def refused(digits: Path, command: str, said: str, scratch: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A command that never answers is given 2 s; whatever fails by itself may take longer on a busy machine."""
    seconds = "2" if "within 2 s" in said else "60"
    status = run(digits, "--reference-spread", "--reference-timeout", seconds, "--reference-python", command)
    error = capsys.readouterr().err
    assert status == 2, error
    assert error.startswith("qverify: --reference-python '") and said in error and error.count("\n") == 1
    assert str(scratch) not in error
    assert list(scratch.iterdir()) == [] and processes_with(command.split()[-1]) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--reference-python", sys.executable], "--reference-spread or --reference-engine; give one, too"),
        (["--reference-spread", "--reference-python", ""], "the command is empty"),
        (["--reference-spread", "--reference-python", "/no/such/python"], "no such program"),
        (["--reference-spread", "--reference-python", "python 'x"], "No closing quotation"),
        (["--reference-spread", "--reference-python", "true"], "ended with status 0 before run 1"),
        (["--reference-spread", "--reference-python", "python3", "--reference-timeout", "0"], "--reference-timeout"),
        (["--reference-spread", "--reference-python", f"{sys.executable} -S -E"], "No module named"),
    ],
)
def test_mistakes_are_one_line(words, said, digits, scratch, capsys):
    assert run(digits, *words) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1 and list(scratch.iterdir()) == []


def test_a_model_it_refuses_is_in_its_own_words(digits, tmp_path, scratch, capsys):
    broken = HONEST.replace('run["model"])', '"job.json")').replace("sys.argv[1]", "sys.argv[2]")
    refused(digits, program(tmp_path, broken), "ended with status 1 before run 1 of 9: onnxruntime ", scratch, capsys)


def test_many_frames_do_not_wait_for_each(digits, tmp_path, scratch, capsys):
    frames = tmp_path / "frames"
    frames.mkdir()
    for number in range(4):
        np.save(frames / f"{number}.npy", np.zeros((1, 1, 8, 8), np.float32))
    begun = time.monotonic()
    words = ["--reference-spread", "--reference-timeout", "2", "-i", str(frames)]
    assert run(digits, *words, "--reference-python", program(tmp_path, NEVER)) == 2
    assert time.monotonic() - begun < 8 and "none of 4 frames" in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_an_interrupted_run_leaves_no_process(number, digits, tmp_path):
    """The interpreter has a child of its own."""
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {NEVER!r}, sys.argv[2]])"
    command = program(tmp_path, child if number != signal.SIGKILL else NEVER)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    words = [
        "-m",
        str(digits / "digits_quant.onnx"),
        "-b",
        "local",
        "--reference-spread",
        "--reference-python",
        command,
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(scratch)}
    host = subprocess.Popen(
        [sys.executable, "-m", "qverify", *words], env=environment, stderr=subprocess.PIPE, text=True
    )
    end = time.monotonic() + 30
    while not processes_with(f"{scratch}/") and time.monotonic() < end:
        time.sleep(0.05)
    time.sleep(0.3)
    host.send_signal(number)
    assert host.stderr is not None
    error = host.communicate(timeout=20)[1]
    end = time.monotonic() + 5
    while processes_with(f"{scratch}/") and time.monotonic() < end:
        time.sleep(0.05)
    assert processes_with(f"{scratch}/") == []
    if number != signal.SIGKILL:
        assert host.returncode == 128 + number and error.strip() == "qverify: interrupted"
        assert [path.name for path in scratch.iterdir() if path.name != ".ses"] == []  # .ses is onnxruntime's own


def test_distance_of_floats_integers_and_what_is_neither():
    real = TensorSpec("x", "float32", (4,))
    nan, inf = float("nan"), float("inf")
    a = np.array([1, nan, inf, 2], np.float32)
    assert distance(real, a, a) == (0.0, 0)
    assert distance(real, a, np.array([1, 0, inf, 2], np.float32)) == (inf, 0)
    assert distance(real, a, a[:2]) == (inf, 0)
    assert distance(TensorSpec("x", "float32", ()), np.array(1, np.float32), np.array(3, np.float32)) == (2.0, 0)
    whole = TensorSpec("x", "uint8", (2,), scale=(0.5,), zero_point=(128,))
    assert distance(whole, np.array([0, 255], np.uint8), np.array([2, 255], np.uint8)) == (1.0, 2)


def test_the_program_elsewhere_is_of_python_3_8():
    """And imports what it says."""
    tree = ast.parse(other_interpreter.PROGRAM.read_text(), feature_version=(3, 8))
    names = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    assert names == {"json", "os", "platform", "sys", "numpy", "onnxruntime"}


def test_rows_of_frames_together():
    one, two = (
        SpreadRun("c", "1", "3", "m", 1.0, 9, 8, 2, 0.5, 1, "a"),
        SpreadRun("c", "1", "3", "m", 2.0, 9, 8, 1, 0.75, 0, "b"),
    )
    assert combine_runs([one, two]) == [SpreadRun("c", "1", "3", "m", 3.0, 18, 8, 2, 0.75, 1, "b")]
    assert len(combine_runs([one, SpreadRun("d", "1", "3", "m")])) == 2 and one.runs == 9
