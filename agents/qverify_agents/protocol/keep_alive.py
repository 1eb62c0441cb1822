"""Says to a board now and then that its holder is there: one that is silent for a minute may be taken for dead (PROTOCOL.md)."""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

EVERY_S = 15.0
PATIENCE_S = 2.0  # for the answer; a call that comes meanwhile waits as long at most


class Turn(Protocol):
    """Who has one turn at a time: a call, or a PING."""

    turn: Any


S = TypeVar("S", bound=Turn)
P = ParamSpec("P")
R = TypeVar("R")


def in_turn(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    @functools.wraps(method)
    def taken(self: S, /, *args: P.args, **named: P.kwargs) -> R:
        with self.turn:
            return method(self, *args, **named)

    return taken


def keep_alive(ping: Callable[[], None]) -> Callable[[], None]:
    """Calls the bound method every EVERY_S seconds until the callable given back is called, or its object is gone."""
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
