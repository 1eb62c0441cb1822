"""Shows the board regularly that its holder is alive: a holder that is silent for a minute may lose it
(PROTOCOL.md)."""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

EVERY_S = 15.0  # seconds between two PINGs
PATIENCE_S = 2.0  # seconds to wait for the answer; a call that is made meanwhile waits at most as long


class Turn(Protocol):
    """An object with a lock `turn`, which is taken during each of its calls and each PING."""

    turn: Any


S = TypeVar("S", bound=Turn)
P = ParamSpec("P")
R = TypeVar("R")


def in_turn(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Makes a method take the object's `turn` lock while it runs."""

    @functools.wraps(method)
    def run_in_turn(self: S, /, *args: P.args, **keywords: P.kwargs) -> R:
        with self.turn:
            return method(self, *args, **keywords)

    return run_in_turn


def keep_alive(ping: Callable[[], None]) -> Callable[[], None]:
    """Calls a bound method every EVERY_S seconds in a thread, until the returned function is called or the method's
    object has been deleted."""
    stop, ping_reference = threading.Event(), weakref.WeakMethod(ping)
    threading.Thread(
        target=_ping_until_stopped, args=(stop, ping_reference), daemon=True, name="qverify keep-alive"
    ).start()
    return stop.set


def _ping_until_stopped(stop: threading.Event, ping_reference: weakref.WeakMethod[Callable[[], None]]) -> None:
    while not stop.wait(EVERY_S):
        ping = ping_reference()
        if ping is None:
            return
        ping()
        del ping
