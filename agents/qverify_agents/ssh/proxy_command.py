"""Runs a ProxyCommand of the SSH configuration behind a socket, which paramiko's transport requires."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import threading

from qverify_agents.errors import NotOnThisHost
from qverify_agents.host_system import SYSTEM
from qverify_agents.signals_held import signals_held

IS_POSSIBLE = hasattr(socket, "MSG_DONTWAIT")


class ProxyCommand(socket.socket):
    """One end of a socket pair; the other end is the standard input and output of the command. /bin/sh runs the
    command, as with OpenSSH.

    paramiko's own class of this name loops when the command ends its output, and kills a process that may be gone.
    """

    @classmethod
    def start(cls, command: str) -> ProxyCommand:
        """Starts the command and returns the socket to it. Raises NotOnThisHost on Windows, where a socket cannot be
        the standard input of a program."""
        if not IS_POSSIBLE:
            raise NotOnThisHost(
                f"the SSH configuration has a ProxyCommand, which {SYSTEM} cannot give to this backend. "
                "Next: --ssh-backend openssh"
            )
        ours, theirs = socket.socketpair()
        with theirs:
            proxy = cls(fileno=ours.detach())
            proxy._closing = threading.Lock()
            try:
                with signals_held():
                    proxy._process = subprocess.Popen(
                        ["/bin/sh", "-c", command], stdin=theirs.fileno(), stdout=theirs.fileno()
                    )
            except BaseException:
                proxy.close()
                raise
        return proxy

    _closing: threading.Lock  # paramiko's transport calls close() in its own thread, too
    _process: subprocess.Popen[bytes] | None = None
    ended = ""  # how the command ended by itself, set by close(); "" if it was still running

    def close(self) -> None:
        """Closes the socket and ends the command, by SIGTERM and after two seconds by SIGKILL."""
        with self._closing:
            process, self._process = self._process, None
            if process is not None and self._has_hung_up():
                with contextlib.suppress(subprocess.TimeoutExpired):
                    status = process.wait(0.5)
                    self.ended = f"ended with status {status}" if status >= 0 else f"was ended by signal {-status}"
            super().close()
            if process is not None:
                _end_process(process)

    def _has_hung_up(self) -> bool:
        """Returns whether the command has closed its end."""
        try:
            return self.recv(1, socket.MSG_PEEK | getattr(socket, "MSG_DONTWAIT", 0)) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True


def _end_process(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(2)
        return
    process.kill()
    process.wait()
