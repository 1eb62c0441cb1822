"""Guesses what a wrong command line was meant to be, for a hint that is added to the error."""

from __future__ import annotations

import os
import re
from itertools import pairwise
from pathlib import Path

import click

BOARD = re.compile(
    r"local|(?:qemu|qemu-user|serial|ssh|docker|podman|faulty|finals)(?:$|:.*)|COM\d+|/dev/.*|[\w.-]+@[\w.:-]+"
)
MODEL_SUFFIXES = (".onnx", ".bin")
INPUT_SUFFIXES = (".npy", ".npz", ".png", ".jpg", ".jpeg", ".bmp", ".raw", ".nv12")


def hint(words: list[str], error: click.ClickException, command: str) -> str:
    """Returns a hint to append to the error's text, or "". command: as typed, without its options."""
    return (
        _after_empty_value(words)
        or _after_simulator(words, error)
        or _for_one_dash(words, error)
        or _for_extra_words(error)
        or _for_choice(error)
        or _help_for(error, command)
    )


def hint_for_missing_file(words: list[str], error: Exception) -> str:
    """Returns a hint with the existing file that a missing file of the command line may have meant, or "". Only for
    names that were typed."""
    from qverify.closest_names import closest_names

    absent = re.search(r"(?:^|: )(\S|\S[^:]*\S): no such (?:file|folder)", str(error), re.IGNORECASE)
    if absent is None or not any(absent[1] in re.split("[,:=]", word) for word in words):
        return ""
    path = Path(absent[1])
    try:
        neighbours = sorted(entry.name for entry in path.parent.iterdir() if not entry.name.startswith("."))
    except (OSError, ValueError):
        return ""
    near = closest_names(path.name, neighbours, 1)
    return f"; did you mean {path.parent / near[0]}?" if near else ""


def _after_simulator(words: list[str], error: click.ClickException) -> str:
    """Returns a hint if the extra word follows -s, which takes a value only if it is one of its own; else ""."""
    extra = re.fullmatch(r"Got unexpected extra arguments? \((\S*).*\)\.?", error.format_message())
    follows = zip(words, words[2:], strict=False)  # normalize_options() wrote True between them
    if extra is None or not any(o in ("-s", "--run-sim") and w == extra[1] for o, w in follows):
        return ""
    from qverify.closest_names import did_you_mean
    from qverify.engines import names

    return f"; -s takes True, False or an engine (qverify boards runner list){did_you_mean(extra[1], ('True', 'False', *names()))}"


def _for_choice(error: click.ClickException) -> str:
    """Returns a hint with the choice of an option that was probably meant, or ""."""
    kind = getattr(getattr(error, "param", None), "type", None)
    wrong = re.search(r": '([^']*)' is not one of ", error.format_message())
    if wrong is None or not isinstance(kind, click.Choice):
        return ""
    from qverify.closest_names import did_you_mean

    return did_you_mean(wrong[1], [str(choice) for choice in kind.choices])


def _help_for(error: click.ClickException, command: str) -> str:
    """Returns a hint to see the command's help, for an error that does not explain what would be right; else ""."""
    context = getattr(error, "ctx", None)
    explains_nothing = isinstance(error, click.MissingParameter | click.BadOptionUsage) or (
        isinstance(error, click.NoSuchOption) and not error.possibilities
    )
    has_extra_words = error.format_message().startswith("Got unexpected extra")
    if not (explains_nothing or has_extra_words):
        return ""
    return f"; see {context.command_path if context else command} --help"


def asks_for_help(error: click.ClickException) -> bool:
    """Returns whether the error's text is the whole help, as click raises it for a group of commands without a
    command."""
    return isinstance(error, getattr(click.exceptions, "NoArgsIsHelpError", ()))


def is_board(word: str) -> bool:
    """Returns whether a word is certainly an address for -b."""
    return BOARD.fullmatch(word) is not None


def _after_empty_value(words: list[str]) -> str:
    """Returns a hint if an option took the next option as its value, which happens with an unset shell variable; else
    ""."""
    for option, following in pairwise(words):
        if option in ("-b", "--board", "-m", "--model", "-i", "--input-img", "-o") and re.match(r"--?[a-z]", following):
            return f"; {option} is followed by {following}: an unset shell variable?"
    return ""


def _for_one_dash(words: list[str], error: click.ClickException) -> str:
    """Returns a hint with the long option of the command that was typed with one dash, or ""."""
    context = getattr(error, "ctx", None)
    parameters = context.command.params if context is not None else []
    options = {name for parameter in parameters for name in parameter.opts}
    meant = next((f"-{word}" for word in words if word.startswith("-") and f"-{word}" in options), "")
    return f"; did you mean {meant}?" if meant else ""


def _for_extra_words(error: click.ClickException) -> str:
    """Returns a hint with the option of the command for which the first extra word was probably meant, or ""."""
    extra = re.fullmatch(r"Got unexpected extra arguments? \((.*)\)\.?", error.format_message())
    context = getattr(error, "ctx", None)
    if extra is None or context is None:
        return ""
    word, *others = extra[1].split(" ")
    options = {name for parameter in context.command.params for name in parameter.opts}
    are_inputs = all(os.path.exists(path) and not path.endswith(MODEL_SUFFIXES) for path in (word, *others))
    if "-i" in options and others and are_inputs:
        return "; several files: -i takes their folder, or a list of them (.txt)"
    meant = next((f"{option} {word}" for option in _options_for(word) if option in options), "")
    return f"; did you mean {meant}?" if meant else ""


def _options_for(word: str) -> list[str]:
    """Returns the options that may take a word, the likeliest first. A word that is neither board, model nor file is
    taken for a host."""
    if is_board(word):
        return ["-b"]
    if word.endswith(MODEL_SUFFIXES):
        return ["-m", "-o"]  # -o for compile and quantize, which have no -m
    return ["-i"] if os.path.exists(word) or word.endswith(INPUT_SUFFIXES) else ["-b"]
