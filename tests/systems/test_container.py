"""A container as a board: image built by the project's script, agent by exec, removed with the run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from qverify.cli.main import main

ROOT = Path(__file__).parents[2]
MISSING = next((p for p in ("podman", "runc", "apt-get") if shutil.which(p) is None), "")
pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason=f"no {MISSING} on this machine"),
    pytest.mark.skipif(os.geteuid() != 0, reason="containers of this test are made by root"),
    pytest.mark.skipif(
        not Path("/usr/share/keyrings/debian-archive-keyring.gpg").exists(), reason="no debian-archive-keyring"
    ),
]
CONTAINERS = """
[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
"""


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """In a store of its own; nothing of the machine's podman is touched."""
    folder = tmp_path_factory.mktemp("podman")
    (folder / "containers.conf").write_text(CONTAINERS)
    (folder / "storage.conf").write_text(
        f'[storage]\ndriver = "vfs"\ngraphroot = "{folder}/st"\nrunroot = "{folder}/rr"\n'
    )
    before = dict(os.environ)
    os.environ["CONTAINERS_CONF"] = str(folder / "containers.conf")
    os.environ["CONTAINERS_STORAGE_CONF"] = str(folder / "storage.conf")
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "build_board", "podman:qvtest"], capture_output=True, text=True, timeout=300
    )
    if done.returncode:
        pytest.skip(f"podman cannot make images here: {done.stderr.strip()[-200:]}")
    probe = subprocess.run(
        ["podman", "run", "--rm", "--network", "none", "qvtest", "/bin/true"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    if probe.returncode:
        pytest.skip(f"podman cannot run containers here: {probe.stderr.strip()[-200:]}")
    try:
        yield "podman:qvtest"
    finally:
        subprocess.run(["podman", "rm", "-af", "-t", "0"], capture_output=True, timeout=60, check=False)
        subprocess.run(["podman", "rmi", "-af"], capture_output=True, timeout=60, check=False)
        os.environ.clear()
        os.environ.update(before)


def containers() -> list[str]:
    done = subprocess.run(["podman", "ps", "-aq"], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.split()


def test_verified_in_a_container_that_goes_with_the_run(image, digits, capsys):
    assert main(["-m", str(digits / "digits_quant.onnx"), "-b", image, "-r"]) == 0
    assert "Sim and Arm result Strict check PASSED" in capsys.readouterr().out
    assert containers() == []


def test_a_faulty_one_is_blamed(image, digits, capsys):
    board = f"faulty:{image}?fault=bitflip@relu2_QuantizeLinear_Output"
    assert main(["-m", str(digits / "digits_quant.onnx"), "-b", board, "-r"]) == 1
    assert "blame: board at relu2_QuantizeLinear_Output" in capsys.readouterr().out
    assert containers() == []


@pytest.mark.parametrize(
    ("board", "status", "said"),
    [
        ("podman:no-such-image", 3, "podman says"),
        ("podman:", 2, "wanted podman:IMAGE"),
        ("podman:x?engine=zork", 2, "docker or podman"),
    ],
)
def test_what_cannot_be_started_is_one_line(image, digits, capsys, board, status, said):
    assert main(["-m", str(digits / "digits_quant.onnx"), "-b", board]) == status
    error = capsys.readouterr().err
    assert said in error and len(error.strip().splitlines()) == 1
