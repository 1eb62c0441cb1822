"""A ProxyCommand of the SSH configuration as a socket, which is what a transport is built on."""

from __future__ import annotations

import contextlib
import socket
import subprocess


class ProxyCommand(socket.socket):
    """Our end of a socket pair, whose other end is stdin and stdout of the command; /bin/sh runs it, as OpenSSH does.

    paramiko's own class of that name spins on the command's end of file and kills a process that may be gone.
    """

    @classmethod
    def started(cls, command: str) -> ProxyCommand:
        ours, theirs = socket.socketpair()
        with theirs:
            one = cls(fileno=ours.detach())
            try:
                one._process = subprocess.Popen(
                    ["/bin/sh", "-c", command], stdin=theirs.fileno(), stdout=theirs.fileno()
                )
            except BaseException:
                one.close()
                raise
        return one

    _process: subprocess.Popen[bytes] | None = None

    def close(self) -> None:
        """And the command, which has two seconds for it."""
        super().close()
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(2)
            return
        process.kill()
        process.wait()
