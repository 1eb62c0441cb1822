"""Binds the last arguments of a function, for functions that are created in a loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def bind_last(function: Callable[..., Any], *last: Any) -> Callable[..., Any]:
    """Returns a function of the first arguments that calls function(*arguments, *last)."""

    def call(*arguments: Any) -> Any:
        return function(*arguments, *last)

    return call
