"""Sequences: networks whose outputs are inputs of the next step."""

from __future__ import annotations

from qverify.options.option import Option, Whole

STEPS = Option(
    "--steps",
    "verify N steps of a network with a state, whose outputs are inputs of the next step; -i has the inputs of each step: a folder, or a .npy with a leading axis of steps",
    Whole(1, 65536),
    metavar="N",
)
FEED = Option(
    "--feed",
    "whose state the sides get in each step: the reference's (forced), the board's own (free)  [default: both, each judged]",
    ("both", "forced", "free"),
    hint="str | None",
)
SNAPSHOT = Option(
    "--snapshot",
    "keep step STEP in this folder: a capture of it, which replay and triage take, and the states before it, for --from-snapshot",
    metavar="STEP:DIR",
    hint="str | None",
    job="it names a folder of the host",
)
FROM_SNAPSHOT = Option(
    "--from-snapshot",
    "begin with the step and the states of a folder of --snapshot, and go on to --steps",
    default="",
    metavar="DIR",
    job="it names a folder of the host",
)
DECODE = Option(
    "--decode",
    "the network of all steps but the first: -m is then the prefill, whose outputs are its states",
    default="",
    metavar="MODEL[,MODEL.bin]",
    listed=True,
    job="the steps of a job are those of one network",
)
