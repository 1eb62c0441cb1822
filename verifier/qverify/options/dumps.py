"""Dumps: tensors in files, and how they are read."""

from __future__ import annotations

from qverify.options.option import Option, Whole

_BOARD = "a job has a board, not a dump in its place"

PROFILE = Option(
    "--profile",
    "vendor profile of a dump in -m  [default: recognised by content]",
    default="",
    metavar="NAME",
    job=_BOARD,
)
PROFILE_A = Option("--profile-a", "vendor profile of dump A", default="", metavar="NAME")
PROFILE_B = Option("--profile-b", "vendor profile of dump B", default="", metavar="NAME")
SIDE = Option(
    "--side",
    "side of a dump in -m: of a capture or --npz, reference, simulator or board; rockchip, axera: a folder; stm32: c",
    default="",
    metavar="SIDE",
    job=_BOARD,
)
SIDE_A = Option("--side-a", "side of dump A  [default: --side]", default="", metavar="SIDE")
SIDE_B = Option("--side-b", "side of dump B  [default: --side]", default="", metavar="SIDE")
DTYPE = Option(
    "--dtype",
    "dtype of files that do not state it (raw .bin, tidl .y)",
    many=True,
    metavar="[NAME=]DTYPE",
    mapping=True,
    job=_BOARD,
)
LAYER_INFO = Option(
    "--layer-info", "tidl: folder of *.layer_info.txt  [default: the dump]", default="", metavar="DIR", job=_BOARD
)
FRAME = Option(
    "--frame", "frame of a capture; qualcomm: N of Result_N; axera: N of output/N", Whole(0), 0, shown=True, job=_BOARD
)
MAP = Option(
    "--map",
    "TOML that pairs names of B (the dump) with names of A (the host's); a file that does not exist is written as a draft",
    default="",
    name="names",
    metavar="FILE",
    job=_BOARD,
)
LAYOUT = Option(
    "--layout",
    "order of the axes of every tensor of four axes in the dump (compare: B) whose files do not state one",
    ("NCHW", "NHWC"),
    job=_BOARD,
)
OUTPUTS_ONLY = Option(
    "--outputs-only",
    "compare only the final outputs, like -r False; needs -m where neither dump names them",
    "flag",
    weakens=True,
)
