"""Checks, without running it, that the program accepts a command line shown in a document."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
from qverify.cli.command_modules import load_command
from qverify.cli.main import COMMANDS
from qverify.cli.normalize_options import normalize_options

from scripts.documents.blocks import ROOT

SYSTEM_COMMANDS = {  # of the system, or in an activated environment
    *(".", "apt-get", "cd", "cp", "deactivate", "echo", "export", "grep", "head", "make", "mkdir", "python", "sh"),
    "tail",
}
TOOLS_OF_MAKERS = {  # what the pages of chips run on the board or in the maker's toolkit
    *("pulsar2", "ax_run_model", "hrt_model_exec", "qnn-net-run", "./prog_dla_simulator", "model_runner", "stedgeai"),
    *("mv", "scp"),
}


def problem(line: str) -> str:
    """Returns the error in a shell line, "" if there is none. Text inside quotes is not checked."""
    words = shlex.split(re.sub(r"(?<=\s)\d?>(&\d|\S+)", "", line), comments=True)
    commands: list[list[str]] = [[]]
    for word in words:
        if word in ("|", "&&", "||", ";") or word.endswith(";"):
            commands[-1] += [word.rstrip(";")] if word.rstrip(";|&") else []
            commands.append([])
        else:
            commands[-1].append(word)
    return "; ".join(error for words in commands if words and (error := _command_problem(words[0], words[1:])))


def _command_problem(program: str, words: list[str]) -> str:
    """Returns the error in one command, "" if there is none."""
    if program == "qverify":
        return _qverify_problem(words)
    if program in ("hb_verifier", "hb_model_verifier"):
        from qverify.cli.vendor_commands import translate_model_verifier, translate_verifier

        translate = translate_verifier if program == "hb_verifier" else translate_model_verifier
        return _qverify_problem(["verify", *translate(normalize_options(words))[0]])
    if program.startswith("scripts/"):
        return "" if Path(ROOT, program).is_file() else f"{program}: no such file"
    others = (".venv/bin/python", ".venv/bin/mkdocs", "cc", "pip", "~/labgrid/bin/pip", "pytest")
    if program in SYSTEM_COMMANDS | TOOLS_OF_MAKERS or program in others:
        return ""
    return f"{program}: not a program that these pages use"


def _qverify_problem(words: list[str]) -> str:
    """Parses options and values as click does, without requiring that files exist. Returns the error, "" if there is
    none."""
    words = normalize_options(words)
    name = words.pop(0) if words and words[0] in COMMANDS else "verify"
    command = load_command(name)
    while isinstance(command, click.Group):
        context = click.Context(command)
        inner = command.get_command(context, words[0]) if words else None
        if inner is None and words and (default := getattr(command, "default", "")):
            inner, words = command.get_command(context, default), [default, *words]
        if inner is None:
            return f"qverify {name}: no command {words[:1]}"
        command, words = inner, words[1:]
    context = click.Context(command)
    try:
        values, surplus, _ = command.make_parser(context).parse_args(list(words))
        if surplus:
            return f"qverify {name}: {surplus[0]}: one argument too many"
        for parameter in command.params:
            value = values.get(parameter.name or "")
            missing = value is None or repr(value) == "Sentinel.UNSET" or value == ()
            if missing and parameter.required:
                return f"qverify {name}: {parameter.name} is missing"
            if not missing and not isinstance(parameter.type, click.Path):
                parameter.type_cast_value(context, value)
    except click.ClickException as error:
        return f"qverify {name}: {error.format_message()}"
    return ""
