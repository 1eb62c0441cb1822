"""A function with its last arguments given, for functions that are made in a loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def bound(function: Callable[..., Any], *given: Any) -> Callable[..., Any]:
    """Returns function(*arguments, *given) as a function of the arguments."""

    def call(*arguments: Any) -> Any:
        return function(*arguments, *given)

    return call
