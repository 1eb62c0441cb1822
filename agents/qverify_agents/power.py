"""Resets a board: an emulated one by its monitor, another by the command in its inventory entry, a place of labgrid by its
power port; and one that hangs."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from qverify_agents.address import parse
from qverify_agents.boards.labgrid import HeldPlace
from qverify_agents.connect import connect
from qverify_agents.deadline import Deadline
from qverify_agents.emulation import machine
from qverify_agents.errors import BadAddress, BoardBusy, BoardUnreachable, LinkError
from qverify_agents.inventory import ANY, entry_of, resolve
from qverify_agents.printable import last_line
from qverify_agents.process_group import end_group, own_group
from qverify_agents.protocol.client import Agent
from qverify_agents.signals_held import signals_held

ASK_S = 10.0  # for one attempt to reach it
MOST_SAID = 1 << 16
MOST_S = 1 << 63  # of its uptime: a larger number is ignored


def reset_board(name: str, deadline_s: float, force: bool = False, options: Mapping[str, str] | None = None) -> float:
    """Resets a board and returns the seconds until its agent answered again. Raises BadAddress if no command to reset
    it is known, BoardUnreachable if the command fails or the board does not come back."""
    address = parse(resolve(name, ANY)[0])
    if address.scheme == "labgrid":
        held = replace(address, options={**address.options, **(options or {})})
        with contextlib.closing(HeldPlace(held, Deadline(deadline_s, name))) as place:
            return _reset_place(name, place, deadline_s, force, options)
    start, deadline = time.monotonic(), Deadline(deadline_s, name)
    before = _uptime(name, deadline, force, options)
    if address.scheme == "qemu":
        emulated = machine.running(address.rest)
        if emulated is None:
            raise BoardUnreachable(f"{name} is not up; qverify boards up {name}")
        machine.reset(emulated, deadline)
    else:
        _run_command(name, _known_command(name), deadline)
    _wait_until_restarted(name, deadline, before, start, options)
    return time.monotonic() - start


def _reset_place(
    name: str, place: HeldPlace, deadline_s: float, force: bool, options: Mapping[str, str] | None
) -> float:
    """Resets the board of a place that is held, and stays so until it answers: by the command of its inventory entry, or
    by the power driver that labgrid finds for the place."""
    start, deadline = time.monotonic(), Deadline(deadline_s, name)
    before = _uptime(place.uri, deadline, force, options)
    board = entry_of(name)
    if board is not None and (board.reset or board.power):
        _run_command(name, board.reset or board.power, deadline)
    else:
        words, environment = place.client("power", "cycle")
        _run_words(f"{name} ({place.name})", "labgrid-client power cycle", words, deadline, environment)
    _wait_until_restarted(place.uri, deadline, before, start, options)
    return time.monotonic() - start


def refuse_used(name: str) -> None:
    """Raises BoardBusy if somebody uses the board; a board that does not answer is not in use."""
    try:
        _uptime(name, Deadline(ASK_S, name), force=False, options=None)
    except BoardBusy as error:
        who = str(error).partition("; --wait")[0]
        raise BoardBusy(f"{name}: {who}; --force ends it anyway") from error


def _uptime(name: str, deadline: Deadline, force: bool, options: Mapping[str, str] | None) -> float | None:
    """Returns the board's uptime in seconds; None if it does not answer, which a reset is for. Raises BoardBusy if it
    is in use."""
    try:
        with connect(name, min(ASK_S, deadline.left()), options, runs=ANY) as agent:
            return _said(agent)
    except BadAddress:
        raise
    except BoardBusy:
        if force:
            return None
        raise
    except LinkError:
        return None


def _said(agent: Agent) -> float | None:
    up = agent.hello.get("uptime_s")
    return float(up) if isinstance(up, int) and abs(up) < MOST_S else None


def recover(name: str, up_s: float | None, options: Mapping[str, str] | None = None) -> str:
    """Resets a board that hangs by its inventory entry: by the reset command, and by the power cycle where there is none or
    the board does not answer after it. up_s: its uptime now, None where that is not known. Returns a line on what was
    done; "" where the entry has no command. Raises BoardUnreachable where the board does not answer again."""
    board = entry_of(name)
    commands = [(k, c) for k, c in (("reset", board.reset), ("power cycle", board.power)) if c] if board else []
    failed = ""
    for kind, command in commands:
        assert board is not None
        start, deadline = time.monotonic(), Deadline(board.reset_wait_s, name)
        try:
            _run_command(name, command, deadline)
            more = _wait_until_answering(name, deadline, up_s, start, options)
        except BoardUnreachable as error:
            failed = f"{failed}{kind}: {error}; "
            continue
        took = time.monotonic() - start
        return f"{failed}{kind} by {command!r} of {board.file}, the board answers after {took:.1f} s{more}"
    if commands:
        raise BoardUnreachable(f"{name} hangs, and does not come back: {failed.rstrip('; ')}")
    return ""


def _wait_until_answering(
    name: str, deadline: Deadline, up_s: float | None, start: float, options: Mapping[str, str] | None
) -> str:
    """Waits until the board was restarted; a command may also reset only a part of it, such as the accelerator. Returns
    what is to be said of that. Raises BoardUnreachable where the board does not answer."""
    try:
        _wait_until_restarted(name, deadline, up_s, start, options)
        return ""
    except BoardUnreachable:
        with connect(name, ASK_S, options, runs=ANY) as agent:
            up = _said(agent)
        return "" if up is None else f" (it was not restarted: up for {up:.0f} s)"


def _known_command(name: str) -> str:
    """Returns the command that resets a board. Raises BadAddress where there is none."""
    board = entry_of(name)
    command = (board.reset or board.power) if board is not None else ""
    if not command:
        raise BadAddress(f"{name}: boards.toml has no reset or power command for it")
    return command


def _run_command(name: str, command: str, deadline: Deadline) -> None:
    _run_words(name, command, ["/bin/sh", "-c", command], deadline)


def _run_words(
    name: str, shown: str, words: Sequence[str], deadline: Deadline, environment: Mapping[str, str] | None = None
) -> None:
    """Runs a program with these variables beside ours. Raises BoardUnreachable if it fails or does not end in time."""
    try:
        status, output = _run(words, deadline.left(), {**os.environ, **(environment or {})})
    except subprocess.TimeoutExpired:
        raise BoardUnreachable(f"{name}: {shown!r} does not end in time") from None
    if status:
        raise BoardUnreachable(f"{name}: {shown!r} ended with status {status}: {last_line(output, 'no output')}")


def _run(words: Sequence[str], timeout_s: float, environment: Mapping[str, str]) -> tuple[int, bytes]:
    """Returns a program's exit status and the end of its output. Raises TimeoutExpired; then, and if interrupted, all
    its processes are killed. Processes left running by a command that ended are kept."""
    with tempfile.TemporaryFile() as output:  # a pipe would be kept open by processes it leaves running
        process = None
        try:
            with signals_held():
                process = subprocess.Popen(
                    words,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    **own_group(),
                )
            status = process.wait(timeout_s)
        except BaseException:
            if process is not None:
                end_group(process)
                process.wait()
            raise
        output.seek(max(0, output.seek(0, os.SEEK_END) - MOST_SAID))
        return status, output.read()


def _wait_until_restarted(
    name: str, deadline: Deadline, before: float | None, start: float, options: Mapping[str, str] | None
) -> None:
    """Waits until the board answers with an uptime that began after the reset. Raises BoardUnreachable."""
    why = "it did not answer"
    while True:
        try:
            patience_s = min(ASK_S, deadline.left())
        except LinkError:
            raise BoardUnreachable(f"{name} does not come back: {why}") from None
        try:
            with connect(name, patience_s, options, runs=ANY) as agent:
                up = _said(agent)
            if before is None or up is None or up <= time.monotonic() - start + 1:
                return
            why = f"it answers, but was not restarted (up for {up:.0f} s)"
        except BadAddress:
            raise
        except LinkError as error:
            why = str(error)
        time.sleep(0.5)
