"""A window has another dilation, with the padding that keeps the size of its output: none of both is one word wrong."""

from __future__ import annotations

from collections.abc import Iterator

from qverify.triage.altered_kernels.inner_node import inner_case
from qverify.triage.altered_kernels.summed_elements import words_of
from qverify.triage.case import Case
from qverify.triage.hypotheses import FaultVariant
from qverify.triage.hypotheses.window import OPS as OPS
from qverify.triage.hypotheses.window import recompute

NAME = "window-dilation"
USUAL = (1, 2, 3, 4)
SIDES = {"h": "pad_top", "w": "pad_left"}  # other paddings change nothing, because the size of the output is given


def variants(case: Case) -> Iterator[FaultVariant]:
    words = words_of(inner_case(case) or case)
    if "dilation_h" not in words:
        return
    own = (words["dilation_h"], words["dilation_w"])
    seen = set[tuple[tuple[str, int], ...]]()
    for dilation in _dilations(own):
        for starts in _starts(words, dilation):
            changed = {"dilation_h": dilation[0], "dilation_w": dilation[1], **starts}
            key = tuple(sorted(changed.items()))
            is_known = all(words[pad] == value for pad, value in starts.items())  # as the hypothesis `window` has it
            if key in seen or is_known or min(starts.values()) < 0:
                continue
            seen.add(key)
            pads = ", ".join(f"{pad} {value} instead of {words[pad]}" for pad, value in starts.items())
            text = f"dilation {_describe(dilation)} instead of {_describe(own)}, with the padding that keeps the size"
            yield FaultVariant(f"{text} ({pads})", recompute(case, changed), 5.0)


def _describe(dilation: tuple[int, int]) -> str:
    return f"{dilation[0]}" if dilation[0] == dilation[1] else f"{dilation[0]}x{dilation[1]}"


def _dilations(own: tuple[int, int]) -> list[tuple[int, int]]:
    """Returns other dilations: of both axes, of one axis, and those of the axes exchanged."""
    both = [(d, d) for d in (*USUAL, *own)]
    one = [pair for d in (*USUAL, *own) for pair in ((d, own[1]), (own[0], d))]
    return [pair for pair in dict.fromkeys([*both, own[::-1], *one]) if pair != own]


def _starts(words: dict[str, int], dilation: tuple[int, int]) -> Iterator[dict[str, int]]:
    """Yields paddings with which windows of another dilation have the same middle (the two nearest ones of an odd
    difference), or the same share of padding."""
    axes = tuple(zip(SIDES.items(), dilation, strict=True))
    less = [(words[f"kernel_{axis}"] - 1) * (words[f"dilation_{axis}"] - d) for (axis, _), d in axes]
    yield {pad: words[pad] - by // 2 for ((_, pad), _), by in zip(axes, less, strict=True)}
    yield {pad: words[pad] - (by - by // 2) for ((_, pad), _), by in zip(axes, less, strict=True)}
    yield {pad: words[pad] * d // words[f"dilation_{axis}"] for (axis, pad), d in axes}
