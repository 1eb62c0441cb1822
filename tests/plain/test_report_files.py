"""--report FORMAT=PATH: the same on every command that judges, checked before anything runs, found by listing the folder."""

from __future__ import annotations

import html
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from qverify import example
from qverify.cli.main import main
from qverify.errors import UsageError
from qverify.renderers import formats
from qverify.report.document import NotRun

from tests.plain.three_sides import record, step, two, wrong_at

EXAMPLE = Path(example.__file__).parent
KNOWN = ", ".join(formats.names())
OF_OTHER_TOOLS = ("codequality", "model-explorer")  # what they cannot show is left out
MODEL = str(EXAMPLE / "digits_quant.onnx")


def run(*words):
    return main([str(w) for w in words])


@pytest.fixture
def dumps(tmp_path):
    for name in ("a", "b"):
        assert run("infer", "-m", MODEL, "-o", tmp_path / name) == 0
    return tmp_path / "a", tmp_path / "b"


def test_one_report_in_several_places(dumps, tmp_path, capsys):
    (tmp_path / "out").mkdir()
    capsys.readouterr()
    files = [tmp_path / "by_name.json", tmp_path / "by_suffix.json", tmp_path / "short.json"]
    words = [
        "--report",
        f"json={files[0]}",
        "--report",
        files[1],
        "--json",
        files[2],
        "--report",
        f"json={tmp_path}/out",
    ]
    assert run("compare", *dumps, *words) == 0
    assert "PASSED" in capsys.readouterr().out
    texts = {path.read_text() for path in (*files, tmp_path / "out" / "report.json")}
    assert len(texts) == 1 and json.loads(texts.pop())["verdict"] == "PASSED"


def test_a_report_on_stdout_stands_there_alone(dumps, capsys):
    capsys.readouterr()
    assert run("compare", *dumps, "--report", "json=-") == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "PASSED"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--report", "toml=x.toml"], f"--report toml=x.toml: wanted FORMAT=PATH; formats: {KNOWN}"),
        (["--report", "x.xyz"], f"wanted FORMAT=PATH; formats: {KNOWN}"),
        (["--report", "json="], "--report json=: the path is empty"),
        (["--json", ""], "--json: the path is empty"),
        (["--report", "json=no/such/r.json"], "there is no folder no/such; make it first"),
        (["--report", "json=-", "--json", "-"], "two reports go to -"),
        (["--report", "json=r.json", "--json", "r.json"], "two reports go to r.json"),
    ],
)
@pytest.mark.parametrize("command", ["verify", "compare", "replay", "triage"])
def test_what_cannot_be_written_is_said_before_anything_runs(command, words, said, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = {
        "verify": ["-m", MODEL, "-b", "local"],
        "compare": [tmp_path, tmp_path],
        "replay": [tmp_path],
        "triage": ["-m", MODEL],
    }[command]
    assert run(*([] if command == "verify" else [command]), *given, *words) == 2
    captured = capsys.readouterr()
    assert said in captured.err and captured.out == "" and list(tmp_path.iterdir()) == []


def test_every_format_defines_what_the_folder_asks_for():
    assert "json" in formats.names()
    for name in formats.names():
        assert formats.page(name).SUFFIX.startswith(".") and callable(formats.page(name).write)
    with pytest.raises(UsageError, match=f"report format: got 'pdf', wanted one of {KNOWN}"):
        formats.page("pdf")


def test_a_page_that_lacks_something_is_named(tmp_path, monkeypatch):
    (tmp_path / "half.py").write_text('SUFFIX = ".half"\n')
    monkeypatch.setattr(formats, "__path__", [str(tmp_path)])
    with pytest.raises(ImportError, match=r"renderers/formats/half\.py: a page of this folder must define write"):
        formats.page("half")


@pytest.mark.parametrize("verdict", ["PASSED", "FAILED", "INCONCLUSIVE"])
@pytest.mark.parametrize("name", [n for n in formats.names() if n not in OF_OTHER_TOOLS])
def test_every_format_shows_the_verdict_and_what_is_behind_it(name, verdict, tmp_path, capsys):
    board = record("board", wrong_at("n2") if verdict == "FAILED" else step)
    if verdict == "INCONCLUSIVE":
        board.missing["n2"] = "it was lost"
        del board.tensors["n2"], board.digests["n2"]
    report = two(record("reference"), board)
    report.notes.append("read by a profile checked with nothing")
    report.not_run.append(NotRun("simulator", "-s False"))
    assert report.verdict == verdict
    path = tmp_path / f"report{formats.page(name).SUFFIX}"
    formats.page(name).write(report, str(path))
    text = path.read_text(encoding="utf-8")
    behind = {"PASSED": "board", "FAILED": "n2", "INCONCLUSIVE": "it was lost"}[verdict]
    assert all(words in text for words in (verdict, behind, "checked with nothing", "-s False"))
    formats.page(name).write(report, "-")
    assert capsys.readouterr().out == text
    with pytest.raises(UsageError):
        formats.page(name).write(report, str(tmp_path / "no" / "such"))
    assert list(tmp_path.iterdir()) == [path]


def test_help_lists_every_format(capsys):
    assert run("compare", "--help") == 0
    assert f"(FORMAT: {KNOWN};" in " ".join(capsys.readouterr().out.split()).replace("- ", "-")  # wrapped there


@pytest.mark.parametrize(
    "words", [["--html", "model.bin"], ["--csv", "digits_quant.onnx"], ["--npz", "model.bin"], ["--json", "linked.bin"]]
)
def test_a_report_never_overwrites_what_the_command_reads(words, tmp_path, digits, monkeypatch, capsys):
    shutil.copy(digits / "digits_quant.onnx", tmp_path)
    monkeypatch.chdir(tmp_path)
    assert run("compile", "digits_quant.onnx", "-o", "model.bin") == 0
    os.symlink("model.bin", "linked.bin")
    before = Path("model.bin").read_bytes()
    assert run("-m", "digits_quant.onnx,model.bin", "-b", "local", *words) == 2
    assert "would overwrite" in capsys.readouterr().err and Path("model.bin").read_bytes() == before


def test_one_file_by_two_names_is_refused(tmp_path, digits, capsys):
    (tmp_path / "b.html").symlink_to("a.json")
    words = ["--json", str(tmp_path / "a.json"), "--html", str(tmp_path / "b.html")]
    assert run("-m", str(digits / "digits_quant.onnx"), "-b", "local", *words) == 2
    assert "two reports go to" in capsys.readouterr().err


def test_many_frames_of_several_boards_have_the_lines_of_the_terminal(tmp_path, digits, capsys):
    x = np.load(digits / "digits.npz")
    for name in list(x.files)[:3]:
        np.save(tmp_path / f"{name}.npy", x[name])
    boards = ["-b", "local", "-b", "faulty:local?fault=bitflip@relu2_QuantizeLinear_Output"]
    paths = {suffix: tmp_path / f"out.{suffix}" for suffix in ("html", "markdown")}
    files = [word for name, path in paths.items() for word in (f"--{name}", str(path))]
    assert run("-m", str(digits / "digits_quant.onnx"), *boards, "-i", str(tmp_path), "-r", "True", "-q", *files) == 1
    lines = [line for line in capsys.readouterr().out.split("== all boards ==")[1].splitlines() if "Strict" in line]
    page = html.unescape(paths["html"].read_text())
    assert len(lines) == 3 and all(line in page for line in lines)
    assert page.partition("</header>")[0].count("is to blame at") == 1 and "3 of the frames or boards" in page
    assert "frame 0" in paths["markdown"].read_text()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_a_file_that_cannot_be_written_keeps_the_others(
    digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = tmp_path / "r.xml"
    words = ["-m", str(digits / "digits_quant.onnx"), "-b", "local"]
    assert main([*words, "--json", "/dev/full", "--junit", str(good)]) == 2
    ended = capsys.readouterr()
    assert "PASSED" in ended.out and good.stat().st_size > 0
    assert ended.err == "qverify: /dev/full: cannot be written: No space left on device\n"


def test_npz_onto_a_pipe_is_refused_before_the_run(
    digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "pipe")
    words = ["-m", str(digits / "digits_quant.onnx"), "-b", "local", "--npz", str(tmp_path / "pipe")]
    assert main(words) == 2
    ended = capsys.readouterr()
    assert ended.out == "" and "pipe: is no regular file; wanted a new file or a regular one" in ended.err
