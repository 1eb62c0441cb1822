"""Whatever ends a start or a run, nothing of it stays behind, and the way down hides nothing of what was found."""

from __future__ import annotations

from pathlib import Path

import pytest
from qverify_agents.address import Address
from qverify_agents.boards import container
from qverify_agents.deadline import Deadline
from qverify_agents.errors import BoardUnreachable

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
