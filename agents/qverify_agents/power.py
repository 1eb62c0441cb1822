"""Resets a board: an emulated one through QEMU's monitor, a place of labgrid by its power port, any other by the
command of its inventory entry. Also resets a board that hangs during a run."""

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
from qverify_agents.inventory import ANY_RUNTIME, find_entry, resolve
from qverify_agents.printable import last_line
from qverify_agents.process_group import kill_group, new_group_arguments
from qverify_agents.protocol.client import Agent
from qverify_agents.signals_held import signals_held

ATTEMPT_S = 10.0  # seconds for one attempt to reach the board
MAX_OUTPUT_BYTES = 1 << 16  # of a reset command's output that are read
MAX_UPTIME_S = 1 << 63  # a larger uptime that a board reports is ignored


def reset_board(name: str, deadline_s: float, force: bool = False, options: Mapping[str, str] | None = None) -> float:
    """Resets a board and returns the seconds until its agent answered again. force: reset it even if somebody uses it.
    Raises BadAddress if the inventory has no command to reset it, BoardBusy if it is in use, BoardUnreachable if the
    command fails or the board does not answer again."""
    address = parse(resolve(name, ANY_RUNTIME)[0])
    if address.scheme == "labgrid":
        with_options = replace(address, options={**address.options, **(options or {})})
        with contextlib.closing(HeldPlace(with_options, Deadline(deadline_s, name))) as place:
            return _reset_place(name, place, deadline_s, force, options)
    start, deadline = time.monotonic(), Deadline(deadline_s, name)
    uptime_before_s = _read_uptime_s(name, deadline, force, options)
    if address.scheme == "qemu":
        emulated = machine.running(address.rest)
        if emulated is None:
            raise BoardUnreachable(f"{name} is not up; qverify boards up {name}")
        machine.reset(emulated, deadline)
    else:
        _run_command(name, _find_reset_command(name), deadline)
    _wait_until_restarted(name, deadline, uptime_before_s, start, options)
    return time.monotonic() - start


def _reset_place(
    name: str, place: HeldPlace, deadline_s: float, force: bool, options: Mapping[str, str] | None
) -> float:
    """Resets the board of an acquired place by the command of its inventory entry, or else by the power driver that
    labgrid finds for the place. Returns the seconds until the board answered again."""
    start, deadline = time.monotonic(), Deadline(deadline_s, name)
    uptime_before_s = _read_uptime_s(place.uri, deadline, force, options)
    board = find_entry(name)
    if board is not None and (board.reset or board.power):
        _run_command(name, board.reset or board.power, deadline)
    else:
        words, environment = place.client("power", "cycle")
        _run_or_raise(f"{name} ({place.name})", "labgrid-client power cycle", words, deadline, environment)
    _wait_until_restarted(place.uri, deadline, uptime_before_s, start, options)
    return time.monotonic() - start


def raise_if_in_use(name: str) -> None:
    """Raises BoardBusy if somebody uses the board. A board that does not answer counts as not in use."""
    try:
        _read_uptime_s(name, Deadline(ATTEMPT_S, name), force=False, options=None)
    except BoardBusy as error:
        user = str(error).partition("; --wait")[0]
        raise BoardBusy(f"{name}: {user}; --force ends it anyway") from error


def _read_uptime_s(name: str, deadline: Deadline, force: bool, options: Mapping[str, str] | None) -> float | None:
    """Returns the board's uptime in seconds, or None if it does not answer, as a board that needs a reset may not.
    Raises BoardBusy if it is in use, unless `force` is set."""
    try:
        with connect(name, min(ATTEMPT_S, deadline.left()), options, runs=ANY_RUNTIME) as agent:
            return _reported_uptime_s(agent)
    except BadAddress:
        raise
    except BoardBusy:
        if force:
            return None
        raise
    except LinkError:
        return None


def _reported_uptime_s(agent: Agent) -> float | None:
    uptime = agent.hello.get("uptime_s")
    return float(uptime) if isinstance(uptime, int) and abs(uptime) < MAX_UPTIME_S else None


def reset_hanging_board(name: str, uptime_before_s: float | None, options: Mapping[str, str] | None = None) -> str:
    """Resets a board that hangs, by the commands of its inventory entry: by `reset`, and by `power_cycle` if there is
    no `reset` or the board does not answer after it. uptime_before_s: the uptime before the reset, or None if it is not
    known. Returns one line on what was done, or "" if the entry has no command. Raises BoardUnreachable if the board
    does not answer again."""
    board = find_entry(name)
    commands = (
        [(kind, command) for kind, command in (("reset", board.reset), ("power cycle", board.power)) if command]
        if board
        else []
    )
    failures = ""
    for kind, command in commands:
        assert board is not None
        start, deadline = time.monotonic(), Deadline(board.reset_wait_s, name)
        try:
            _run_command(name, command, deadline)
            note = _wait_until_answering(name, deadline, uptime_before_s, start, options)
        except BoardUnreachable as error:
            failures = f"{failures}{kind}: {error}; "
            continue
        seconds = time.monotonic() - start
        return f"{failures}{kind} by {command!r} of {board.file}, the board answers after {seconds:.1f} s{note}"
    if commands:
        raise BoardUnreachable(f"{name} hangs, and does not come back: {failures.rstrip('; ')}")
    return ""


def _wait_until_answering(
    name: str, deadline: Deadline, uptime_before_s: float | None, start: float, options: Mapping[str, str] | None
) -> str:
    """Waits until the board has restarted. If it answers without a restart, because the command resets only a part of
    it such as the accelerator, returns a remark on that, otherwise "". Raises BoardUnreachable if the board does not
    answer."""
    try:
        _wait_until_restarted(name, deadline, uptime_before_s, start, options)
        return ""
    except BoardUnreachable:
        with connect(name, ATTEMPT_S, options, runs=ANY_RUNTIME) as agent:
            uptime_s = _reported_uptime_s(agent)
        return "" if uptime_s is None else f" (it was not restarted: up for {uptime_s:.0f} s)"


def _find_reset_command(name: str) -> str:
    """Returns the command that resets a board. Raises BadAddress if the inventory has none."""
    board = find_entry(name)
    command = (board.reset or board.power) if board is not None else ""
    if not command:
        raise BadAddress(f"{name}: boards.toml has no reset or power command for it")
    return command


def _run_command(name: str, command: str, deadline: Deadline) -> None:
    _run_or_raise(name, command, ["/bin/sh", "-c", command], deadline)


def _run_or_raise(
    name: str,
    shown_command: str,
    words: Sequence[str],
    deadline: Deadline,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Runs a program with these variables added to the environment. Raises BoardUnreachable if it fails or does not end
    in time. shown_command: the command as error messages show it."""
    try:
        status, output = _run_program(words, deadline.left(), {**os.environ, **(environment or {})})
    except subprocess.TimeoutExpired:
        raise BoardUnreachable(f"{name}: {shown_command!r} does not end in time") from None
    if status:
        raise BoardUnreachable(
            f"{name}: {shown_command!r} ended with status {status}: {last_line(output, 'no output')}"
        )


def _run_program(words: Sequence[str], timeout_s: float, environment: Mapping[str, str]) -> tuple[int, bytes]:
    """Runs a program and returns its exit status and the end of its output. If it does not end in time (TimeoutExpired)
    or the wait is interrupted, its whole process group is killed. Processes that a program leaves behind when it ends
    keep running."""
    with tempfile.TemporaryFile() as output:  # not a pipe: processes that the program leaves behind would keep it open
        process = None
        try:
            with signals_held():
                process = subprocess.Popen(
                    words,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    **new_group_arguments(),
                )
            status = process.wait(timeout_s)
        except BaseException:
            if process is not None:
                kill_group(process)
                process.wait()
            raise
        output.seek(max(0, output.seek(0, os.SEEK_END) - MAX_OUTPUT_BYTES))
        return status, output.read()


def _wait_until_restarted(
    name: str, deadline: Deadline, uptime_before_s: float | None, start: float, options: Mapping[str, str] | None
) -> None:
    """Waits until the board answers and its uptime shows that it restarted after `start`. Raises BoardUnreachable if it
    does not before the deadline."""
    reason = "it did not answer"
    while True:
        try:
            patience_s = min(ATTEMPT_S, deadline.left())
        except LinkError:
            raise BoardUnreachable(f"{name} does not come back: {reason}") from None
        try:
            with connect(name, patience_s, options, runs=ANY_RUNTIME) as agent:
                uptime_s = _reported_uptime_s(agent)
            if uptime_before_s is None or uptime_s is None or uptime_s <= time.monotonic() - start + 1:
                return
            reason = f"it answers, but was not restarted (up for {uptime_s:.0f} s)"
        except BadAddress:
            raise
        except LinkError as error:
            reason = str(error)
        time.sleep(0.5)
