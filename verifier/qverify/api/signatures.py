"""The signatures of the functions, which have the options of their commands. An option that is left out has the command's
default, which the signature shows."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy.typing as npt

Path = str | os.PathLike[str]
Some = str | Sequence[str]  # one value, or several for an option that may be repeated
Shapes = Mapping[str, Sequence[int]] | Some
Inputs = Path | Mapping[str, Path] | npt.NDArray[Any] | Mapping[str, npt.NDArray[Any]]
Progress = Callable[[str, int, int], None]
Function = TypeVar("Function", bound=Callable[..., Any])


def with_options(name: str, options: type) -> Callable[[Function], Function]:
    """Returns a decorator that adds every option to the function's signature, with the command's default. name: of the
    command. options: the TypedDict of the function's options."""

    def decorate(function: Function) -> Function:
        from qverify.options.commands import keywords

        declared = keywords(name)
        hints = {key: getattr(hint, "__forward_arg__", hint) for key, hint in options.__annotations__.items()}
        signature = inspect.signature(function)
        explicit = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
        added = [
            inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=declared[key].empty, annotation=hint)
            for key, hint in hints.items()
        ]
        complete = signature.replace(parameters=[*explicit, *added])
        function.__signature__ = complete  # type: ignore[attr-defined]
        return function

    return decorate
