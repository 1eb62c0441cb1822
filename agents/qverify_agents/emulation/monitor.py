"""Sends commands to a running machine through QEMU's monitor (QMP)."""

from __future__ import annotations

import errno
import json
import os
import socket
import sys
from io import BufferedRWPair
from pathlib import Path
from typing import Any

from qverify_agents.deadline import Deadline
from qverify_agents.errors import BoardUnreachable


class Monitor:
    """A connection to QEMU's monitor. Every method raises BoardUnreachable if qemu refuses a command or does not
    answer."""

    _socket: socket.socket
    _file: BufferedRWPair

    def __init__(self, path: Path, deadline: Deadline):
        if sys.platform != "linux":
            raise BoardUnreachable("qemu's monitor is asked on Linux only")
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(min(30.0, deadline.left()))
        try:
            _connect(self._socket, path)
        except OSError as error:
            self._socket.close()
            raise BoardUnreachable(f"qemu's monitor does not answer: {error.strerror}") from error
        self._file = self._socket.makefile("rwb")
        json.loads(self._file.readline())
        self.ask("qmp_capabilities")

    def ask(self, name: str, **arguments: Any) -> Any:
        """Executes a QMP command and returns its result."""
        self._file.write(json.dumps({"execute": name, "arguments": arguments}).encode() + b"\n")
        self._file.flush()
        while line := self._file.readline():
            answer = json.loads(line)
            if "error" in answer:
                raise BoardUnreachable(f"qemu refuses {name}: {answer['error'].get('desc')}")
            if "return" in answer:
                return answer["return"]
        raise BoardUnreachable("qemu ended")

    def line(self, text: str) -> None:
        """Runs a command line of the human monitor, which prints nothing if it succeeds."""
        output = self.ask("human-monitor-command", **{"command-line": text})
        if output:
            raise BoardUnreachable(f"qemu refuses {text}: {str(output).strip()[:200]}")

    def pty(self, label: str) -> str:
        """Returns the path of the pty of the character device with this label."""
        return next(str(c["filename"]).removeprefix("pty:") for c in self.ask("query-chardev") if c["label"] == label)

    def __enter__(self) -> Monitor:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._socket.close()


def _connect(connection: socket.socket, path: Path) -> None:
    """Connects to the socket with a path of any length. As the name of a socket has at most 108 bytes, its folder is
    named by a descriptor."""
    if sys.platform != "linux":
        raise OSError(errno.ENOTSUP, os.strerror(errno.ENOTSUP))
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        connection.connect(f"/proc/self/fd/{folder}/{path.name}")
    finally:
        os.close(folder)
