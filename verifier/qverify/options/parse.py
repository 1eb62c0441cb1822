"""Parses options from callers in Python with the declarations of the command line, so that they are checked in the same way
and have the same defaults."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import click
from click.core import ParameterSource
from qverify_agents.printable import one_line

from qverify.closest_names import did_you_mean
from qverify.errors import UsageError
from qverify.options.as_click import as_click
from qverify.options.board import TOKEN
from qverify.options.commands import COMMANDS, DRAWN_REPORT, keywords
from qverify.options.given import Given
from qverify.options.option import Number, Option, Whole


def given_of(context: click.Context, options: Sequence[Option], drawings: bool = False) -> Given:
    """Returns the values of these options that a command was given."""
    source = context.get_parameter_source
    named = {option.name for option in options if source(option.name) is ParameterSource.COMMANDLINE}
    return Given({option.name: context.params[option.name] for option in options}, frozenset(named), drawings)


def parse_keywords(
    name: str, arguments: Sequence[str], options: Mapping[str, Any], drawings: bool = False
) -> tuple[Given, str]:
    """Returns the values of a command, and a command line that gives them. All as for parse_command of the session."""
    by_keyword, words = keywords(name), list[str]()
    for keyword, value in options.items():
        if keyword not in by_keyword:
            meant = did_you_mean(keyword, list(by_keyword))
            raise TypeError(f"{name}() got an unexpected keyword argument {keyword!r}{meant}")
        words += _to_words(by_keyword[keyword], value)
    declared = COMMANDS[name]
    command = click.Command(name, params=[as_click(option) for option in declared])
    try:
        with command.make_context(f"qverify {name}", [*words, "--", *arguments]) as context:
            given = given_of(context, declared, drawings)
    except click.ClickException as error:
        raise UsageError(one_line(error.format_message())) from error
    return given, repeating_command([*name.split("_"), *words, *arguments])


def repeating_command(words: list[str]) -> str:
    """Returns the command as a line for a shell, without the options that name report files, and without a token, which
    must stay secret; "" without words."""
    left_out = {option.flag for option in (*DRAWN_REPORT, TOKEN)}
    kept, is_value = list[str](), False  # is_value: the word is the value of an option that was left out
    for word in words:
        is_left_out = word.partition("=")[0] in left_out and not is_value
        kept += [] if is_left_out or is_value else [word]
        is_value = is_left_out and "=" not in word and not is_value
    return shlex.join(["qverify", *kept]) if kept else ""


def _to_words(option: Option, value: Any) -> list[str]:
    """Returns the words of a command line that set the option to a value. A mapping becomes NAME=VALUE (NAME:VALUE for
    files and areas). A sequence repeats the option if that may be repeated, otherwise it is joined by commas, as within
    a mapping."""
    if value is None:
        return []
    _check_type(option, value)
    if option.kind == "flag":
        off = option.words.partition("/")[2]
        return [option.flag] if value else [off] if off else []
    if isinstance(value, Mapping):
        separator = ":" if option.keyword in ("inputs", "roi") else "="
        pairs = [f"{name}{separator}{_join(element)}" for name, element in value.items()]
        texts = pairs if option.many else [",".join(pairs)]
    elif isinstance(value, (list, tuple)):
        texts = [_text(element) for element in value] if option.many else [_join(value)]
    else:
        texts = [_text(value)]
    return [f"{option.flag}={text}" for text in texts]


def _check_type(option: Option, value: Any) -> None:
    """Raises UsageError for a value of a type that the option does not have. Digits in a text are no number."""
    kind, many = option.kind, option.many or option.kind == "board"
    if kind == "simulator":
        fits, wanted = isinstance(value, bool | str), "True, False or text"
    elif kind in ("flag", "boolean"):
        fits, wanted = isinstance(value, bool), "True or False"
    elif isinstance(kind, Whole):
        fits, wanted = _is_whole(value), "a whole number"
    elif isinstance(kind, Number):
        fits, wanted = _is_whole(value) or (isinstance(value, Real) and not isinstance(value, bool)), "a number"
    elif isinstance(value, Mapping):
        fits, wanted = option.mapping and all(map(_fits_mapping, value.values())), "text"
    elif isinstance(value, (list, tuple)):
        fits, wanted = (many or option.listed) and all(map(_is_text, value)), "text"
    else:
        fits, wanted = _is_text(value) or (value == "" == option.default), "text"
    if not fits:
        wanted += ", or a list of texts" if wanted == "text" and (many or option.listed) else ""
        raise UsageError(f"{option.keyword}: got {repr(value)[:80]}, wanted {wanted}")


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
