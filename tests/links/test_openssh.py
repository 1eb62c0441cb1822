"""The openssh backend: what the address says of keys holds there, too, and its master connection ends with us."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from qverify_agents.errors import BadAddress, BoardUnreachable

from tests.links.servers import SSHD, Server, keygen, said_by

pytestmark = pytest.mark.skipif(SSHD is None, reason="no sshd on this machine")


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A folder for temporary files whose name leaves room for a socket."""
    with tempfile.TemporaryDirectory(prefix="q", dir="/tmp") as name:
        yield Path(name)


def says(openssh: Server, options: str = "&backend=openssh") -> bytes:
    return said_by(openssh, options)


def host_key(path: Path) -> str:
    return " ".join(path.read_text().split()[:2])


def test_a_pinned_host_key_decides_alone(openssh, tmp_path):
    keygen(tmp_path / "other")
    wrong, right = (f"&backend=openssh&host_key={host_key(tmp_path / name)}" for name in ("other.pub", "host.pub"))
    for more in ("", "&accept_new_host_key=1"):
        with pytest.raises(BoardUnreachable, match="ssh says"):
            says(openssh, wrong + more)
    openssh.known.write_text("")
    assert says(openssh, right) == b"hello\n"
    assert openssh.known.read_text() == ""


@pytest.mark.parametrize("backend", ["paramiko", "openssh"])
def test_the_identity_of_an_address_is_used(backend, openssh, tmp_path):
    openssh.config.write_text(openssh.config.read_text().replace(str(openssh.key), "/nonexistent"))
    folder = tmp_path / "100% mine"
    folder.mkdir()
    (folder / "key").write_bytes(openssh.key.read_bytes())
    (folder / "key").chmod(0o600)
    with pytest.raises(BoardUnreachable):
        says(openssh, f"&backend={backend}")
    assert says(openssh, f"&backend={backend}&identity={folder}/key".replace("%", "%25")) == b"hello\n"
    with pytest.raises(BadAddress, match="identity=~/nope: no such file"):
        says(openssh, f"&backend={backend}&identity=~/nope")


OPENS = """
import sys, time
from qverify_agents.address import parse
from qverify_agents.deadline import Deadline
from qverify_agents.links.ssh import open_shell
shell = open_shell(parse(sys.argv[1]), Deadline(20))
print("up", flush=True)
time.sleep(60)
"""


def masters(folder: Path) -> list[str]:
    """Command lines of living ssh processes whose socket lies in the folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            line = (process / "cmdline").read_bytes().decode(errors="replace")
            if f"{folder}/qverify-ssh-" in line:
                found.append(line)
    return found


def test_a_killed_host_leaves_no_master_and_the_next_run_no_folder(openssh, temporary, monkeypatch):
    folder = temporary
    words = [sys.executable, "-c", OPENS, f"{openssh.board}&backend=openssh"]
    environment = {**os.environ, "TMPDIR": str(folder), "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(words, stdout=subprocess.PIPE, env=environment) as host:
        assert host.stdout is not None and host.stdout.readline() == b"up\n"
        assert len(masters(folder)) == 1
        monkeypatch.setattr("tempfile.tempdir", str(folder))
        (left,) = folder.iterdir()
        os.utime(left, (1, 1))
        assert says(openssh) == b"hello\n" and list(folder.iterdir()) == [left]  # in use
        host.kill()
    end = time.monotonic() + 10
    while masters(folder) and time.monotonic() < end:
        time.sleep(0.1)
    assert masters(folder) == []
    os.utime(left, (1, 1))
    assert says(openssh) == b"hello\n" and list(folder.iterdir()) == []
    assert masters(folder) == []


@pytest.mark.parametrize("name", ["with space", "100%h", 'a "quote"', "l" * 120])
def test_any_folder_for_temporary_files_does(name, openssh, temporary, tmp_path, monkeypatch):
    folder = temporary / name
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    pin = f"&backend=openssh&host_key={host_key(tmp_path / 'host.pub')}"
    assert says(openssh) == b"hello\n" and says(openssh, pin) == b"hello\n"
    assert list(folder.iterdir()) == []
