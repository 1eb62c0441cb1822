"""The plugin of pytest, in runs of pytest by pytester."""

from __future__ import annotations

import json
import sys
import xml.etree.ElementTree as xml
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from qverify import example

pytest_plugins = ["pytester"]

QUANT = str(Path(example.__file__).parent / "digits_quant.onnx")
FAULTY = "faulty:local?fault=bitflip@relu2_QuantizeLinear_Output"
TEST = f"""
def test_digits(assert_matches):
    report = assert_matches({QUANT!r}, dump_all_nodes_results=True)
    assert report.passed
"""


@pytest.fixture
def run(pytester):
    """Runs pytest in a process of its own (in this one, pytester would load modules twice) with the plugin, which is there
    by its entry point where qverify is installed as it is now."""
    installed = any(e.value == "qverify.pytest_plugin" for e in entry_points(group="pytest11"))
    plugin = [] if installed else ["-p", "qverify.pytest_plugin"]
    return lambda *words: pytester.runpytest_subprocess(*plugin, "-p", "no:randomly", "-p", "no:cacheprovider", *words)


def test_the_entry_point_is_declared():
    project = Path(__file__).resolve().parents[2] / "pyproject.toml"
    if sys.version_info < (3, 11) or not project.exists():
        pytest.skip("no project file")
    import tomllib

    declared = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["entry-points"]
    assert declared == {"pytest11": {"qverify": "qverify.pytest_plugin"}}


def test_a_board_that_matches(pytester, run):
    pytester.makepyfile(TEST)
    result = run("--qverify-board=local", "--qverify-reports=reports", "--junitxml=j.xml")
    result.assert_outcomes(passed=1)
    files = sorted(p.suffix for p in (pytester.path / "reports").iterdir())
    assert files == [".html", ".json"]
    document = json.loads(next((pytester.path / "reports").glob("*.json")).read_text())
    properties = {p.get("name"): p.get("value") for p in xml.parse(pytester.path / "j.xml").iter("property")}
    assert document["verdict"] == properties["qverify-verdict"] == "PASSED"
    assert Path(properties["qverify-html"]).is_file() and "qverify-blame" not in properties


def test_a_board_that_does_not(pytester, run):
    """The message is the verdict in words, without qverify's own lines; the board is of the configuration."""
    pytester.makepyfile(TEST)
    pytester.makeini(f"[pytest]\nqverify_board = {FAULTY}\n")
    result = run("--qverify-reports=reports")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["qverify: FAILED", "Sim and Arm result Strict check FAILED*", "blame: *relu2_QuantizeLinear_Output*"]
    )
    result.stdout.fnmatch_lines(["*report: *reports*test_digits*.html"])
    assert "pytest_plugin.py" not in result.stdout.str()


def test_inconclusive_is_no_pass_and_a_mistake_is_one_line(pytester, run):
    pytester.makepyfile(TEST + "\ndef test_it(assert_matches): assert_matches(['nope.onnx'])")
    result = run("--qverify-board=nohost.invalid")
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["qverify: INCONCLUSIVE"])
    result.stdout.fnmatch_lines(["*qverify: nope.onnx: No such file or directory*"])
    result.stdout.no_fnmatch_line("*session/models.py*")
    result.stdout.no_fnmatch_line("*exception*")  # only what is said to the user, not what led to it


def test_without_a_board(pytester, run):
    pytester.makepyfile(TEST)
    result = run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["no board: give pytest --qverify-board BOARD*"])


def test_a_board_of_the_call_and_two_calls(pytester, run):
    pytester.makepyfile(
        f"""
        def test_digits(assert_matches):
            assert_matches({QUANT!r}, "local")
            assert_matches([{QUANT!r}], board="local", seed=3)
        """
    )
    run("--qverify-board=nohost.invalid", "--qverify-reports=reports").assert_outcomes(passed=1)
    assert len(list((pytester.path / "reports").iterdir())) == 4


def test_it_costs_nothing_where_it_is_not_used(pytester):
    """A run that never asks for the fixture loads neither numpy nor any room of qverify."""
    pytester.makepyfile(
        """
        import sys

        def test_nothing_was_loaded():
            ours = {n for n in sys.modules if n.startswith("qverify")}
            assert ours == {"qverify", "qverify.pytest_plugin"} and "numpy" not in sys.modules
        """
    )
    words = ["-p", "no:hypothesispytest", "-p", "no:randomly", "-p", "no:xdist", "-p", "no:cacheprovider"]
    code = f"""
import os, sys
os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
import pytest
sys.exit(pytest.main({["-p", "qverify.pytest_plugin", *words]!r}))
"""
    script = pytester.path / "run.py"
    script.write_text(code)
    result = pytester.run(sys.executable, script)
    assert result.ret == 0, result.stdout.str()
