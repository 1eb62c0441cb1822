"""Gives commands the options of the table (qverify.options)."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from qverify.errors import OptionsError
from qverify.options.as_click import as_click
from qverify.options.commands import COMMANDS
from qverify.options.option import Option
from qverify.options.parse import given_of


def takes_all(command: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Returns a decorator that adds the arguments and options of a command of COMMANDS, as takes() does."""
    return takes(*COMMANDS[command])


def takes(*options: Option) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Returns a decorator that adds these arguments and options. The function receives their values as `given` (a Given), and
    those of its own click options by name; several takes() are one. Its OptionsError is one of the command line."""

    def decorate(command: Callable[..., int]) -> Callable[..., int]:
        @wraps(command)
        def wrapper(**values: Any) -> int:
            earlier, given = values.pop("given", None), given_of(click.get_current_context(), options)
            own = {name: value for name, value in values.items() if name not in given}
            given = given if earlier is None else earlier.and_those(given)
            try:
                return command(given=given, **own)
            except OptionsError as error:
                raise click.UsageError(str(error)) from error

        parameters = [_parameter(option) for option in options]
        before = getattr(command, "__click_params__", [])  # in the reverse order, as click's decorators add them
        wrapper.__click_params__ = [*before, *reversed(parameters)]  # type: ignore[attr-defined]
        return wrapper

    return decorate


def _parameter(option: Option) -> click.Parameter:
    """Returns the parameter of the command line. The help of --report lists the formats, which are loaded when it is shown."""
    parameter = as_click(option)
    if isinstance(parameter, click.Option) and option.flag == "--report":
        parameter.__class__ = ReportOption
    return parameter


class ReportOption(click.Option):
    """The option --report. Its help lists the formats, which are loaded only when the help is shown."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        from qverify.renderers.formats import names

        self.help = (
            f"also write the report to a file (FORMAT: {', '.join(names())}; PATH: a file, - for stdout, or a folder, "
            "which gets report.SUFFIX); may be repeated"
        )
        return super().get_help_record(ctx)
