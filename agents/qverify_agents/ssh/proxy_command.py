"""A ProxyCommand of the SSH configuration as a socket, as paramiko's transport needs it."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import threading

from qverify_agents.errors import NotOnThisHost
from qverify_agents.host_system import SYSTEM
from qverify_agents.signals_held import signals_held

POSSIBLE = hasattr(socket, "MSG_DONTWAIT")


class ProxyCommand(socket.socket):
    """Our end of a socket pair, whose other end is stdin and stdout of the command; /bin/sh runs it, as OpenSSH does.

    paramiko's own class of that name loops at the command's end of file and kills a process that may be gone.
    """

    @classmethod
    def started(cls, command: str) -> ProxyCommand:
        """Starts the command and returns the socket to it. Raises NotOnThisHost on Windows, where a program cannot have
        a socket as its input."""
        if not POSSIBLE:
            raise NotOnThisHost(
                f"the SSH configuration has a ProxyCommand, which {SYSTEM} cannot give to this backend. "
                "Next: --ssh-backend openssh"
            )
        ours, theirs = socket.socketpair()
        with theirs:
            one = cls(fileno=ours.detach())
            one._closing = threading.Lock()
            try:
                with signals_held():
                    one._process = subprocess.Popen(
                        ["/bin/sh", "-c", command], stdin=theirs.fileno(), stdout=theirs.fileno()
                    )
            except BaseException:
                one.close()
                raise
        return one

    _closing: threading.Lock  # the transport's thread closes, too
    _process: subprocess.Popen[bytes] | None = None
    ended = ""  # how the command ended by itself, known once closed; empty if it was still running

    def close(self) -> None:
        """Closes the socket and ends the command, which has two seconds to end by itself."""
        with self._closing:
            process, self._process = self._process, None
            if process is not None and self._hung_up():
                with contextlib.suppress(subprocess.TimeoutExpired):
                    status = process.wait(0.5)
                    self.ended = f"ended with status {status}" if status >= 0 else f"was ended by signal {-status}"
            super().close()
            if process is not None:
                _end(process)

    def _hung_up(self) -> bool:
        """Returns whether the other end has closed."""
        try:
            return self.recv(1, socket.MSG_PEEK | getattr(socket, "MSG_DONTWAIT", 0)) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(2)
        return
    process.kill()
    process.wait()
