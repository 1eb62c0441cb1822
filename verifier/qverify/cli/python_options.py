"""Parses options from callers in Python with the declarations of the commands, so that they are checked in the same way
and have the same defaults. The command is not run."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from numbers import Real
from typing import Any

import click
from qverify_agents.printable import one_line

from qverify.cli.engine_options import SimulatorChoice
from qverify.cli.reporting import repeating_command
from qverify.closest_names import did_you_mean
from qverify.errors import UsageError

NOT_OPTIONS = frozenset(  # options of the screen and of report files, which a caller in Python writes with Report.save
    {"report", "json", "html", "junit", "csv", "markdown", "npz", "plots", "quiet", "verbose", "all", "top", "help"}
)
NOT_IN_PYTHON = {"compile": frozenset({"list"}), "verify": frozenset({"no_board"})}
MAPPINGS = ("inputs", "shape", "roi", "dtype", "input")  # options that may be mappings of names to values
LISTS = ("inputs", "stages", "model", "rerun", "decode")  # options that cannot be repeated, but may be lists
RENAMED = {  # options that are named arguments of the functions, or whose names are words of Python
    "model": "models",
    "input_img": "inputs",
    "from": "stated",
    "with": "engine",
}
NOT_REPEATED = ("input_img", "with")  # of these, those that cannot be repeated
COMMANDS = {"inputs_diff": ("qverify.cli.inputs_diff", "diff")}  # module and name of commands of groups


@dataclass(slots=True)
class ParsedCommand:
    """A command line that was parsed, but not run. It is the object of the command's context while Python calls it.

    job: the request that the command passed to hand_over(). command: a command line that does the same."""

    job: Any = None
    command: str = ""


def hand_over(job: object) -> bool:
    """Passes the complete request of a command to the caller and returns True, if that is a function of the Python API.
    Returns False if the command line runs the command, which must then run the job itself."""
    parsed = click.get_current_context().obj
    if isinstance(parsed, ParsedCommand):
        parsed.job = job
        return True
    return False


def python_options(name: str) -> dict[str, click.Option]:
    """Returns the options that a caller in Python may pass to a command, by keyword (the long option with _ for -)."""
    command = _command(name)
    options = {_keyword(p): p for p in command.params if isinstance(p, click.Option)}
    left_out = NOT_OPTIONS | NOT_IN_PYTHON.get(name, frozenset())
    return {keyword: option for keyword, option in options.items() if keyword not in left_out}


def parse_command(
    name: str, arguments: Sequence[str], options: Mapping[str, Any], drawings: bool = False
) -> ParsedCommand:
    """Parses the arguments of a command as its command line would be parsed, without running it.

    name: of the command. arguments: its positional arguments. options: values by keyword; None for an option that is
    not given. drawings: also request the drawings that an HTML page shows. Raises UsageError for a wrong value,
    TypeError for an unknown keyword."""
    by_keyword, words = python_options(name), ["--html=-"] if drawings else []
    for keyword, value in options.items():
        if keyword not in by_keyword:
            known = [*by_keyword, *RENAMED.values()]
            raise TypeError(f"{name}() got an unexpected keyword argument {keyword!r}{did_you_mean(keyword, known)}")
        words += _to_words(by_keyword[keyword], keyword, value)
    typed = [*name.split("_"), *words, *arguments]
    command, parsed = _command(name), ParsedCommand(command=repeating_command(typed))
    try:
        with command.make_context(f"qverify {name}", [*words, "--", *arguments], obj=parsed) as context:
            command.invoke(context)
    except click.ClickException as error:
        raise UsageError(one_line(error.format_message())) from error
    assert parsed.job is not None, name
    return parsed


def _command(name: str) -> click.Command:
    module, attribute = COMMANDS.get(name, (f"qverify.cli.commands.{name}", "command"))
    command: click.Command = getattr(import_module(module), attribute)
    return command


def _keyword(option: click.Option) -> str:
    """Returns the keyword of an option."""
    flag = max(option.opts, key=len).lstrip("-").replace("-", "_")
    return RENAMED.get(flag, flag) if option.multiple or flag in NOT_REPEATED else flag


def _to_words(option: click.Option, keyword: str, value: Any) -> list[str]:
    """Returns the words of a command line that set the option to a value. A mapping becomes NAME=VALUE (NAME:VALUE for
    files and areas). A sequence repeats the option if that may be repeated, otherwise it is joined by commas, as within
    a mapping."""
    flag = max(option.opts, key=len)
    if value is None:
        return []
    _check_type(option, keyword, value)
    if option.is_flag:
        return [flag] if value else [*option.secondary_opts[:1]]
    if isinstance(value, Mapping):
        separator = ":" if keyword in ("inputs", "roi") else "="
        pairs = [f"{name}{separator}{_join(element)}" for name, element in value.items()]
        texts = pairs if option.multiple else [",".join(pairs)]
    elif isinstance(value, (list, tuple)):
        texts = [_text(element) for element in value] if option.multiple else [_join(value)]
    else:
        texts = [_text(value)]
    return [f"{flag}={text}" for text in texts]


def _check_type(option: click.Option, keyword: str, value: Any) -> None:
    """Raises UsageError for a value of a type that the option does not have. Digits in a text are no number."""
    kind = option.type.name.split()[0]
    if isinstance(option.type, SimulatorChoice):
        fits, wanted = isinstance(value, bool | str), "True, False or text"
    elif kind == "boolean":
        fits, wanted = isinstance(value, bool), "True or False"
    elif kind == "integer":
        fits, wanted = _is_whole(value), "a whole number"
    elif kind == "float":
        fits, wanted = _is_whole(value) or (isinstance(value, Real) and not isinstance(value, bool)), "a number"
    elif isinstance(value, Mapping):
        fits, wanted = keyword in MAPPINGS and all(map(_fits_mapping, value.values())), "text"
    elif isinstance(value, (list, tuple)):
        fits, wanted = (option.multiple or keyword in LISTS) and all(map(_is_text, value)), "text"
    else:
        fits, wanted = _is_text(value) or (value == "" == option.default), "text"
    if not fits:
        wanted += ", or a list of texts" if wanted == "text" and (option.multiple or keyword in LISTS) else ""
        raise UsageError(f"{keyword}: got {repr(value)[:80]}, wanted {wanted}")


def _is_whole(value: Any) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return isinstance(value, (str, os.PathLike)) and bool(os.fspath(value))


def _fits_mapping(value: Any) -> bool:
    """Returns whether a value of a mapping is text, a whole number, or a list of these."""
    elements = value if isinstance(value, (list, tuple)) and value else [value]
    return all(_is_text(element) or _is_whole(element) for element in elements)


def _join(value: Any) -> str:
    return ",".join(map(_text, value)) if isinstance(value, (list, tuple)) else _text(value)


def _text(value: Any) -> str:
    """Returns a value as it is typed on a command line. Raises UsageError for a value that cannot be typed."""
    if isinstance(value, (str, os.PathLike)):
        return os.fspath(value) if isinstance(os.fspath(value), str) else os.fsdecode(value)
    if isinstance(value, (bool, int, float)) or hasattr(value, "__index__"):
        return str(value)
    raise UsageError(f"got a {type(value).__name__}, wanted text, a path, a number, or a list or mapping of these")
