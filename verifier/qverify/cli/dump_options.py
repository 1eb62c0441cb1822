"""The options on how a dump is read: of `compare`, and of the main job with a dump in the board's place."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

DTYPE = click.option(
    "--dtype", multiple=True, metavar="[NAME=]DTYPE", help="dtype of files that do not state it (raw .bin, tidl .y)"
)
LAYER_INFO = click.option(
    "--layer-info", default="", metavar="DIR", help="tidl: folder of *.layer_info.txt  [default: the dump]"
)
FRAME = click.option(
    "--frame",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="frame of a capture; qualcomm: N of Result_N; axera: N of output/N",
)
MAP = click.option(
    "--map",
    "names",
    default="",
    metavar="FILE",
    help="TOML that pairs names of B (the dump) with names of A (the host's); a file that does not exist is written as a draft",
)
IN_PLACE = (  # options of the main job
    click.option(
        "--profile", default="", metavar="NAME", help="vendor profile of a dump in -m  [default: recognised by content]"
    ),
    click.option(
        "--side",
        default="",
        metavar="SIDE",
        help="side of a dump in -m: of a capture or --npz, reference, simulator or board; rockchip, axera: a folder; stm32: c",
    ),
    DTYPE,
    LAYER_INFO,
    FRAME,
    MAP,
)


def dump_in_place_options(command: Callable[..., int]) -> Callable[..., int]:
    """Adds the options. The command receives them as one `reading`, a function that returns the BoardDump of a path, or
    raises UsageError if the path is None and an option was given."""

    @wraps(command)
    def wrapper(
        profile: str, side: str, dtype: tuple[str, ...], layer_info: str, frame: int, names: str, **others: Any
    ) -> int:
        def reading(path: str | None) -> Any:
            given = {
                "--profile": profile, "--side": side, "--dtype": dtype, "--layer-info": layer_info, "--frame": frame,
                "--map": names,
            }  # fmt: skip
            if path is None:
                if option := next((name for name, value in given.items() if value), ""):
                    raise click.UsageError(
                        f"{option} says how a dump in the board's place is read, and -m has none; give -m MODEL,DUMP without -b"
                    )
                return None
            from qverify.session.offline.compare_dumps import dtypes
            from qverify.session.request import BoardDump
            from qverify.vendor_files.vendor_dump import ReadingOptions

            return BoardDump(path, profile, ReadingOptions(dtypes(dtype), side, frame, layer_info), names)

        return command(reading=reading, **others)

    for option in reversed(IN_PLACE):
        wrapper = option(wrapper)
    return wrapper
