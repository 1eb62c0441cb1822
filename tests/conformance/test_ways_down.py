"""Whatever ends a start or a run, nothing of it stays behind, and the way down hides nothing of what was found."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from qverify_agents.address import Address
from qverify_agents.boards import container, local
from qverify_agents.command_shell import CommandShell
from qverify_agents.deadline import Deadline
from qverify_agents.errors import BoardUnreachable, LinkTimeout
from qverify_agents.interfaces import ALL_FEATURES
from qverify_agents.links import exec_pipe
from qverify_agents.links.openssh import open_openssh
from qverify_agents.protocol.client import Agent

SLOW, INTERRUPTED, REFUSED = "exec sleep 30", "kill -INT $PPID; exec sleep 30", "echo no such image >&2; exit 125"
# at Ctrl-C subprocess.run kills what it started and waits no longer; the interpreter warns of it
UNWAITED = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


def program(folder: Path, name: str, start: str, end: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program of this name, first on the PATH, that notes its words; start, end: what it does then."""
    (folder / "bin").mkdir()
    fake = folder / "bin" / name
    fake.write_text(f'#!/bin/sh\necho "$*" >>{folder}/said\ncase "$*" in rm*|*"-O exit"*) {end};; *) {start};; esac\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}/bin:/usr/bin:/bin")
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder / "said"


@UNWAITED
@pytest.mark.parametrize(("engine", "words"), [("docker", "rm -f"), ("podman", "rm -f -t 0")])
@pytest.mark.parametrize(
    ("start", "kind"), [(SLOW, BoardUnreachable), (INTERRUPTED, KeyboardInterrupt), (REFUSED, BoardUnreachable)]
)
def test_a_container_that_did_not_come_up_is_removed(
    start: str,
    kind: type[BaseException],
    engine: str,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In the words the engine knows: docker's rm has no -t, podman's waits ten seconds without."""
    said = program(tmp_path, engine, start, "exit 0", monkeypatch)
    with pytest.raises(kind):
        container.up(Address(engine, "image"), Deadline(1.0))
    run, removed = said.read_text().splitlines()
    assert removed == f"{words} {run.split('--name ')[1].split()[0]}"


def test_why_a_container_did_not_come_up_is_said_after_a_long_pull(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, "docker", f"seq 2000 >&2; {REFUSED}", "exit 0", monkeypatch)
    with pytest.raises(BoardUnreachable, match=r"docker says: no such image$"):
        container.up(Address("docker", "image"), Deadline(10.0))


@UNWAITED
@pytest.mark.parametrize(
    ("start", "end", "kind"),
    [
        (SLOW, "exit 0", BoardUnreachable),
        (INTERRUPTED, "exit 0", KeyboardInterrupt),
        (REFUSED, "exec sleep 30", BoardUnreachable),
    ],
)
def test_an_ssh_that_did_not_connect_leaves_no_folder(
    start: str, end: str, kind: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, "ssh", start, end, monkeypatch)
    with pytest.raises(kind):
        open_openssh(Address("ssh", "somewhere"), Deadline(1.0))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bin", "said"]


def test_a_deadline_that_has_passed_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "ssh", "exit 0", "exit 0", monkeypatch)
    with pytest.raises(LinkTimeout):
        open_openssh(Address("ssh", "somewhere"), Deadline(0.0))
    assert [p.name for p in tmp_path.iterdir()] == ["bin"]


def test_a_way_down_that_fails_is_no_error_of_a_finished_run() -> None:
    """And the ones after it are gone, too."""
    gone = []

    def fails() -> None:
        gone.append("fails")
        raise subprocess.TimeoutExpired("podman rm", 60)

    link = exec_pipe.open_link(local.plainer(Address("local")), Deadline(10))
    agent = Agent(link, ALL_FEATURES, 10, at_close=lambda: gone.append("first"))
    agent.at_close(fails)
    with agent:
        agent.ping()
    agent.close()
    assert gone == ["fails", "first"]


def test_a_shell_ends_its_connection_once() -> None:
    ended: list[int] = []
    shell = CommandShell(["/bin/sh", "-c"], lambda: ended.append(1))
    shell.start("exec cat", Deadline(5))
    shell.close()
    shell.close()
    assert ended == [1]
