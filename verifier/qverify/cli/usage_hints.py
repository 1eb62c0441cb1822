"""What a mistaken command line was probably meant to be, to be added to the error."""

from __future__ import annotations

import os
import re
from itertools import pairwise
from pathlib import Path

import click

BOARD = re.compile(
    r"local|(?:qemu|qemu-user|serial|ssh|docker|podman|faulty|finals)(?:$|:.*)|COM\d+|/dev/.*|[\w.-]+@[\w.:-]+"
)
MODELS, INPUTS = (".onnx", ".bin"), (".npy", ".npz", ".png", ".jpg", ".jpeg", ".bmp", ".raw", ".nv12")


def hint(words: list[str], error: click.ClickException, command: str) -> str:
    """Returns a hint that follows the error's text; "" where there is none. command: as typed, without its options."""
    return (
        _after_empty_value(words) or _for_one_dash(words, error) or _for_extra_words(error) or _help_for(error, command)
    )


def hint_for_missing_file(words: list[str], error: Exception) -> str:
    """Returns the file beside it that a missing one of the command line may have meant; "" where there is none. Only
    names that were typed are looked for."""
    from qverify.closest_names import closest_names

    absent = re.search(r"(?:^|: )(\S|\S[^:]*\S): no such (?:file|folder)", str(error), re.IGNORECASE)
    if absent is None or not any(absent[1] in re.split("[,:=]", word) for word in words):
        return ""
    path = Path(absent[1])
    try:
        beside = sorted(one.name for one in path.parent.iterdir() if not one.name.startswith("."))
    except (OSError, ValueError):
        return ""
    near = closest_names(path.name, beside, 1)
    return f"; did you mean {path.parent / near[0]}?" if near else ""


def _help_for(error: click.ClickException, command: str) -> str:
    """Returns the command whose help has what is missing or wrong, where the error says no more than that it is."""
    context = getattr(error, "ctx", None)
    bare = isinstance(error, click.MissingParameter | click.BadOptionUsage) or (
        isinstance(error, click.NoSuchOption) and not error.possibilities
    )
    extra = error.format_message().startswith("Got unexpected extra")
    return f"; see {context.command_path if context else command} --help" if bare or extra else ""


def asks_for_help(error: click.ClickException) -> bool:
    """Returns whether the error's text is the whole help, as of a group of commands that was given none."""
    return isinstance(error, getattr(click.exceptions, "NoArgsIsHelpError", ()))


def is_board(word: str) -> bool:
    """Returns whether a word is surely an address of -b."""
    return BOARD.fullmatch(word) is not None


def _after_empty_value(words: list[str]) -> str:
    """Returns a hint where an option took the next option as its value, as after an unset shell variable; else ""."""
    for one, following in pairwise(words):
        if one in ("-b", "--board", "-m", "--model", "-i", "--input-img", "-o") and re.match(r"--?[a-z]", following):
            return f"; {one} is followed by {following}: an unset shell variable?"
    return ""


def _for_one_dash(words: list[str], error: click.ClickException) -> str:
    """Returns the long option of the command that a word with one dash was meant for."""
    context = getattr(error, "ctx", None)
    options = {name for one in context.command.params for name in one.opts} if context is not None else set[str]()
    meant = next((f"-{word}" for word in words if word.startswith("-") and f"-{word}" in options), "")
    return f"; did you mean {meant}?" if meant else ""


def _for_extra_words(error: click.ClickException) -> str:
    """Returns the option that the first extra word was probably meant for, of those that the command has."""
    extra = re.fullmatch(r"Got unexpected extra arguments? \((.*)\)\.?", error.format_message())
    context = getattr(error, "ctx", None)
    if extra is None or context is None:
        return ""
    word, *others = extra[1].split(" ")
    options = {name for parameter in context.command.params for name in parameter.opts}
    if "-i" in options and others and all(os.path.exists(one) and not one.endswith(MODELS) for one in (word, *others)):
        return "; several files: -i takes their folder, or a list of them (.txt)"
    meant = next((f"{one} {word}" for one in _options_for(word) if one in options), "")
    return f"; did you mean {meant}?" if meant else ""


def _options_for(word: str) -> list[str]:
    """Returns the options that may take a word, the likeliest first. A word of no other kind is taken for a host."""
    if is_board(word):
        return ["-b"]
    if word.endswith(MODELS):
        return ["-m", "-o"]  # -o of compile and quantize, which take no -m
    return ["-i"] if os.path.exists(word) or word.endswith(INPUTS) else ["-b"]
