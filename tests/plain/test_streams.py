"""What becomes of standard output and standard error changes no verdict: closed, full, read by nobody, of another encoding."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from itertools import cycle, islice
from pathlib import Path

import numpy as np
import pytest

PROGRAM = f"{sys.executable} -m qverify"
FULL = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")


def shell(command: str, **more: str) -> subprocess.CompletedProcess[bytes]:
    """Run by bash; `qverify` in it is ours. pipefail: the status is that of qverify, not of what reads it."""
    script = f'set -o pipefail; qverify() {{ {PROGRAM} "$@"; }}; {command}'
    env = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    return subprocess.run(["bash", "-c", script], capture_output=True, env=env | more, timeout=120, check=False)


def quiet(done: subprocess.CompletedProcess[bytes]) -> None:
    for word in (b"Traceback", b"internal error", b"Exception ignored", b"Error:"):
        assert word not in done.stderr, done.stderr


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    """Words of `compare` by the exit status they end with."""
    folder = tmp_path_factory.mktemp("dumps")
    values = np.arange(12, dtype=np.float32)
    np.savez(folder / "a.npz", y=values, z=values)
    np.savez(folder / "same.npz", y=values, z=values)
    np.savez(folder / "other.npz", y=values + 1, z=values)
    np.savez(folder / "less.npz", y=values)
    others = {0: "same", 1: "other", 3: "less"}
    return {status: f"compare {folder}/a.npz {folder}/{name}.npz -r True" for status, name in others.items()}


PRINTING = ["--help", "--version", "verify --help", "compare --help", "schema"]
PRINTING_ENDS = ["| true", "| head -c 1", ">&-", "2>&-", ">&- 2>&-", "<&-"]
ENDS = ["| true", "| head -c 1", ">&-", "2>&-", ">&- 2>&- <&-", "2>/dev/full"]
REPORTS, STATUSES = ["", "--json -", "--json {file}"], [0, 1, 3]


@pytest.mark.parametrize(("words", "end"), list(zip(PRINTING * 2, islice(cycle(PRINTING_ENDS), 10), strict=True)))
def test_what_only_prints(words: str, end: str) -> None:
    """Every output, every end: 10 of the 30 pairs, each of which takes a process."""
    done = shell(f"qverify {words} {end}")
    quiet(done)
    assert done.returncode == 0


@pytest.mark.parametrize(("end", "at"), [(end, at) for at, end in enumerate(ENDS)])
@pytest.mark.parametrize("status", STATUSES)
def test_a_verdict_keeps_its_exit_status(end: str, at: int, status: int, dumps: dict[int, str], tmp_path: Path) -> None:
    """Every pair of an end, a report and a status: a Latin square of them instead of all 54."""
    json_option = REPORTS[(at + STATUSES.index(status)) % len(REPORTS)]
    if "full" in end and not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    file = tmp_path / "r.json"
    done = shell(f"qverify {dumps[status]} {json_option.format(file=file)} {end}")
    quiet(done)
    assert done.returncode == status
    if "file" in json_option:
        assert json.loads(file.read_text())["verdict"] == {0: "PASSED", 1: "FAILED", 3: "INCONCLUSIVE"}[status]


@pytest.mark.parametrize("end", ["| true", ">&-", "2>&-", "2>/dev/full"])
def test_the_main_job_keeps_its_exit_status(end: str, digits: Path) -> None:
    words = f"-m {digits}/digits_quant.onnx -b"
    for board, status in (("local", 0), ("'faulty:local?fault=bitflip@relu2_QuantizeLinear_Output'", 1)):
        done = shell(f"qverify {words} {board} {end}")
        quiet(done)
        assert done.returncode == status, done


@pytest.mark.parametrize("end", ["2>&-", "2>/dev/full", ">&- 2>&-"])
def test_a_mistake_keeps_its_exit_status(end: str, tmp_path: Path) -> None:
    for words in (f"compare {tmp_path}/none.npz {tmp_path}/none.npz", "nonsense", "verify --nonsense"):
        assert shell(f"qverify {words} {end}").returncode == 2


@FULL
def test_a_report_that_a_full_disk_swallows_is_no_pass(dumps: dict[int, str]) -> None:
    for status, words in dumps.items():
        for more in ("", "--json -"):
            done = shell(f"qverify {words} {more} >/dev/full")
            quiet(done)
            assert done.returncode == (status or 2)
            assert done.stderr.count(b"\n") == 1 and b"standard output: No space left on device" in done.stderr


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252", "ascii:strict", "koi8-r", "utf-16", "utf-8"])
def test_an_encoding_that_lacks_a_letter(encoding: str, tmp_path: Path) -> None:
    """Names of tensors, of files and of unknown words, in every message and report."""
    values, name = np.arange(12, dtype=np.float32), "Zürich→網\U0001f600"
    np.savez(tmp_path / f"{name}a.npz", **{name: values})
    np.savez(tmp_path / "b.npz", **{name: values + 1})
    folder = str(tmp_path)
    for words, status in (
        (f"compare '{folder}/{name}a.npz' {folder}/b.npz -r True", 1),
        (f"compare '{folder}/{name}a.npz' {folder}/b.npz --json -", 1),
        (f"compare '{folder}/{name}' {folder}/b.npz", 2),
        (f"'{name}'", 2),
        (f"verify -m '{name}' -b local", 2),
        (r"verify -m $'\xff\xfe.onnx' -b local", 2),
    ):
        done = shell(f"qverify {words}", PYTHONIOENCODING=encoding, LC_ALL="C.UTF-8")
        quiet(done)
        assert done.returncode == status, (words, done)
    done = shell(
        f"qverify compare '{folder}/{name}a.npz' {folder}/b.npz", LC_ALL="C", PYTHONCOERCECLOCALE="0", PYTHONUTF8="0"
    )
    quiet(done)
    assert done.returncode == 1
