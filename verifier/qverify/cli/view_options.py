"""How much of a report is shown, and the properties of the terminal."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING, TextIO

import click

from qverify.options.given import Given

if TYPE_CHECKING:
    from qverify.renderers.text_view import TextView

DEFAULT_COLUMNS, MIN_COLUMNS = 80, 40  # if the width is not known; narrower output could not be read
UNLIMITED_COLUMNS = 1 << 30  # more than any row has


def read_view(given: Given) -> TextView:
    """Returns the view that the options state. Options that contradict each other are a usage error."""
    from dataclasses import replace

    quiet, verbose, every, top = (given[name] for name in ("quiet", "verbose", "every", "top"))
    is_given = {"-q": quiet, "-v": verbose, "--all": every, "--top": top is not None}
    for a, b in (("-q", "-v"), ("-q", "--all"), ("-q", "--top"), ("--all", "--top")):
        if is_given[a] and is_given[b]:
            raise click.UsageError(f"{a} and {b} contradict each other; give one")
    view = replace(screen(), every=every, top=top)
    return replace(view, detail="quiet" if quiet else "verbose") if quiet or verbose else view


def screen() -> TextView:
    """Returns the view for standard output: as wide as COLUMNS states, or else as the terminal, or 80 columns; wrapped
    and coloured on a terminal."""
    from qverify.renderers.text_view import TextView

    terminal = sys.stdout.isatty()
    columns = shutil.get_terminal_size((DEFAULT_COLUMNS, 24)).columns
    click.get_current_context().color = coloured = takes_colour(sys.stdout)  # else click removes colours in a pipe
    return TextView(max(columns, MIN_COLUMNS), terminal, coloured, blocks=takes_blocks(sys.stdout))


def listing_screen() -> TextView:
    """Returns the view for a listing. It is that of screen(), but without a terminal and without COLUMNS it is as wide
    as its rows, so that no name is shortened and all can be searched."""
    from dataclasses import replace

    view = screen()
    return view if view.wrapped or os.environ.get("COLUMNS") else replace(view, columns=UNLIMITED_COLUMNS)


def takes_blocks(stream: TextIO) -> bool:
    """Returns whether the stream's encoding has the block characters that drawings use."""
    try:
        "\u2581\u2591\u2592\u2593\u2588".encode(stream.encoding or "ascii")
    except (UnicodeError, LookupError):
        return False
    return True


def takes_colour(stream: TextIO) -> bool:
    """Returns whether to print colours to the stream: on a terminal that is not dumb, or with FORCE_COLOR, but never
    with NO_COLOR. Empty variables do not count."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"
