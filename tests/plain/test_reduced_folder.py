"""The folder of --reduce is written whole or not at all, and no folder of the user's is touched; why nothing was reduced is said."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from qverify.cli.main import main
from qverify.errors import UsageError
from qverify.session.triage.reduced_folder import move_whole

NODE = "relu2_QuantizeLinear_Output"


@pytest.fixture
def result(tmp_path: Path) -> Path:
    folder = tmp_path / "result"
    (folder / "inner").mkdir(parents=True)
    (folder / "README.md").write_text("said")
    (folder / "inner" / "x.npy").write_bytes(b"123")
    return folder


def test_it_is_copied_whole(result: Path, tmp_path: Path) -> None:
    move_whole(str(result), f"{tmp_path}/out/")
    assert (tmp_path / "out" / "README.md").read_text() == "said"
    assert (tmp_path / "out" / "inner" / "x.npy").read_bytes() == b"123"
    assert sorted(os.listdir(tmp_path)) == ["out", "result"]


def test_a_folder_of_the_temporary_name_is_kept(result: Path, tmp_path: Path) -> None:
    (tmp_path / "out.part").mkdir()
    (tmp_path / "out.part" / "mine").write_text("kept")
    with pytest.raises(UsageError, match=r"out\.part cannot be made: File exists"):
        move_whole(str(result), str(tmp_path / "out"))
    assert (tmp_path / "out.part" / "mine").read_text() == "kept" and not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(28, "No space left on device"), "No space left on device"),
        (shutil.Error([("a", "b", "[Errno 28] No space left on device")]), "[Errno 28] No space left on device"),
    ],
)
def test_a_full_disk_leaves_nothing(
    error: OSError, said: str, result: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(source: str, target: str, **_: object) -> None:
        Path(target, "begun").write_text("half of it")
        raise error

    monkeypatch.setattr(shutil, "copytree", full)
    with pytest.raises(UsageError) as refusal:
        move_whole(str(result), str(tmp_path / "out"))
    assert str(refusal.value) == f"--reduce {tmp_path}/out: cannot be written: {said}"
    assert os.listdir(tmp_path) == ["result"]


def test_an_interrupt_leaves_nothing(result: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(source: str, target: str, **_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(shutil, "copytree", interrupted)
    with pytest.raises(KeyboardInterrupt):
        move_whole(str(result), str(tmp_path / "out"))
    assert os.listdir(tmp_path) == ["result"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--reduce", "{folder}/x", "--build-cmd", "tool '{{onnx}} {{bin}}"], "--build-cmd \"tool '{onnx} {bin}\": No closing"),
        (["--reduce", "{folder}/x", "--build-cmd", "tool {{onnx}}"], "it must contain {onnx}, and {model} or {bin}"),
        (["--reduce", "{folder}/no/x"], "no is not a folder that can be written to"),
        (["--reduce", "{folder}"], "exists already; name a folder that does not"),
    ],
)  # fmt: skip
def test_options_are_checked_before_the_search(
    more: list[str], said: str, digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["triage", "-m", str(digits / "digits_quant.onnx"), "-b", f"faulty:local?fault=plus_one@{NODE}"]
    assert main([*words, *(w.format(folder=tmp_path) for w in more)]) == 2
    line = capsys.readouterr().err
    assert said in line and line.count("\n") == 1
    assert not (tmp_path / "x").exists()


def test_a_board_that_cannot_be_reached_is_why_nothing_is_reduced(digits: Path, tmp_path: Path) -> None:
    words = ["triage", "-m", str(digits / "digits_quant.onnx"), "--reduce", str(tmp_path / "x")]
    assert main([*words, "-b", "ssh://127.0.0.1:1", "--json", str(tmp_path / "t.json")]) == 3
    reduced = json.loads((tmp_path / "t.json").read_text())["reduced"]
    assert reduced["state"] == "inconclusive" and "127.0.0.1" in reduced["why"]
    assert main([*words, "-b", "local", "--json", str(tmp_path / "t.json")]) == 0
    reduced = json.loads((tmp_path / "t.json").read_text())["reduced"]
    assert (reduced["state"], reduced["why"]) == ("nothing", "nothing differs on the board")
    assert not (tmp_path / "x").exists()
