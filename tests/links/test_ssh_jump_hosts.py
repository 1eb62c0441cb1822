"""Boards behind jump hosts and proxy commands."""

from __future__ import annotations

import os
import threading
import time

import pytest

from tests.links.ssh_boards import OPENSSH, run


@OPENSSH
def test_a_jump_host(openssh, digits):
    openssh.write_config(
        f"Host behind\n  HostName 127.0.0.1\n  Port {openssh.port}\n  User {os.environ.get('USER') or 'root'}\n  IdentityFile {openssh.key}\n"
        f"  IdentitiesOnly yes\n  UserKnownHostsFile {openssh.known}\n  ProxyJump testboard\n"
    )
    assert run(digits, openssh.board.replace("testboard", "behind")) == 0


@OPENSSH
def test_several_jump_hosts(openssh, digits):
    hop = openssh.config.read_text().partition("HostName")[2]
    more = "".join(f"Host hop{i}\n  HostName{hop}" for i in (1, 2))
    openssh.write_config(f"{more}Host far\n  HostName{hop}  ProxyJump hop1,hop2\n")
    before = threading.active_count()
    assert run(digits, openssh.board.replace("testboard", "far")) == 0
    end = time.monotonic() + 5
    while threading.active_count() > before and time.monotonic() < end:
        time.sleep(0.1)
    assert threading.active_count() <= before  # every hop's connection is closed


@OPENSSH
def test_a_proxy_command_is_run_by_a_shell(openssh, digits):
    """With exec before it, as many configurations have."""
    relay = openssh.folder / "relay.py"
    relay.write_text(
        "import os, socket, sys, threading\n"
        "c = socket.create_connection((sys.argv[1], int(sys.argv[2])))\n"
        "out = lambda: [os.write(1, d) for d in iter(lambda: c.recv(65536), b'')]\n"
        "threading.Thread(target=out, daemon=True).start()\n"
        "[c.sendall(d) for d in iter(lambda: os.read(0, 65536), b'')]\n"
    )
    openssh.write_config(f"  ProxyCommand exec python3 {relay} %h %p\n")
    assert run(digits, openssh.board) == 0


@OPENSSH
@pytest.mark.parametrize("before", ["", "head -c 5; "], ids=["at once", "after our banner"])
def test_a_proxy_command_that_ends_in_the_handshake(before, openssh, digits, capsys):
    openssh.write_config(f"  ProxyCommand {before}exit 7\n")
    assert run(digits, openssh.board) == 3
    assert "ProxyCommand of the SSH configuration ended with status 7" in capsys.readouterr().err
