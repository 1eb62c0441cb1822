"""The worker on a board behind SSH: pushed once, by a Python that has the library."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.links.servers import no_agents_of
from tests.links.ssh_boards import run
from tests.unsigned_weights import write_unsigned_example

ON = ["--runtime", "onnxruntime", "--python", sys.executable, "-r", "True"]


@pytest.fixture
def digits(digits: Path, tmp_path: Path) -> Path:
    """The packaged example with weights of uint8, which onnxruntime multiplies exactly on every processor."""
    return write_unsigned_example(digits, tmp_path / "unsigned")


@pytest.mark.parametrize("backend", ["paramiko", "openssh"])
def test_verified_and_the_second_time_nothing_is_pushed(server, backend, digits, tmp_path, capsys):
    """The input, of 256 bytes, is sent once for the run without taps and the run with them."""
    reports = []
    for _ in range(2):
        path = tmp_path / "r.json"
        assert run(digits, f"{server.board}&backend={backend}", *ON, "--json", str(path)) == 0
        reports.append(json.loads(path.read_text()))
    assert "nodes ran on CPUExecutionProvider" in capsys.readouterr().out
    assert reports[0]["link"]["cached_bytes"] == 256 and reports[1]["link"]["cached_bytes"] > 5000
    (worker,) = (server.cache / "bin").iterdir()
    assert worker.name.startswith("qverify_worker-") and worker.name.endswith(".pyz")
    assert no_agents_of(server.cache)


def test_a_worker_that_was_damaged_is_pushed_again(server, digits):
    assert run(digits, server.board, *ON) == 0
    (worker,) = (server.cache / "bin").iterdir()
    before = worker.read_bytes()
    worker.write_bytes(before[:-5])
    assert run(digits, server.board, *ON) == 0
    assert worker.read_bytes() == before


def test_a_board_without_the_library_says_so_and_what_to_do(server, digits, capsys):
    assert run(digits, server.board, "--runtime", "onnxruntime", "--python", "/nonexistent/python3") == 3
    printed = capsys.readouterr()
    assert "no Python with onnxruntime there (/nonexistent/python3:" in printed.out + printed.err
    assert "name a Python that has it by --python" in printed.out + printed.err
