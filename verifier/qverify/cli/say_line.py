"""Prints one line, whatever characters the names in it contain."""

from __future__ import annotations

import click

from qverify.printable import printable


def say(text: str, err: bool = False) -> None:
    """Prints the text as one line to stdout, or to stderr if `err`. On a terminal, a line on stdout is wrapped between
    words."""
    from qverify.cli.view_options import screen

    text = printable(text)
    click.echo(text if err else screen().wrap(text), err=err)


def say_command(text: str) -> None:
    """Prints a line with a command to copy, which is never wrapped."""
    click.echo(printable(text))
