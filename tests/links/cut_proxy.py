"""A way through which a connection can be lost for one end only, as by a NAT that forgets or a cable that is pulled."""

from __future__ import annotations

import contextlib
import socket
import threading


class CutProxy:
    """Listens on port, a loopback one, and passes every connection on to the given one."""

    def __init__(self, onward: int):
        self._onward, self._near, self._far = onward, list[socket.socket](), list[socket.socket]()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, far = self._listener.accept()[0], socket.create_connection(("127.0.0.1", self._onward))
                self._near.append(near)
                self._far.append(far)
                for one, other in ((near, far), (far, near)):
                    threading.Thread(target=_pass_on, args=(one, other), daemon=True).start()

    def cut(self) -> None:
        """The near ends are told that it is over; the far ends hear nothing."""
        for near in self._near:
            with contextlib.suppress(OSError):
                near.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        for one in (self._listener, *self._near, *self._far):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


def _pass_on(one: socket.socket, other: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := one.recv(65536):
            other.sendall(data)
