"""The commands' options for callers in Python: checked by the same declarations, with the same defaults, and not run."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import click
from qverify_agents.printable import one_line

from qverify.cli.reporting import repeating_command
from qverify.errors import UsageError

NOT_OPTIONS = frozenset(  # of the screen and of files, which a caller in Python writes with Report.save
    {"report", "json", "html", "junit", "csv", "markdown", "npz", "plots", "quiet", "verbose", "all", "top", "help"}
)
NOT_IN_PYTHON = {"compile": frozenset({"list"})}
RENAMED = {"model": "models", "input_img": "inputs"}  # the arguments of the functions that are no plain options


@dataclass(slots=True)
class ParsedCommand:
    """The object of a command's context where Python calls it: what the command was asked to do. command: the line that
    does the same."""

    job: Any = None
    command: str = ""


def hand_over(job: object) -> bool:
    """Gives the job to the caller in Python, and returns True; False where the command line calls, which runs it."""
    asked = click.get_current_context().obj
    if isinstance(asked, ParsedCommand):
        asked.job = job
        return True
    return False


def python_options(name: str) -> dict[str, click.Option]:
    """Returns the options that Python may give to a command, by keyword: the long option with _ for -."""
    command = _command(name)
    options = {_keyword(p): p for p in command.params if isinstance(p, click.Option)}
    left_out = NOT_OPTIONS | NOT_IN_PYTHON.get(name, frozenset())
    return {keyword: option for keyword, option in options.items() if keyword not in left_out}


def parse_command(
    name: str, arguments: Sequence[str], options: Mapping[str, Any], drawings: bool = False
) -> ParsedCommand:
    """Returns what a command is asked to do by these words, which is not run. drawings: as for a page. options: by keyword; None is an option not given.
    UsageError for a wrong value, TypeError for an unknown keyword."""
    known, words = python_options(name), ["--html=-"] if drawings else []
    for keyword, value in options.items():
        if keyword not in known:
            raise TypeError(f"{name}() got an unexpected keyword argument {keyword!r}")
        words += _words(known[keyword], keyword, value)
    command, asked = _command(name), ParsedCommand(command=repeating_command([name, *words, *arguments]))
    try:
        with command.make_context(f"qverify {name}", [*words, "--", *arguments], obj=asked) as context:
            command.invoke(context)
    except click.ClickException as error:
        raise UsageError(one_line(error.format_message())) from error
    assert asked.job is not None, name
    return asked


def _command(name: str) -> click.Command:
    command: click.Command = import_module(f"qverify.cli.commands.{name}").command
    return command


def _keyword(option: click.Option) -> str:
    flag = max(option.opts, key=len).lstrip("-").replace("-", "_")
    return RENAMED.get(flag, flag) if option.multiple or flag == "input_img" else flag


def _words(option: click.Option, keyword: str, value: Any) -> list[str]:
    """Returns the option as words. A mapping is NAME=VALUE (NAME:VALUE of files and areas), a sequence is joined by
    commas where it is a value of a mapping, and repeats the option otherwise."""
    flag = max(option.opts, key=len)
    if value is None:
        return []
    if option.is_flag:
        if not isinstance(value, bool):
            raise UsageError(f"{keyword}: got {value!r}, wanted True or False")
        return [flag] if value else [*option.secondary_opts[:1]]
    if isinstance(value, Mapping):
        mark = ":" if keyword in ("inputs", "roi") else "="
        pairs = [f"{name}{mark}{_join(one)}" for name, one in value.items()]
        values = pairs if option.multiple else [",".join(pairs)]
    elif isinstance(value, (list, tuple)):
        values = [_text(one) for one in value] if option.multiple else [_join(value)]
    else:
        values = [_text(value)]
    return [f"{flag}={one}" for one in values]


def _join(value: Any) -> str:
    return ",".join(map(_text, value)) if isinstance(value, (list, tuple)) else _text(value)


def _text(value: Any) -> str:
    """Returns a value as it is typed. UsageError for one that has no text of its own."""
    if isinstance(value, (str, os.PathLike)):
        return os.fspath(value) if isinstance(os.fspath(value), str) else os.fsdecode(value)
    if isinstance(value, (bool, int, float)) or hasattr(value, "__index__"):
        return str(value)
    raise UsageError(f"got a {type(value).__name__}, wanted text, a path, a number, or a list or mapping of these")
