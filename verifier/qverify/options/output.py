"""Output: what the screen shows, and what is written."""

from __future__ import annotations

from qverify.options.option import Option, Whole

QUIET = Option("-q --quiet", "print the verdict lines only", "flag", only_cli=True)
VERBOSE = Option(
    "-v --verbose",
    "also print engines, times (of each node on the board, too), traffic of the link",
    "flag",
    only_cli=True,
)
ALL = Option("--all", "list every tensor", "flag", name="every", only_cli=True)
TOP = Option("--top", "list the N tensors that differ most", Whole(1), metavar="N", only_cli=True)
CAPTURE = Option(
    "--capture",
    "store everything the run sees there, for replay, compare and triage; several boards use DIR-0, DIR-1, ...",
    metavar="DIR",
    job="it names a folder of the host; a job's keep_capture stores the capture as an artifact",
)
NPZ = Option(
    "--npz",
    "write every side's tensors, as SIDE/NAME, of one frame and at most one board",
    metavar="FILE",
    only_cli=True,
)
REPORT = Option("--report", ".", many=True, metavar="FORMAT=PATH", only_cli=True)  # its help lists the formats
_PURPOSES = {  # of formats that have an option of their own
    "html": "one page to look at and send on: ",
    "json": "",
    "junit": "for CI systems: ",
    "csv": "a row for each tensor: ",
    "markdown": "a comment for a merge request: ",
}
SHORTS = {
    name: Option(
        f"--{name}", f"{purpose}short for --report {name}=FILE", name=f"{name}_path", metavar="FILE", only_cli=True
    )
    for name, purpose in _PURPOSES.items()
}
PLOTS = Option(
    "--plots",
    "draw the tensors that differ and the inputs there, as SVG and PNG (needs Pillow)",
    metavar="DIR",
    only_cli=True,
)
