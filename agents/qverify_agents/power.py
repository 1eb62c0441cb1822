"""A board reset: an emulated one by its monitor, another by the command its inventory entry names."""

from __future__ import annotations

import subprocess
import time

from qverify_agents.connect import connect
from qverify_agents.deadline import Deadline
from qverify_agents.emulation import machine
from qverify_agents.errors import BadAddress, BoardBusy, BoardUnreachable, LinkError
from qverify_agents.inventory import boards

ASK_S = 10.0  # an attempt to reach it


def reset_board(name: str, deadline_s: float) -> float:
    """Seconds until its agent answered again. BadAddress where nothing says how to reset it, BoardUnreachable where the
    command fails or the board does not come back."""
    start, deadline = time.monotonic(), Deadline(deadline_s, name)
    if name.startswith("qemu:"):
        found = machine.running(name.removeprefix("qemu:"))
        if found is None:
            raise BoardUnreachable(f"{name} is not up; qverify boards up {name}")
        machine.reset(found, deadline)
    else:
        _commanded(name, deadline)
    _wait_until_it_answers(name, deadline)
    return time.monotonic() - start


def _commanded(name: str, deadline: Deadline) -> None:
    board = boards().get(name)
    command = (board.reset or board.power) if board is not None else ""
    if not command:
        raise BadAddress(f"{name}: boards.toml has no reset or power command for it")
    try:
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=deadline.left(),
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise BoardUnreachable(f"{name}: {command!r} does not end in time") from None
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise BoardUnreachable(
            f"{name}: {command!r} ended with status {done.returncode}{': ' + lines[-1][:200] if lines else ''}"
        )


def _wait_until_it_answers(name: str, deadline: Deadline) -> None:
    while True:
        try:
            connect(name, min(ASK_S, deadline.left())).close()
            return
        except BadAddress:
            raise
        except BoardBusy:
            return  # it answers
        except LinkError as error:
            try:
                time.sleep(min(1.0, deadline.left()))
            except LinkError:
                raise BoardUnreachable(f"{name} does not come back: {error}") from error
