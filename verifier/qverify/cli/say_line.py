"""Prints one line, whatever characters the names in it contain."""

from __future__ import annotations

import click

from qverify.printable import printable


def say(text: str, err: bool = False) -> None:
    """Prints the text as one line on stdout, or on stderr."""
    click.echo(printable(text), err=err)
