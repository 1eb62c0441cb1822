"""Shows a board regularly that its holder is alive: a holder silent for a minute may lose the board (PROTOCOL.md)."""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

EVERY_S = 15.0
PATIENCE_S = 2.0  # for the answer; a call made meanwhile waits at most as long


class Turn(Protocol):
    """An object with a lock, `turn`, that a call or a PING holds."""

    turn: Any


S = TypeVar("S", bound=Turn)
P = ParamSpec("P")
R = TypeVar("R")


def in_turn(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Makes a method hold the object's turn while it runs."""

    @functools.wraps(method)
    def taken(self: S, /, *args: P.args, **named: P.kwargs) -> R:
        with self.turn:
            return method(self, *args, **named)

    return taken


def keep_alive(ping: Callable[[], None]) -> Callable[[], None]:
    """Calls the bound method every EVERY_S seconds until the returned function is called or the method's object is
    gone."""
    stop, weak = threading.Event(), weakref.WeakMethod(ping)
    threading.Thread(target=_until, args=(stop, weak), daemon=True, name="qverify keep-alive").start()
    return stop.set


def _until(stop: threading.Event, weak: weakref.WeakMethod[Callable[[], None]]) -> None:
    while not stop.wait(EVERY_S):
        ping = weak()
        if ping is None:
            return
        ping()
        del ping
