"""The SSH configuration means what it means to OpenSSH: names of files, policies."""

from __future__ import annotations

from pathlib import Path

import pytest
from qverify_agents.ssh.host_settings import HostSettings, resolve


def resolved(folder: Path, text: str) -> HostSettings:
    (folder / "config").write_text(f"Host board\n  HostName board.lab\n  User me\n  Port 2222\n{text}")
    return resolve("board", str(folder / "config"))


@pytest.mark.parametrize(
    ("value", "files"),
    [
        ('"/a b/kh"', ["/a b/kh"]),
        ('"/a b/kh" /c ~root/d', ["/a b/kh", "/c", "/root/d"]),
        ("/one /two", ["/one", "/two"]),
        ("/known_%h_%p_%r_%n_%%h", ["/known_board.lab_2222_me_board_%h"]),
    ],
)
def test_files_of_known_hosts(value, files, tmp_path):
    settings = resolved(tmp_path, f"  UserKnownHostsFile {value}\n  GlobalKnownHostsFile /dev/null\n")
    assert settings.known_hosts == (*files, "/dev/null")


def test_names_of_identities(tmp_path):
    for name in ("board.lab key", "board-2222-me.pub"):
        (tmp_path / name).touch()
    settings = resolved(
        tmp_path, f'  IdentityFile "{tmp_path}/%h key"\n  IdentityFile {tmp_path}/%n-%p-%r\n  IdentityFile /none\n'
    )
    assert settings.identities == (f"{tmp_path}/board.lab key", f"{tmp_path}/board-2222-me")


@pytest.mark.parametrize(("value", "policy"), [("no", "accept-new"), ("accept-new", "accept-new"), ("yes", "strict")])
def test_policies_of_host_keys(value, policy, tmp_path):
    assert resolved(tmp_path, f"  StrictHostKeyChecking {value}\n").host_key_policy == policy


def test_paths_as_windows_writes_them(monkeypatch):
    """`ssh -G` prints several files in one line, without quotes."""
    from qverify_agents.ssh.host_settings import _split_paths

    monkeypatch.setenv("PROGRAMDATA", "C:\\ProgramData")
    assert _split_paths("C:\\Users\\A B/.ssh/known_hosts C:\\Users\\A B/.ssh/known_hosts2") == [
        "C:\\Users\\A B/.ssh/known_hosts",
        "C:\\Users\\A B/.ssh/known_hosts2",
    ]
    assert _split_paths("__PROGRAMDATA__\\ssh/ssh_known_hosts __PROGRAMDATA__\\ssh/ssh_known_hosts2") == [
        "C:\\ProgramData\\ssh/ssh_known_hosts",
        "C:\\ProgramData\\ssh/ssh_known_hosts2",
    ]
