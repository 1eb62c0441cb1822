"""The link `serial`: a board's console, or a UART that its agent alone uses (?mode=direct), at any address that
pyserial can open."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import time
from typing import Any

from qverify_agents.address import Address
from qverify_agents.console.link import ConsoleLink, find_running_agent
from qverify_agents.console.shell import LOGIN, PASSWORD, PROMPT, ConsoleShell
from qverify_agents.deadline import Deadline
from qverify_agents.errors import BoardBusy, BoardUnreachable, LinkClosed, NotOnThisHost
from qverify_agents.interfaces import Link, Shell
from qverify_agents.option_values import is_on

OPTIONS = frozenset(
    {"baud", "parity", "flow", "dtr", "rts", "mode", "user", "prompt", "login_prompt", "password_prompt"}
)


def open_shell(address: Address, deadline: Deadline) -> Shell:
    """Logs in at the console and returns its shell, through which connect.py starts the agent. Not used with
    mode=direct."""
    options = address.options
    port = SerialPort(address)
    shell = SerialShell(
        port,
        address.rest,
        options.get("user", "root"),
        options.get("prompt", PROMPT),
        options.get("login_prompt", LOGIN),
        options.get("password_prompt", PASSWORD),
    )
    try:
        shell.log_in(deadline)
        return shell
    except BaseException:
        port.close()
        raise


def open_direct(address: Address, deadline: Deadline) -> Link | None:
    """Returns the link to an agent that has the line for itself: one that answers and never ends by itself, or any with
    mode=direct. Ends an agent that an earlier host left running on the console. Returns None if the console requires a
    login."""
    mode = address.options.get("mode", "console")
    port = SerialPort(address)
    try:
        hello = {"idle_s": 0} if mode == "direct" else find_running_agent(port, deadline)
        if hello is not None and hello.get("idle_s", 0) == 0 and "fault" not in address.options:
            return DirectLink(port, address.rest)
        if hello is not None:  # started by a host that was killed; it may have another version or planted faults
            ConsoleLink(port, address.rest).close()
    except BaseException:
        port.close()
        raise
    port.close()
    return None


class SerialPort:
    """A Port (console/line.py) over pyserial, locked against other programs of this host. If another program has it
    open, waits as long as the option `wait` of the address allows and then raises BoardBusy. Raises BoardUnreachable if
    it cannot be opened."""

    def __init__(self, address: Address):
        self._where = address.rest
        end = time.monotonic() + float(address.options.get("wait", "0"))
        while True:
            try:
                return self._open(address)
            except BoardBusy:
                if time.monotonic() >= end:
                    raise
            time.sleep(0.2)

    def _open(self, address: Address) -> None:
        try:
            import serial
        except ImportError as error:  # of a module of the system that pyserial needs
            raise NotOnThisHost(f"-b serial:{address.rest}: pyserial does not work on this host: {error}") from error
        try:
            self._serial: Any = serial.serial_for_url(address.rest, do_not_open=True)
            self._serial.baudrate = int(address.options.get("baud", "115200"))
            self._serial.parity = address.options.get("parity", "N")
            self._serial.rtscts = address.options.get("flow", "none") == "rtscts"
            # Set before the port is opened, because some boards are reset by these lines.
            for line in address.options.keys() & {"dtr", "rts"}:
                setattr(self._serial, line, is_on(address.options, line))
            self._serial.timeout, self._serial.write_timeout = 0.1, None
            if address.rest.startswith("/"):
                self._serial.exclusive = True
            self._serial.open()
        except (serial.SerialException, OSError, ValueError) as error:
            if "lock" in str(error).lower() or "busy" in str(error).lower():
                raise BoardBusy(
                    f"{address.rest}: another program on this host has it open; --wait SECONDS waits for it"
                ) from error
            raise BoardUnreachable(f"{address.rest}: {_explain_error(address.rest, error)}") from error

    def read(self, seconds: float) -> bytes:
        import serial

        try:
            self._serial.timeout = seconds
            first = self._serial.read(1)
            return bytes(first + self._serial.read(self._serial.in_waiting)) if first else b""
        except (serial.SerialException, OSError, TypeError) as error:
            raise LinkClosed(f"{self._where}: the serial line is gone: {error}") from error

    def write(self, data: bytes, deadline: Deadline) -> None:
        import serial

        view = memoryview(data)
        while view:
            try:
                self._serial.write_timeout = deadline.left()
                written = self._serial.write(view[:4096])
                view = view[int(written) if written else 0 :]
            except serial.SerialTimeoutException:
                deadline.left()
            except (serial.SerialException, OSError, TypeError) as error:
                raise LinkClosed(f"{self._where}: the serial line is gone: {error}") from error

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._serial.close()


def _explain_error(path: str, error: Exception) -> str:
    """Returns the reason why a port cannot be opened, with advice for the usual mistakes."""
    if re.fullmatch(r"(?i)COM\d+", path) and os.name != "nt":
        advice = "on this system a serial board is -b serial:///dev/ttyUSB0?baud=115200"
        return f"a serial port of Windows; {advice} (a host of this name: -b root@{path})"
    missing = path.startswith("/") and not os.path.exists(path)
    if missing or isinstance(error, FileNotFoundError) or getattr(error, "errno", None) == errno.ENOENT:
        return "no such device; is the adapter plugged in?"
    if isinstance(error, PermissionError) or "Permission" in str(error):
        return "permission denied; is this user in the group dialout?"
    return str(error)


class SerialShell(ConsoleShell):
    """A ConsoleShell that closes its port, too."""

    def close(self) -> None:
        try:
            super().close()
        finally:
            self._port.close()  # type: ignore[attr-defined]


class DirectLink(ConsoleLink):
    """A Link to an agent that has the line for itself and keeps running when the link is closed."""

    def __init__(self, port: SerialPort, where: str):
        super().__init__(port, where)
        self._line = port

    def close(self) -> None:
        self._line.close()
