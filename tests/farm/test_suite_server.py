"""`qverify suite run --server`: a suite runs on the boards of a service, and its report comes back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from qverify.cli.main import main
from qverify_farm.service.farm import Farm

from tests.farm.served import CULPRIT, MODEL, serving

pytestmark = pytest.mark.slow


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Farm]]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "quant.onnx").write_bytes(Path(MODEL).read_bytes())
    with serving(tmp_path / "farm") as opened:
        yield opened


def test_a_suite_runs_on_the_boards_of_a_server(
    service: tuple[str, Farm], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "s.toml").write_text('models = ["quant.onnx"]\nboards = ["all:soc=x"]\nrepeats = 2\n')
    words = ["suite", "run", "s.toml", "--server", service[0], "--label", "firmware=2", "--json", "S.json"]
    assert main(words) == 1
    out, err = capsys.readouterr()
    assert "FAILED: s: 4 jobs, 2 PASSED" in out and f"4 jobs on {service[0]}" in err
    found = json.loads((tmp_path / "S.json").read_text())
    assert (found["state"], found["labels"]) == ("done", {"firmware": "2"})
    by_board = {job["board"]: job for job in found["jobs"]}
    assert by_board["desk"]["verdict"] == "PASSED" and by_board["wrong"]["blame_node"] == CULPRIT
    assert not (tmp_path / "state" / "qverify" / "farm.db").exists()  # nothing was kept here


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--database", "x.db"], "--database is of a suite that runs here"),
        (["--workers", "tcp://127.0.0.1:1"], "--workers is of a suite that runs here"),
        (["--token", "x"], ""),
    ],
)
def test_a_mistake_is_one_line(
    service: tuple[str, Farm], tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], said: str
) -> None:
    (tmp_path / "s.toml").write_text('models = ["quant.onnx"]\nboards = ["nowhere"]\n')
    server = ["--server", service[0]] if said else []
    assert main(["suite", "run", "s.toml", *server, *words]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and (said or "--token is that of a server") in err


def test_boards_that_the_server_lacks_are_named(
    service: tuple[str, Farm], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "s.toml").write_text('models = ["quant.onnx"]\nboards = ["nowhere"]\n')
    assert main(["suite", "run", "s.toml", "--server", service[0]]) == 2
    assert "nowhere" in capsys.readouterr().err
