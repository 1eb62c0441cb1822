"""Captures: whole, judged again without a board; damaged ones say what is missing and never pass by it."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from qverify.capture.parts import PartReader, PartWriter
from qverify.capture.reader import open_capture
from qverify.capture.writer import CaptureWriter
from qverify.cli.main import main
from qverify.errors import BadFileError
from qverify.tensors.prepared import PreparedInputs
from qverify.tensors.recording import Recording

from tests.plain.captured_run import NODE, judged_again, report


def core(held: dict[str, object]) -> object:
    """What a verdict says, without times and notes."""
    pairs = [{k: v for k, v in p.items() if k not in ("notes", "coverage")} for p in held["pairs"]]
    return held["verdict"], held["blame"], pairs


@pytest.mark.parametrize(
    ("board", "status"), [("local", 0), (f"faulty:local?fault=plus_one@{NODE}", 1), ("finals:local", 0)]
)
def test_judged_again_it_says_the_same(board, status, captured, tmp_path):
    assert captured(board) == status
    again, held = judged_again(tmp_path / "cap")
    assert again == status and core(held) == core(report(tmp_path / "r.json"))
    if status:
        assert held["blame"]["node"] == NODE


def test_other_thresholds_and_sides_run_anew(captured, tmp_path, capsys):
    assert captured(f"faulty:local?fault=plus_one@{NODE}") == 1
    assert judged_again(tmp_path / "cap", "--max-lsb", "0", "-c", "0")[0] == 1
    status, held = judged_again(tmp_path / "cap", "--rerun", "reference,simulator")
    assert status == 1 and held["blame"]["node"] == NODE
    status, held = judged_again(tmp_path / "cap", "-b", "local")
    assert status == 0 and held["verdict"] == "PASSED"
    capsys.readouterr()
    assert main(["replay", str(tmp_path / "cap"), "--rerun", "board"]) == 2
    assert "wanted reference or simulator" in capsys.readouterr().err


def three_frames(digits: Path, tmp_path: Path) -> Path:
    made = tmp_path / "frames"
    made.mkdir()
    with np.load(digits / "digits.npz") as images:
        for name in sorted(images.files)[:3]:
            np.save(made / f"{name}.npy", images[name])
    return made


def test_many_frames(digits, tmp_path, capsys):
    made = three_frames(digits, tmp_path)
    words = ["-m", str(digits / "digits_quant.onnx"), "-b", "local", "-r", "-i", str(made)]
    assert main([*words, "--capture", str(tmp_path / "cap")]) == 0
    capsys.readouterr()
    status, held = judged_again(tmp_path / "cap")
    assert status == 0 and [f["verdict"] for f in held["frames"]] == ["PASSED"] * 3
    printed = capsys.readouterr().out
    assert "frames: 3 of 3 ran, 3 PASSED" in printed and printed.count("Strict check PASSED (3 frames)") == 3


def test_a_number_that_is_not_finite_stands_as_in_a_report(tmp_path):
    """And the capture is whole: JSON has no such number."""
    side = Recording("board", "qvrt", settings={"temperature_c": float("nan"), "frequency_mhz": 600.0})
    writer = CaptureWriter(str(tmp_path / "cap"), {"board": "local"})
    writer.add_frame(0, "random", PreparedInputs(()), {"board": side}, None)
    writer.add_repeat({"runs": 2, "unstable": [{"max_abs": float("inf")}]})
    assert writer.close() == ""
    (frame,) = report(tmp_path / "cap" / "capture.json")["frames"]
    assert frame["sides"][0]["settings"] == {"temperature_c": "nan", "frequency_mhz": 600.0}
    assert frame["repeat"]["unstable"] == [{"max_abs": "inf"}]


def test_bytes_are_stored_once_and_known_digests_are_not_pulled(captured, tmp_path):
    assert captured("local", "--spot-seed", "7") == 0
    capture = open_capture(str(tmp_path / "cap"))
    sides = capture.frames[0]["sides"]
    assert [s["label"] for s in sides] == ["reference", "simulator", "board"]
    assert sides[0]["tensors"] == sides[1]["tensors"] == sides[2]["tensors"]
    assert len({p.digest for p in capture.parts.parts}) == len(capture.parts.parts)
    link = report(tmp_path / "r.json")["link"]
    words = ["-m", str(tmp_path / "cap" / "models" / "0.onnx"), "-b", "local", "-r", "--spot-seed", "7"]
    main([*words, "--json", str(tmp_path / "plain.json")])
    assert link["bytes_received"] == report(tmp_path / "plain.json")["link"]["bytes_received"]


def test_a_folder_that_is_there_is_not_touched(captured, tmp_path, capsys):
    (tmp_path / "cap").mkdir()
    (tmp_path / "cap" / "models").mkdir()
    assert captured() == 2
    assert "exists already" in capsys.readouterr().err
    assert [p.name for p in (tmp_path / "cap").iterdir()] == ["models"]


def test_a_mistyped_board_leaves_no_capture(captured, digits, tmp_path, capsys):
    assert captured("nosuch://x") == 2
    assert not (tmp_path / "cap").exists()
    (tmp_path / "frames").mkdir()
    with np.load(digits / "digits.npz") as images:
        np.save(tmp_path / "frames" / "a.npy", images[images.files[0]])
    words = ["-m", str(digits / "digits_quant.onnx"), "-b", "nosuch://x", "-i", str(tmp_path / "frames")]
    assert main([*words, "--capture", str(tmp_path / "cap")]) == 2
    assert not (tmp_path / "cap").exists() and "no board kind 'nosuch'" in capsys.readouterr().err
    assert captured("127.0.0.1:1") == 3  # a board that is away is a result
    assert (tmp_path / "cap" / "capture.json").is_file()


def test_a_board_that_breaks_in_a_replayed_frame_is_connected_again(digits, tmp_path, capsys):
    made = three_frames(digits, tmp_path)
    words = ["-m", str(digits / "digits_quant.onnx"), "-b", "local", "-i", str(made)]
    assert main([*words, "--capture", str(tmp_path / "cap")]) == 0
    capsys.readouterr()
    assert main(["replay", str(tmp_path / "cap"), "-b", f"faulty:local?fault=die@{NODE}"]) == 3
    assert capsys.readouterr().out.count("the agent was killed by SIGKILL") >= 3


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda cap: (cap / "parts.zst").unlink(), "does not exist"),
        (lambda cap: os.truncate(cap / "parts.zst", (cap / "parts.zst").stat().st_size // 2), "is cut off"),
        (lambda cap: flip(cap / "parts.zst"), "was changed"),
    ],
    ids=["missing", "cut", "changed"],
)
def test_a_damaged_part_is_named_and_the_rest_is_judged(spoil, said, captured, tmp_path, capsys):
    assert captured(f"faulty:local?fault=plus_one@{NODE}") == 1
    spoil(tmp_path / "cap")
    capsys.readouterr()
    status = main(["replay", str(tmp_path / "cap"), "-r", "--json", str(tmp_path / "again.json")])
    told = capsys.readouterr()
    if status == 2:  # the input itself is damaged
        assert said in told.err and len(told.err.strip().splitlines()) == 1
        return
    held = report(tmp_path / "again.json")
    missing = [m for p in held["pairs"] for m in p["coverage"]["missing"]]
    assert held["verdict"] != "PASSED" and any(said in m["why"] for m in missing)
    assert sum(p["coverage"]["compared"] for p in held["pairs"])


def flip(path: Path) -> None:
    """A byte in the middle of the last part."""
    data = bytearray(path.read_bytes())
    data[-20] ^= 255
    path.write_bytes(bytes(data))


def test_what_is_no_capture(captured, tmp_path, capsys):
    assert captured() == 0
    manifest = tmp_path / "cap" / "capture.json"
    held = json.loads(manifest.read_text())

    def said(change: dict[str, object] | str | None) -> str:
        if change is None:
            manifest.unlink()
        else:
            manifest.write_text(change if isinstance(change, str) else json.dumps({**held, **change}))
        capsys.readouterr()
        assert main(["replay", str(tmp_path / "cap")]) == 2
        error = capsys.readouterr().err
        assert len(error.strip().splitlines()) == 1 and "internal error" not in error
        return error

    assert "needs a newer qverify" in said({"schema": "qverify.capture/2"})
    assert "not a manifest" in said("{")
    assert "not a manifest" in said("[" * 100_000)
    assert "not a manifest" in said({"parts": [[0, 1, -5, "x"]]})
    assert "not a manifest" in said({"frames": [{"sides": 3}]})
    for key in ("frame", "source"):
        assert "not a manifest" in said({"frames": [{k: v for k, v in held["frames"][0].items() if k != key}]})
    assert "not a manifest" in said({"models": [{"file": "../x", "path": "", "kind": "", "sha256": ""}]})
    assert "not a manifest" in said({"specs": {"a": {"dtype": "object"}}})
    assert "contains no frame" in said({"frames": []})
    manifest.write_text(json.dumps(held))
    (tmp_path / "cap" / "models" / "0.onnx").write_bytes(b"other")
    assert "is not what was captured" in said({})
    assert "the run that wrote" in said(None)


def test_an_incomplete_capture_says_so_in_the_verdict(captured, tmp_path, capsys):
    assert captured() == 0
    manifest = tmp_path / "cap" / "capture.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "state": "incomplete", "why": "a full disk"}))
    assert main(["replay", str(tmp_path / "cap")]) == 3  # what came after the cut is not known
    assert "the capture is incomplete: a full disk" in capsys.readouterr().out
    assert main(["triage", str(tmp_path / "cap")]) == 3
    assert "the capture is incomplete: a full disk" in capsys.readouterr().out


@pytest.mark.parametrize("side", [1, 2])
def test_a_tensor_that_a_side_does_not_name_is_missing_not_left_out(side, captured, tmp_path):
    """The tensor of a node, and a final output, are taken out of the manifest, as if they had never been."""
    assert captured() == 0
    manifest = tmp_path / "cap" / "capture.json"
    whole = json.loads(manifest.read_text())
    for name in (NODE, whole["frames"][0]["sides"][side]["finals"][0]):
        held = json.loads(json.dumps(whole))
        del held["frames"][0]["sides"][side]["tensors"][name]
        held["frames"][0]["sides"][side]["finals"] = []
        manifest.write_text(json.dumps(held))
        status, again = judged_again(tmp_path / "cap", "-r")
        assert status == 3 and again["verdict"] == "INCONCLUSIVE"
        missing = {m["tensor"] for p in again["pairs"] for m in p["coverage"]["missing"]}
        assert missing == {name}


def test_a_full_disk_costs_the_capture_not_the_verdict(captured, tmp_path, monkeypatch, capsys):
    real = PartWriter._write_next
    written = []

    def full(self: PartWriter) -> None:
        written.append(1)
        if len(written) > 3:
            self._waiting.clear()
            raise OSError(28, "No space left on device")
        real(self)

    monkeypatch.setattr(PartWriter, "_write_next", full)
    assert captured() == 0
    assert "is incomplete: it could not be written: No space left on device" in capsys.readouterr().out
    monkeypatch.undo()
    status = main(["replay", str(tmp_path / "cap"), "-r"])
    assert status in (2, 3)  # never PASSED: what is not there is missing


CUT = """
import sys
from qverify.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_run_that_is_cut_off(how, digits, tmp_path):
    board = f"faulty:local?fault=hang@{NODE}"
    words = [
        "-m",
        str(digits / "digits_quant.onnx"),
        "-b",
        board,
        "--timeout",
        "60",
        "--capture",
        str(tmp_path / "cap"),
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", CUT, *words], env=environment, stderr=subprocess.DEVNULL) as job:
        end = time.monotonic() + 120
        while not (tmp_path / "cap").exists() and time.monotonic() < end:
            time.sleep(0.05)
        time.sleep(1.0)
        job.send_signal(how)
        job.wait(120)
    assert main(["replay", str(tmp_path / "cap")]) == 2
    assert (tmp_path / "cap" / "capture.json").is_file() == (how == signal.SIGINT)


def test_parts_alone(tmp_path):
    rng = np.random.Generator(np.random.PCG64(1))
    contents = [rng.integers(0, n % 7 + 2, n, np.uint8).tobytes() for n in (0, 1, 70_000, 300, 1 << 20)]
    writer = PartWriter(str(tmp_path / "p"))
    numbers = [writer.add(c) for c in [*contents, *contents]]
    writer.close()
    assert numbers == [0, 1, 2, 3, 4] * 2 and len(writer.parts) == 5
    reader = PartReader(str(tmp_path / "p"), writer.parts)
    assert [reader.read(n) for n in range(5)] == contents
    for number in (-1, 5):
        with pytest.raises(BadFileError, match="not listed"):
            reader.read(number)


def test_two_captures_and_a_folder_compared(captured, digits, tmp_path, capsys):
    assert captured("local") == 0
    (tmp_path / "cap").rename(tmp_path / "good")
    assert captured(f"faulty:local?fault=plus_one@{NODE}") == 1
    good, bad = str(tmp_path / "good"), str(tmp_path / "cap")
    assert main(["compare", good, bad]) == 1
    assert main(["compare", good, bad, "--side", "simulator"]) == 0
    words = ["infer", "-m", str(digits / "digits_quant.onnx"), "-o", str(tmp_path / "dump")]
    assert main(words) == 0 and main(["compare", good, str(tmp_path / "dump")]) == 0
    capsys.readouterr()
    assert main(["compare", good, bad, "--side", "moon"]) == 2
    assert "no side 'moon'; give --side reference or simulator or board" in capsys.readouterr().err
    assert main(["compare", good, bad, "--frame", "3"]) == 2
    (tmp_path / "cap").rename(tmp_path / "bad")
    assert captured("local", "--seed", "5") == 0
    assert main(["compare", good, bad]) == 2
    assert "computed from different inputs" in capsys.readouterr().err


def test_captures_of_earlier_versions_stay_readable(capsys):
    """A capture of the example as format 1 was first written; the board spoils one node."""
    kept = Path(__file__).parent / "capture_1"
    assert main(["replay", str(kept), "-r"]) == 1
    assert f"blame: board at {NODE}" in capsys.readouterr().out


@pytest.mark.parametrize("room", ["8k", "32k", "52k", "2m"])
def test_a_disk_that_is_really_full(room, digits, tmp_path):
    """A file system of so many bytes, in a mount namespace of its own: the capture says that it is incomplete."""
    if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode:
        pytest.skip("no mount namespace of our own (not root)")
    run = shlex.join([sys.executable, "-m", "qverify"])
    model, there = shlex.quote(str(digits / "digits_quant.onnx")), shlex.quote(str(tmp_path))
    script = (
        f"mount -t tmpfs -o size={room} none {there} || exit 99; cd {there}; {run} -m {model} -b local -r --capture c; echo verdict $?; "
        f"{run} replay c -r; echo replay $?; cat c/capture.json"
    )
    ran = subprocess.run(
        ["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, check=False, timeout=120, cwd="/"
    )
    assert "verdict 0" in ran.stdout and "Traceback" not in ran.stderr, ran.stderr
    listed = ran.stdout.strip().splitlines()[-1]
    if room == "2m":
        assert json.loads(listed)["state"] == "complete" and "replay 0" in ran.stdout
    elif listed.startswith("{"):
        held = json.loads(listed)
        assert held["state"] == "incomplete" and "No space left on device" in held["why"]
        assert "replay 0" not in ran.stdout and "replay 1" not in ran.stdout
    else:  # no room for the list itself
        assert "replay 2" in ran.stdout and "capture.json is missing" in ran.stderr
    assert ("WARNING: capture c is incomplete" in ran.stdout) == (room != "2m")
