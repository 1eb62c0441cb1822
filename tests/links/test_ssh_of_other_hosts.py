"""SSH boards from a host like Windows (tests/windows_host.py), whose ssh shares no connection."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from qverify_agents.address import parse
from qverify_agents.deadline import Deadline
from qverify_agents.errors import BoardUnreachable
from qverify_agents.links.openssh import open_openssh

from tests import windows_host
from tests.links.servers import Server, keygen
from tests.links.ssh_boards import OPENSSH

pytestmark = OPENSSH


def on_windows(*words: str) -> tuple[int, str, str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [windows_host.ROOT, *sys.path]))}
    command = [sys.executable, windows_host.__file__, json.dumps([words])]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    status, out, err = json.loads(done.stdout)[0]
    return status, out, err


@pytest.mark.parametrize("backend", ["paramiko", "openssh"])
def test_a_board_is_verified(backend: str, openssh: Server, digits: Path):
    words = ["-m", str(digits / "digits_quant.onnx"), "-b", f"{openssh.board}&backend={backend}", "-r"]
    status, out, err = on_windows(*words)
    assert status == 0 and "Sim and Arm result Strict check PASSED" in out, err
    status, out, err = on_windows("perf", *words[:4])
    assert status == 0 and "relu2_QuantizeLinear_Output" in out, err


def test_a_proxy_command_names_the_backend_that_can(openssh: Server, digits: Path):
    openssh.write_config("  ProxyCommand nc %h %p\n")
    words = ["-m", str(digits / "digits_quant.onnx"), "-b", openssh.board]
    status, out, err = on_windows(*words)
    assert status != 0 and "has a ProxyCommand, which Windows cannot give to this backend" in out + err
    assert "Next: --ssh-backend openssh" in out + err


def test_without_a_shared_connection_each_command_has_its_own(openssh: Server):
    shell = open_openssh(parse(f"ssh://{openssh.board}"), Deadline(20), shares_connection=False)
    done = [shell.run("echo $SSH_CONNECTION", Deadline(20)).out for _ in range(2)]
    assert len(set(done)) == 2 and all(b"127.0.0.1" in one for one in done)
    shell.close()


def test_a_login_that_fails_is_told_as_ssh_tells_it(openssh: Server, tmp_path: Path):
    keygen(tmp_path / "other")
    openssh.config.write_text(openssh.config.read_text().replace(str(openssh.key), str(tmp_path / "other")))
    with pytest.raises(BoardUnreachable, match=r"ssh says: .*Permission denied"):
        open_openssh(parse(f"ssh://{openssh.board}"), Deadline(20), shares_connection=False)
    openssh.known.write_text("")
    with pytest.raises(BoardUnreachable, match="ssh says: Host key verification failed"):
        open_openssh(parse(f"ssh://{openssh.board}"), Deadline(20), shares_connection=False)
