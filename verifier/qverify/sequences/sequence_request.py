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
    """

    steps: int
    feed: Literal["both", "forced", "free"] = "both"
    tables: StateTables = field(default_factory=StateTables)
    decode: tuple[str, ...] = ()
    decode_shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def is_forced(self) -> bool:
        """Whether the forced feed is judged."""
        return self.feed != "free"

    @property
    def is_free(self) -> bool:
        """Whether the free-running feed is judged."""
        return self.feed != "forced"


def sequence_request(
    steps: int | None, feed: str | None, decode: str, loop: Mapping[str, Any]
) -> SequenceRequest | None:
    """Returns the request, None if no sequence is asked. feed: None if it is not given. loop: as in InputRequest. Raises
    UsageError for options of sequences without --steps, and for wrong tables."""
    given = {"--feed": feed, "--decode": decode, "[state] or [steps] of --description": loop}
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
    return SequenceRequest(steps, chosen, tables, paths)
