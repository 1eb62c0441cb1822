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


@pytest.mark.parametrize(
    ("board", "status", "end"),
    [("local", 0, end) for end in ("| true", ">&-", "2>&-", "2>/dev/full")]
    + [("'faulty:local?fault=bitflip@relu2_QuantizeLinear_Output'", 1, end) for end in ("| true", "2>&-")],
)
def test_the_main_job_keeps_its_exit_status(board: str, status: int, end: str, digits: Path) -> None:
    done = shell(f"qverify -m {digits}/digits_quant.onnx -b {board} {end}")
    quiet(done)
    assert done.returncode == status, done


@pytest.mark.parametrize("end", ["2>&-", "2>/dev/full", ">&- 2>&-"])
def test_a_mistake_keeps_its_exit_status(end: str, tmp_path: Path) -> None:
    for words in (f"compare {tmp_path}/none.npz {tmp_path}/none.npz", "nonsense", "verify --nonsense"):
        assert shell(f"qverify {words} {end}").returncode == 2


@FULL
def test_a_report_that_a_full_disk_swallows_is_no_pass(dumps: dict[int, str]) -> None:
    for status, json_option in ((0, ""), (0, "--json -"), (1, ""), (3, "--json -")):
        done = shell(f"qverify {dumps[status]} {json_option} >/dev/full")
        quiet(done)
        assert done.returncode == (status or 2)
        assert done.stderr.count(b"\n") == 1 and b"standard output: No space left on device" in done.stderr


SEVERAL = r"""
import sys
from qverify.cli.main import main
_, statuses, *words = sys.argv
for command in "\0".join(words).split("\0;\0"):
    sys.argv[1:] = command.split("\0")
    with open(statuses, "a") as file:
        print(main(), file=file)
"""


@pytest.mark.parametrize("encoding", ["cp1252", "ascii:strict", "koi8-r", "utf-16"])
def test_an_encoding_that_lacks_a_letter(encoding: str, tmp_path: Path) -> None:
    """Names of tensors, of files and of unknown words, in every message and report; the commands of one process."""
    a, b, name = lacking(tmp_path)
    commands = {
        f"compare '{a}' {b} -r True": 1,
        f"compare '{a}' {b} --json -": 1,
        f"compare '{tmp_path}/{name}' {b}": 2,
        f"'{name}'": 2,
        f"verify -m '{name}' -b local": 2,
        r"verify -m $'\xff\xfe.onnx' -b local": 2,
    }
    (tmp_path / "several.py").write_text(SEVERAL)
    program, words = f"{sys.executable} {tmp_path}/several.py {tmp_path}/statuses", r" \; ".join(commands)
    done = shell(f"{program} {words}", PYTHONIOENCODING=encoding, LC_ALL="C.UTF-8")
    quiet(done)
    assert (tmp_path / "statuses").read_text().split() == list(map(str, commands.values())), done
    assert done.returncode == 0 and done.stderr.count(b"\n") >= 4 and done.stdout


def test_a_locale_that_lacks_a_letter(tmp_path: Path) -> None:
    a, b, _ = lacking(tmp_path)
    done = shell(f"qverify compare '{a}' {b}", LC_ALL="C", PYTHONCOERCECLOCALE="0", PYTHONUTF8="0")
    quiet(done)
    assert done.returncode == 1


def lacking(folder: Path) -> tuple[str, str, str]:
    """Returns two dumps that differ in a tensor of a name that most encodings lack, and that name."""
    values, name = np.arange(12, dtype=np.float32), "Zürich→網\U0001f600"
    np.savez(folder / f"{name}a.npz", **{name: values})
    np.savez(folder / "b.npz", **{name: values + 1})
    return f"{folder}/{name}a.npz", f"{folder}/b.npz", name
