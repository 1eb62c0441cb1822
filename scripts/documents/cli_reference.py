"""Generates the command-line reference as Markdown from the click commands."""

from __future__ import annotations

import html
import re
import textwrap

import click
from qverify.cli.command_modules import load_command
from qverify.cli.main import COMMANDS

from scripts.documents.escaped import escaped


def page() -> str:
    """Returns a section for each command, in the order of `qverify --help`, with subsections for the commands of a
    group."""
    sections = []
    for name, summary in COMMANDS.items():
        command = load_command(name)
        sections += _section(command, f"qverify {name}", summary, 2)
    return "\n".join(sections)


def _section(command: click.Command, path: str, summary: str, level: int) -> list[str]:
    """Returns the section of a command, with those of its subcommands. level: of the heading."""
    context = click.Context(command, info_name=path)
    usage = " ".join([path, *command.collect_usage_pieces(context)])
    lines = [f"{'#' * level} {path}", "", *_prose(command.help or summary), "```text", usage, "```", ""]
    for parameter in command.get_params(context):
        lines += _entry(parameter, context)
    lines += _epilog(command, context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            if inner is not None and not inner.hidden:
                lines += _section(inner, f"{path} {name}", inner.get_short_help_str(), level + 1)
    return lines


def _prose(text: str) -> list[str]:
    """Returns the help text with one line per paragraph, each starting with a capital and ending with a full stop."""
    paragraphs = [" ".join(p.split()) for p in re.split(r"\n\s*\n", text.strip())]
    closed = [p if p.endswith((".", ":", "?")) else f"{p}." for p in paragraphs if p]
    return [line for p in closed for line in (escaped(p[0].upper() + p[1:]), "")]


def _entry(parameter: click.Parameter, context: click.Context) -> list[str]:
    """Returns an option's entry in a definition list; [] for --help and for arguments that the usage line fully
    describes."""
    record = parameter.get_help_record(context)
    if record is None or parameter.name == "help" or (isinstance(parameter, click.Argument) and not record[1]):
        return []
    names, text = record
    return [f"<code>{html.escape(names)}</code>", f":   {escaped(' '.join(text.split())) or '(no description)'}", ""]


def _epilog(command: click.Command, context: click.Context) -> list[str]:
    """Returns the text that --help prints below the options, with its line breaks."""
    formatter = click.HelpFormatter(width=100)
    command.format_epilog(context, formatter)
    shown = textwrap.dedent(formatter.getvalue()).strip("\n")
    return ["```text", shown, "```", ""] if shown.strip() else []
