"""Mistakes in suite.toml and its files are refused in one line that says what is wanted."""

from __future__ import annotations

import os
import xml.etree.ElementTree as xml
from pathlib import Path

import pytest
from qverify.errors import UsageError
from qverify_farm.errors import SuiteError
from qverify_farm.scheduling import fair_share
from qverify_farm.scheduling.fair_share import FairShare
from qverify_farm.suites.formats.junit import render
from qverify_farm.suites.job_paths import JobPaths, inputs_of
from qverify_farm.suites.suite_file import read_suite
from qverify_farm.suites.suite_report import SuiteReport
from qverify_farm.suites.toml_table import Mistakes, Table

KNOWN: dict[str, dict[str, str]] = {"desk": {}}
NONE = dict.fromkeys(("PASSED", "FAILED", "INCONCLUSIVE", "running", "queued", "cancelled", "done"), 0)
BASE = 'models = ["a.onnx"]\nboards = ["desk"]\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a.onnx", "b.onnx", "frames/1.npy", "frames/2.npy", "empty/.hidden"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('name = ""\n' + BASE, 'name = "": wanted a text of at most'),
        ("name = 3\n" + BASE, "name = 3: wanted a text of at most"),
        ('models = [3]\nboards = ["desk"]', "models 1: 3: wanted a text, or a table"),
        ('models = ["a.onnx"]\nboards = [1]', "wanted a list of texts"),
        ('models = ["/../*[.onnx"]\nboards = ["desk"]', "files: "),
        ('models = ["no*.onnx"]\nboards = ["desk"]', "files: no*.onnx: no file of "),
        ('models = [{name = "two", files = "*.onnx"}]\nboards = ["desk"]', "the files are 2 models; leave the name out"),
        (BASE + 'inputs = [3]', "inputs 1: 3: wanted a text, or a table"),
        (BASE + 'inputs = []', 'inputs = []: wanted a list, as ["frames"], or tables [[inputs]]'),
        (BASE + 'inputs = [{name = "x"}]', "path: wanted what -i takes"),
        (BASE + 'inputs = [{random = true, path = "frames"}]', "random = true makes the inputs; wanted one of the two"),
        (BASE + 'inputs = ["empty"]', "empty: the folder contains no files"),
        (BASE + 'inputs = ["x:none.npy"]', "x:none.npy: no such file or folder in "),
        (BASE + 'inputs = [{path = "frames", name = "i"}, {path = "a.onnx", name = "i"}]', "two inputs are named i"),
        (BASE + "options = 3", "options = 3: wanted a table [options]"),
        (BASE + "labels = 3", "labels = 3: wanted a table [labels]"),
        (BASE + "[labels]\nfirmware = true", "labels.firmware = true: wanted a text of at most 200 characters"),
    ],
)  # fmt: skip
def test_one_line_says_what_is_wanted(text: str, said: str, folder: Path) -> None:
    (folder / "suite.toml").write_text(text)
    with pytest.raises(SuiteError) as error:
        read_suite(str(folder / "suite.toml"), KNOWN)
    assert any(said in line for line in error.value.lines), error.value.lines
    assert not any("\n" in line for line in error.value.lines)


def test_the_values_of_a_table() -> None:
    mistakes = Mistakes()
    table = Table({"flag": 1, "count": True, "few": 3, "time": 0, "long": "x" * 90}, "inputs 1", mistakes)
    assert (table.boolean("flag", True), table.integer("count", 5, 1, 9), table.integer("few", 1, 1, 2)) == (True, 5, 1)
    assert (table.seconds("time", 7.0), table.seconds("none", 8.0), table.text("long", "y", 80)) == (7.0, 8.0, "y")
    table.boolean("flag")
    assert mistakes.lines == [
        "inputs 1: flag = 1: wanted true or false",
        "inputs 1: count = true: wanted a whole number from 1 to 9",
        "inputs 1: few = 3: wanted a whole number from 1 to 2",
        "inputs 1: time = 0: wanted seconds, more than 0 and at most 1e+07",
        f'inputs 1: long = "{"x" * 56}...: wanted a text of at most 80 characters',
    ]


def refused(text: str, folder: Path) -> str:
    with pytest.raises(UsageError) as error:
        inputs_of(text, JobPaths(folder))
    return str(error.value)


def test_files_that_a_job_cannot_have(folder: Path) -> None:
    (folder / "a:b").mkdir()
    (folder / "a:b" / "x.npy").touch()
    assert (
        refused("a:b/x.npy", folder)
        == "a:b/x.npy: a path of a job has no comma, colon or backslash, and 400 characters at most"
    )
    (folder / "frames" / "x:y.npy").touch()
    assert refused("frames", folder) == "x:y.npy: a file of a job has no comma, colon or backslash in its name"
    os.mkfifo(folder / "pipe")
    assert refused("pipe", folder) == f"{folder}/pipe: not a regular file"


def test_lists_of_frames_stay_in_their_folder(folder: Path) -> None:
    listed = folder / "list.txt"
    listed.write_text("frames/1.npy\nx:frames/2.npy\n")
    value, files = inputs_of("list.txt", JobPaths(folder))
    assert value == "list.txt" and sorted(files) == ["frames/1.npy", "frames/2.npy", "list.txt"]
    listed.write_text("frames/3.npy\n")
    assert refused("list.txt", folder) == f"{listed}: it names frames/3.npy, which is no file"
    (folder / "frames" / "up.txt").write_text("../a.onnx\n")
    assert "../a.onnx is outside of the list's folder" in refused("frames/up.txt", folder)
    listed.write_text(f"{folder}/a.onnx\n")
    assert "is outside of the list's folder; put the list above its files" in refused("list.txt", folder)


def test_too_many_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("qverify_farm.suites.job_paths.MAX_FILES", 1)
    assert refused("frames", folder) == "2 files; a job has at most 1"


def test_old_shares_are_forgotten_without_a_change_of_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A submitter whose tag is not above the board's time has the same turn as one who is new."""
    kept, short = FairShare(), FairShare()
    for share, limit in ((kept, 1000), (short, 4)):
        monkeypatch.setattr(fair_share, "MAX_SUBMITTERS", limit)
        for number in range(8):
            share.begin(f"s{number}")
            share.end(f"s{number}", float(number % 3))
    names = [*(f"s{number}" for number in range(8)), "new"]
    assert {name: kept.tag_of(name) for name in names} == {name: short.tag_of(name) for name in names}
    assert kept.next_of(names) == short.next_of(names)
    assert len(short._tags) < len(kept._tags) == 8


def test_a_run_without_jobs_is_an_error_of_junit() -> None:
    report = SuiteReport(
        "r1", "nightly", "INCONCLUSIVE", "done", "", "ann", 0.0, None, None, {}, NONE, [], [], [], [], "0.1"
    )
    root = xml.fromstring(render(report).partition("\n")[2])
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("1", "0", "1")
    (error,) = root.findall("testsuite/testcase/error")
    assert (error.get("message"), error.get("type")) == ("no jobs", "INCONCLUSIVE")
