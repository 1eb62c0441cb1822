"""A file or folder that a command could not write is said before anything runs, in one line, and nothing is left there."""

from __future__ import annotations

from pathlib import Path

import pytest
from qverify import example
from qverify.cli.main import main
from qverify.errors import UsageError
from qverify.files import check_folder_writable, check_writable

MODEL = str(Path(example.__file__).parent / "digits_quant.onnx")
UNREACHABLE = "ssh://192.0.2.1"  # a run that began would say so


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("kept")
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "folder.json" / "report.json").mkdir()
    (tmp_path / "a.npy").write_bytes(b"")
    return tmp_path


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["-m", "none.onnx", "-b", UNREACHABLE, "--json", "file/r.json"],
            "--json: there is no folder file; make it first",
        ),
        (
            ["-m", "none.onnx", "--json", "folder.json"],
            "--json folder.json/report.json: cannot be written: Is a directory",
        ),
        (["-m", "none.onnx", "--json", "/proc/r.json"], "--json /proc/r.json: cannot be written: "),
        (["-m", "none.onnx", "--report", "json=/proc/r"], "--report /proc/r: cannot be written: "),
        (["triage", "-m", "none.onnx", "--json", "/proc/r.json"], "--json /proc/r.json: cannot be written: "),
        (["compare", "a.npy", "a.npy", "--json", "/proc/r.json"], "--json /proc/r.json: cannot be written: "),
        (["compile", "none.onnx", "-o", "/proc/m.bin"], "-o /proc/m.bin: cannot be written: "),
        (["compile", "none.onnx", "-o", "no/m.bin"], "-o: there is no folder no; make it first"),
        (
            ["compile", "none.onnx", "-o", "m", "--integer-onnx", "no/i"],
            "--integer-onnx: there is no folder no; make it first",
        ),
        (["infer", "-m", "none.onnx", "-o", "file/out"], "file/out: cannot be written: Not a directory"),
        (["pack", "-m", "none.onnx", "-o", "/proc/bundle"], "/proc/bundle: cannot be written: "),
        (["pack", "-m", "none.onnx", "-o", "file"], "file: exists already; name a folder that does not"),
        (["pack", "-m", "none.onnx", "-o", "/proc/b.tar"], "/proc/b.tar: cannot be written: "),
        (
            ["inputs", "diff", "a.npy", "none.bin", "--json", "no/d.json"],
            "--json: there is no folder no; make it first",
        ),
        (["inputs", "diff", "a.npy", "none.bin", "--json", ""], "--json: the path is empty"),
        (
            ["baseline", "check", "file", "folder.json", "--json", "no/d.json"],
            "--json: there is no folder no; make it first",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_it_is_the_first_thing_said(
    words: list[str], said: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(here.rglob("*"))
    assert main(words) == 2
    shown = capsys.readouterr()
    assert shown.err.startswith("qverify: ") and said in shown.err and shown.err.count("\n") == 1 and shown.out == ""
    assert sorted(here.rglob("*")) == before and (here / "file").read_text() == "kept"


def test_what_can_be_written_is_not_touched(tmp_path: Path) -> None:
    kept = tmp_path / "r.json"
    kept.write_text("kept")
    check_writable(str(kept))
    check_writable(str(tmp_path / "new.json"))
    check_writable("/dev/null")
    check_folder_writable(str(tmp_path / "a" / "b"))
    assert kept.read_text() == "kept" and list(tmp_path.iterdir()) == [kept]
    with pytest.raises(UsageError, match="Is a directory"):
        check_writable(str(tmp_path))


def test_the_captures_of_all_boards(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "c-1").mkdir()
    (tmp_path / "c-1" / "old").write_text("kept")
    words = ["-m", MODEL, "-b", "local", "-b", "local", "--capture"]
    assert main([*words, str(tmp_path / "c")]) == 2
    shown = capsys.readouterr()
    assert (shown.out, shown.err.count("\n")) == ("", 1) and "c-1: exists already and is not empty" in shown.err
    assert main([*words, "/proc/c"]) == 2
    assert capsys.readouterr().err.startswith("qverify: --capture /proc/c-0: cannot be written: ")
    assert [p.name for p in tmp_path.iterdir()] == ["c-1"]
