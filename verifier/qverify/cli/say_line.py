"""One line to a person, whatever the names in it hold."""

from __future__ import annotations

import click

from qverify.printable import printable


def say(text: str, err: bool = False) -> None:
    """The text as one line on stdout, or on stderr."""
    click.echo(printable(text), err=err)
