"""The request for a sequence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from qverify.errors import UsageError
from qverify.sequences.state_tables import StateTables, parse_state_tables

MAX_STEPS = 65536
FEEDS: tuple[Literal["both", "forced", "free"], ...] = ("both", "forced", "free")


@dataclass(frozen=True, slots=True)
class SequenceRequest:
    """A request for a sequence.

    Attributes:
        steps: number of steps.
        feed: whose state the sides get: forced, free or both.
        tables: states and step inputs that the description states.
        decode: paths of --decode, which run all steps but the first; () if -m runs all.
        decode_shapes: of dynamic inputs of --decode, by name.
        snapshot: step of which a snapshot is taken, and its folder; None for none.
        begin: folder of the snapshot with which the run begins, "" for the initial values.
    """

    steps: int
    feed: Literal["both", "forced", "free"] = "both"
    tables: StateTables = field(default_factory=StateTables)
    decode: tuple[str, ...] = ()
    decode_shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    snapshot: tuple[int, str] | None = None
    begin: str = ""

    @property
    def is_forced(self) -> bool:
        """Whether the forced feed is judged."""
        return self.feed != "free"

    @property
    def is_free(self) -> bool:
        """Whether the free-running feed is judged."""
        return self.feed != "forced"


def sequence_request(
    steps: int | None, feed: str | None, decode: str, loop: Mapping[str, Any], snapshot: str = "", begin: str = ""
) -> SequenceRequest | None:
    """Returns the request, None if no sequence is asked. feed: None if it is not given. loop: as in InputRequest. snapshot:
    STEP:DIR, "" for none. Raises UsageError for options of sequences without --steps, and for wrong tables."""
    given = {"--feed": feed, "--decode": decode, "[state] or [steps] of --description": loop}
    given |= {"--snapshot": snapshot, "--from-snapshot": begin}
    if steps is None:
        if named := next((name for name, value in given.items() if value), ""):
            raise UsageError(f"{named}: it is of a sequence; give --steps N")
        return None
    paths = tuple(path for path in decode.split(",")) if decode else ()
    if not all(paths):
        raise UsageError(f"--decode {decode}: an empty path; wanted decode.onnx[,decode.bin]")
    if decode and steps < 2:
        raise UsageError(f"--steps {steps} with --decode: step 0 is the prefill; wanted 2 or more")
    tables = parse_state_tables(loop.get("state"), loop.get("steps"), str(loop.get("path", "")))
    chosen = next(known for known in FEEDS if known == (feed or "both"))
    if decode and (option := "--snapshot" if snapshot else "--from-snapshot" if begin else ""):
        raise UsageError(f"{option}: a sequence of several networks (--decode) has no snapshot; leave it out")
    kept = _parse_snapshot(snapshot, steps) if snapshot else None
    return SequenceRequest(steps, chosen, tables, paths, snapshot=kept, begin=begin)


def _parse_snapshot(text: str, steps: int) -> tuple[int, str]:
    """Returns step and folder of --snapshot. Raises UsageError for another form, or a step beyond the end."""
    number, _, folder = text.partition(":")
    if not (number.isascii() and number.isdigit()) or not folder:
        raise UsageError(f"--snapshot {text}: wanted STEP:DIR, such as 12:step12")
    if len(number) > 9 or int(number) >= steps:
        raise UsageError(f"--snapshot {text}: --steps {steps} has the steps 0 to {steps - 1}; give one of them")
    return int(number), folder
