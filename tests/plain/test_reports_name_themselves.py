"""A report says which qverify made it, when, of which model and on which boards: in JSON and in text."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from qverify import __version__
from qverify.cli.main import main
from qverify.report.clock import VARIABLE

from tests.plain.three_sides import record, two

THEN = "2026-01-31T12:00:00+00:00"


@pytest.fixture
def then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "2026-01-31T13:00:00+01:00")


@pytest.fixture
def models(digits: Path) -> str:
    return f"{digits}/digits_quant.onnx"


def test_the_json_of_the_main_job(models, then, tmp_path):
    path = tmp_path / "r.json"
    assert main(["-m", models, "-b", "local", "-b", "finals:local", "--json", str(path)]) == 0
    found = json.loads(path.read_text())
    assert (found["qverify"], found["date"]) == (__version__, THEN)
    assert found["boards"] == ["local", "finals:local"]
    assert [m["kind"] for m in found["models"]] == ["quant.onnx"]
    versions = {s["name"]: s["version"] for s in found["sides"]}
    assert versions["simulator"] == __version__


def test_a_replay_names_the_models_as_the_run_did(models, then, tmp_path, capsys):
    capture = str(tmp_path / "capture")
    assert main(["-m", models, "-b", "local", "--capture", capture]) == 0
    ran = capsys.readouterr().out.splitlines()[0]
    assert ran == f"qverify {__version__}; 2026-01-31 12:00:00 UTC; model digits_quant.onnx; board local"
    assert main(["replay", capture]) == 0
    replayed = capsys.readouterr().out.splitlines()[0]
    assert replayed.startswith(ran.partition("; board")[0]) and replayed.endswith("board local")


def test_the_json_of_triage(models, then, tmp_path):
    path = tmp_path / "t.json"
    assert main(["triage", "-m", models, "-b", "local", "--json", str(path)]) == 0
    found = json.loads(path.read_text())
    assert (found["qverify"], found["date"], found["board"]) == (__version__, THEN, "local")


def test_without_the_variable_the_date_is_that_of_this_host():
    before = datetime.now(UTC).replace(microsecond=0)
    date = datetime.fromisoformat(two(record("reference"), record("board")).date)
    assert before <= date <= datetime.now(UTC)


def test_a_clock_that_is_no_time_is_one_line(models, monkeypatch, capsys):
    monkeypatch.setenv(VARIABLE, "yesterday")
    assert main(["-m", models, "-b", "local"]) == 2
    assert (
        capsys.readouterr().err == f"qverify: {VARIABLE}: got 'yesterday', wanted a time such as 2026-01-31T12:00:00Z\n"
    )
