"""qverify suite from the command line, over real boards of this machine: verdicts, interruption, kill -9, formats."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from qverify.cli.main import main
from qverify_farm.cli import suite_work

from scripts.benchmarks.farm_kill import Killed
from tests.farm.toml_blocks import example_of

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def desk(tmp_path: Path, digits: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model, inputs, two boards, a database and artifacts."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("QVERIFY_BOARDS", str(tmp_path / "boards.toml"))
    (tmp_path / "quant.onnx").write_bytes((digits / "digits_quant.onnx").read_bytes())
    (tmp_path / "boards.toml").write_text(
        '[boards.desk]\nuri = "local"\ntags = { soc = "x", lab = "1" }\n[boards.bad]\nuri = "faulty:local?fault=bitflip@relu2_QuantizeLinear_Output"\ntags = { soc = "x" }\n'
    )
    return tmp_path


def suite(folder: Path, text: str) -> None:
    (folder / "s.toml").write_text('models = ["quant.onnx"]\n' + text)


def test_a_suite_runs_and_is_reported_in_every_format(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    suite(desk, 'boards = ["desk", "lab=1"]\nrepeats = 2\n[labels]\nfirmware = "1"')
    words = [
        "--json",
        "S.json",
        "--junit",
        "S.xml",
        "--html",
        "S.html",
        "--report",
        "markdown=S.md",
        "--label",
        "firmware=2",
    ]
    assert main(["suite", "run", "s.toml", *words]) == 0
    out, err = capsys.readouterr()
    assert (
        out.endswith("PASSED: s: 4 jobs, 4 PASSED (4 with caveats); caveats: random inputs, PCG64 seed 0\n")
        and "4 jobs on 1 board" in err
    )
    found = json.loads((desk / "S.json").read_text())
    assert (found["verdict"], found["labels"], len(found["jobs"])) == ("PASSED", {"firmware": "2"}, 4)
    assert {job["board"] for job in found["jobs"]} == {"desk"} and all(
        len(job["report"]) == 64 for job in found["jobs"]
    )
    assert all((desk / name).stat().st_size > 60 for name in ("S.xml", "S.html", "S.md"))
    assert main(["suite", "report", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["id"] == found["id"]
    assert main(["suite", "status", found["id"][:8]]) == 0 and main(["suite", "resume", found["id"][:8]]) == 0
    assert main(["suite", "list"]) == 0
    assert "4 of 4" in capsys.readouterr().out


def test_a_suite_with_a_bad_board_fails_and_names_the_node(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    suite(desk, 'boards = ["all:soc=x"]\nkeep_captures = true')
    assert main(["suite", "run", "s.toml", "--json", "S.json"]) == 1
    by_board = {job["board"]: job for job in json.loads((desk / "S.json").read_text())["jobs"]}
    assert by_board["desk"]["verdict"] == "PASSED" and by_board["bad"]["verdict"] == "FAILED"
    assert by_board["bad"]["blame_side"] == "board" and by_board["bad"]["nodes"] and by_board["bad"]["capture"]
    assert "FAILED: s: 2 jobs, 1 PASSED (1 with caveats), 1 FAILED" in capsys.readouterr().out


def test_an_interrupted_suite_keeps_what_is_done_and_is_resumed(desk: Path) -> None:
    suite(desk, 'boards = ["desk"]\nrepeats = 200')
    command = [sys.executable, "-m", "qverify", "suite"]
    process = subprocess.Popen([*command, "run", "s.toml", "--json", "S.json"], stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        status = subprocess.run([*command, "list"], capture_output=True, text=True, check=False)
        if " of 200" in status.stdout and " 0 of 200" not in status.stdout:
            break
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGINT, err
    assert "of 200 jobs are done and kept. Next: qverify suite resume" in err and err.endswith("qverify: interrupted\n")
    first = json.loads((desk / "S.json").read_text())
    done = [job for job in first["jobs"] if job["verdict"] == "PASSED"]
    assert first["state"] == "running" and 0 < len(done) < 200
    assert main(["suite", "cancel", first["id"][:8]]) == 0
    assert main(["suite", "status"]) == 3


def test_an_interrupted_suite_says_how_to_resume_however_long_it_takes_to_end(
    desk: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """KeyboardInterrupt is raised again after a second, for code that swallows it."""
    report_of = suite_work.report_of
    monkeypatch.setattr(suite_work, "report_of", lambda *words: time.sleep(1.3) or report_of(*words))
    monkeypatch.setattr(suite_work, "_has_ended", lambda *_: os.kill(os.getpid(), signal.SIGINT))
    suite(desk, 'boards = ["desk"]\nrepeats = 200')
    assert main(["suite", "run", "s.toml"]) == 128 + signal.SIGINT
    assert "of 200 jobs are done and kept. Next: qverify suite resume" in capsys.readouterr().err


def test_a_suite_whose_time_ran_out_is_resumed_without_an_id(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    suite(desk, 'boards = ["desk"]\nrepeats = 3\nsuite_timeout = 0.001')
    assert main(["suite", "run", "s.toml", "--json", "S.json"]) == 3
    found = json.loads((desk / "S.json").read_text())
    assert found["state"] == "cancelled" and found["why"].startswith("timeout of the suite")
    assert f"Next: qverify suite resume {found['id'][:12]}" in capsys.readouterr().err
    suite(desk, 'boards = ["desk"]')
    assert main(["suite", "run", "s.toml"]) == 0
    capsys.readouterr()
    assert main(["suite", "resume"]) == 3  # in 1 ms again
    err = capsys.readouterr().err
    assert f"run {found['id'][:12]} (s): 3 of 3 jobs left; it was cancelled (timeout of the suite: 0.001 s)" in err


def test_a_second_suite_run_on_one_database_is_refused(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from qverify_farm.store.database import open_database

    suite(desk, 'boards = ["desk"]')
    held = open_database("", "qverify serve")
    assert main(["suite", "run", "s.toml"]) == 2
    held.close()
    err = capsys.readouterr().err
    assert "in use by qverify serve (process" in err and err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "none.toml"], "none.toml: No such file or directory"),
        (["run", "s.toml", "--json", "no/S.json"], "no/S.json: cannot be written"),
        (["run", "s.toml", "--report", "pdf=x"], "--report pdf=x: wanted FORMAT=FILE"),
        (["run", "s.toml", "--json", "x", "--html", "x"], "two reports go to x"),
        (["run", "s.toml", "--label", "x"], "--label x: wanted KEY=VALUE"),
        (["run", "s.toml", "--database", "mysql://x"], "wanted postgresql://USER@HOST/NAME"),
        (["status"], "there are no runs yet"),
        (["resume", "abc"], "run 'abc': there is none"),
        (["cancel", "../x"], "wanted an id"),
        (["bisect", "s.toml", "--list", "V", "--flash", "x"], "wanted a command with {version} in it"),
        (["bisect", "s.toml", "--list", "V", "--flash", "x {version}"], "got 1 version; wanted 2"),
    ],
)
def test_a_mistake_is_one_line_and_exit_2(
    desk: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    suite(desk, 'boards = ["desk"]')
    (desk / "V").write_text("1.0\n")
    assert main(["suite", *words]) == 2
    err = capsys.readouterr().err
    assert said in err and err.count("\n") == 1


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_a_report_that_cannot_be_written_hides_neither_the_verdict_nor_the_others(
    desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suite(desk, 'boards = ["desk"]')
    assert main(["suite", "run", "s.toml", "--json", "/dev/full", "--junit", "S.xml"]) == 2
    ended = capsys.readouterr()
    assert "PASSED" in ended.out and (desk / "S.xml").stat().st_size > 0
    assert "/dev/full: cannot be written: No space left on device" in ended.err


def test_all_mistakes_of_a_file_are_reported_before_anything_runs(
    desk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suite(desk, 'boards = ["dek", "soc=y"]\ninputs = ["no.npy"]\n[options]\nsed = 1')
    assert main(["suite", "run", "s.toml"]) == 2 == main(["suite", "plan", "s.toml"])
    err = capsys.readouterr().err
    assert "qverify: s.toml: 4 mistakes:\n" in err and "did you mean desk?" in err and not (desk / "state").exists()


def test_bisect_finds_the_first_bad_version(desk: Path, capsys: pytest.CaptureFixture[str]) -> None:
    suite(desk, 'boards = ["lab"]')
    flash = desk / "flash.py"
    flash.write_text(
        "import sys\nversion = float(sys.argv[1])\nif version == 1.2: sys.exit('no such image')\n"
        "uri = 'local' if version < 1.3 else 'faulty:local?fault=bitflip@relu2_QuantizeLinear_Output'\n"
        "open('boards.toml', 'w').write(f'[boards.lab]\\nuri = \"{uri}\"\\n')\n"
    )
    (desk / "boards.toml").write_text('[boards.lab]\nuri = "local"\n')
    (desk / "V.txt").write_text("1.0\n1.1\n1.2\n1.3\n1.4\n")
    words = [
        "bisect",
        "s.toml",
        "--list",
        "V.txt",
        "--flash",
        f"{sys.executable} flash.py {{version}}",
        "--json",
        "B.json",
    ]
    assert main(["suite", *words]) == 0
    out, err = capsys.readouterr()
    assert out == "the first bad version is 1.3 or one of 1.2, which gave no verdict; 1.1 is good\n"
    assert "1.2: INCONCLUSIVE: the flash command ended with 1: no such image" in err
    assert json.loads((desk / "B.json").read_text())["bad"] == "1.3"


def test_the_example_of_the_document_runs(desk: Path, digits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from qverify.session.other_jobs.demo import write_example

    write_example(str(desk / "nets"))
    (desk / "boards.toml").write_text(example_of(ROOT / "farm" / "SUITES.md", "boards.toml"))
    (desk / "nightly.toml").write_text(example_of(ROOT / "farm" / "SUITES.md", "nightly.toml"))
    assert main(["suite", "plan", "nightly.toml"]) == 0, capsys.readouterr().err
    assert main(["suite", "run", "nightly.toml"]) == 0, capsys.readouterr()


def test_no_result_is_lost_or_doubled_when_processes_are_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([*(str(ROOT / name) for name in ("verifier", "agents", "farm")), str(ROOT)])
    )
    found = Killed(tmp_path, 24, 3).run(["suite", "agent", "suite"])
    assert (found["runs"], found["lost"], found["duplicated"]) == (24, 0, 0) and found["killed"]["suite"] == 2
