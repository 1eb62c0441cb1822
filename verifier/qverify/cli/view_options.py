"""The options of how much is shown, the same on every command that prints a report, and the terminal it is shown on."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, TextIO

import click

if TYPE_CHECKING:
    from qverify.renderers.view import View

COLUMNS, FEWEST = 80, 40  # without a terminal that tells; of one that cannot be read otherwise
UNLIMITED = 1 << 30  # more than any row has
QUIET = click.option("-q", "--quiet", is_flag=True, help="print the verdict lines only")
DETAIL = (
    QUIET,
    click.option(
        "-v",
        "--verbose",
        is_flag=True,
        help="also print engines, times (of each node on the board, too), traffic of the link",
    ),
)
ROWS = (
    click.option("--all", "every", is_flag=True, help="list every tensor"),
    click.option("--top", type=click.IntRange(1), metavar="N", help="list the N tensors that differ most"),
)


def view_options(command: Callable[..., int]) -> Callable[..., int]:
    """Adds the options; the command gets them as one `view` (renderers.view.View). UsageError where they contradict."""

    @wraps(command)
    def wrapper(quiet: bool, verbose: bool, every: bool, top: int | None, **others: Any) -> int:
        from dataclasses import replace

        given = {"-q": quiet, "-v": verbose, "--all": every, "--top": top is not None}
        for one, other in (("-q", "-v"), ("-q", "--all"), ("-q", "--top"), ("--all", "--top")):
            if given[one] and given[other]:
                raise click.UsageError(f"{one} and {other} contradict each other; give one")
        view = replace(screen(), every=every, top=top)
        if quiet or verbose:
            view = replace(view, detail="quiet" if quiet else "verbose")
        return command(view=view, **others)

    for option in reversed((*DETAIL, *ROWS)):
        wrapper = option(wrapper)
    return wrapper


def screen() -> View:
    """Returns the view of standard output: as wide as its terminal, COLUMNS or 80; wrapped and coloured on a terminal."""
    from qverify.renderers.view import View

    terminal = sys.stdout.isatty()
    columns = shutil.get_terminal_size((COLUMNS, 24)).columns
    click.get_current_context().color = coloured = takes_colour(sys.stdout)  # otherwise click removes them in a pipe
    return View(max(columns, FEWEST), terminal, coloured, blocks=takes_blocks(sys.stdout))


def listing_screen() -> View:
    """Returns the view of a listing: that of `screen`, but in a pipe or a file, where COLUMNS is not set, as wide as its
    rows, so that names are whole and can be searched."""
    from dataclasses import replace

    view = screen()
    return view if view.wrapped or os.environ.get("COLUMNS") else replace(view, columns=UNLIMITED)


def takes_blocks(stream: TextIO) -> bool:
    """Returns whether the stream's encoding has block characters."""
    try:
        "\u2581\u2591\u2592\u2593\u2588".encode(stream.encoding or "ascii")
    except (UnicodeError, LookupError):
        return False
    return True


def takes_colour(stream: TextIO) -> bool:
    """Returns whether the stream gets colours: a terminal that is not dumb, or any with FORCE_COLOR; never with
    NO_COLOR. Either variable counts where it is not empty."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"
