"""The SSH configuration means what it means to OpenSSH: names of files, policies."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from qverify_agents.errors import BadAddress, BoardUnreachable
from qverify_agents.ssh.host_settings import HostSettings, resolve, split_target


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


@pytest.mark.parametrize(
    ("target", "parts"),
    [
        ("board", ("", "board", None)),
        ("me@board:2222", ("me", "board", 2222)),
        ("me@there@board", ("me@there", "board", None)),
        ("[::1]:22", ("", "::1", 22)),
        ("::1", ("", "::1", None)),
    ],
)
def test_targets(target, parts):
    assert split_target(target) == parts


@pytest.mark.parametrize("target", ["", "-oProxyCommand=x", "@board", "-l@board", "me@", "me@-x"])
def test_targets_that_are_no_host(target):
    with pytest.raises(BadAddress, match="wanted HOST, USER@HOST or USER@HOST:PORT"):
        split_target(target)


@pytest.mark.parametrize("port", ["0", "65536", "ssh", "22x"])
def test_ports_that_are_none(port):
    with pytest.raises(BadAddress, match=f"port '{port}' is not a number from 1 to 65535"):
        split_target(f"board:{port}")


def test_without_the_ssh_program_the_configuration_means_the_same(tmp_path, monkeypatch):
    text = f"  UserKnownHostsFile {tmp_path}/kh\n  StrictHostKeyChecking no\n  ConnectTimeout 7\n  IdentitiesOnly yes\n"
    text += "  ProxyJump none\n  HostKeyAlias other\n"
    with_program = resolved(tmp_path, f"{text}  GlobalKnownHostsFile /dev/null\n  IdentityFile /none\n")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    without = resolved(tmp_path, f"{text}  GlobalKnownHostsFile /dev/null\n  IdentityFile /none\n")
    assert without == with_program
    assert (without.host, without.port, without.user, without.host_key_policy) == (
        "board.lab",
        2222,
        "me",
        "accept-new",
    )
    assert (without.connect_timeout_s, without.identities_only, without.known_as) == (7.0, True, "other")


def test_without_the_ssh_program_what_it_alone_reads_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert resolve("board").host == "board"  # there is no configuration
    for line in ("Include more", "  match host board"):
        with pytest.raises(BoardUnreachable, match="uses Include or Match, which needs the ssh program"):
            resolved(tmp_path, f"{line}\n")


def test_a_configuration_that_ssh_refuses_or_waits_for(tmp_path, monkeypatch):
    with pytest.raises(BoardUnreachable, match="ssh configuration for board: "):
        resolved(tmp_path, "  NoSuchOption 1\n")
    with pytest.raises(BadAddress, match=r"--ssh-config .*none: no such file"):
        resolve("board", str(tmp_path / "none"))

    def waits(command, **_):
        raise subprocess.TimeoutExpired(command, 15)

    monkeypatch.setattr(subprocess, "run", waits)
    with pytest.raises(BoardUnreachable, match="ssh -G board: no answer within 15 s"):
        resolved(tmp_path, "")
