"""A window's padding, stride, dilation or kernel is computed from the wrong words: from those of the other axis or the
other end, or computed anew."""

from __future__ import annotations

from collections.abc import Iterator

from qverify.triage.altered_kernels.inner_node import inner_case
from qverify.triage.altered_kernels.summed_elements import words_of
from qverify.triage.altered_kernels.text_priors import USUAL_BITS
from qverify.triage.case import Case
from qverify.triage.hypotheses import FaultVariant, window

NAME = "window-words"
OPS = window.OPS
# Bits of the most frequent mistakes; of texts without values, which also describe other nodes; of a change of one axis.
SYSTEMATIC, PLAIN, ONE_AXIS = 0.6, 3.0, 0.2
SIDES = (("h", "pad_top"), ("w", "pad_left"))  # other paddings change nothing, because the size of the output is given


def variants(case: Case) -> Iterator[FaultVariant]:
    inner = inner_case(case) or case
    words = words_of(inner)
    if "stride_h" not in words:
        return
    reasons: dict[tuple[tuple[str, int], ...], list[str]] = {}
    for text, changed in _changes(inner, words):
        real = {k: v for k, v in changed.items() if words.get(k) not in (None, v)}
        if real and min(real.values()) >= 0:
            reasons.setdefault(tuple(sorted(real.items())), []).append(text)
    for effect, why in reasons.items():
        values = ", ".join(f"{name} {value} instead of {words[name]}" for name, value in effect)
        make = window.recompute(case, dict(effect))
        for text in why:
            likely = SYSTEMATIC if "anew" in text or "ignored" in text or "both" in text else USUAL_BITS
            likely += ONE_AXIS * ("before rows" in text or "before columns" in text or "SAME" in text)
            yield FaultVariant(f"{text}: {values}", make, likely)
            yield FaultVariant(text, make, likely + PLAIN)


def _changes(case: Case, words: dict[str, int]) -> Iterator[tuple[str, dict[str, int]]]:
    yield from _paddings(case, words)
    for name in ("stride", "dilation", "kernel"):
        if f"{name}_h" in words and (name != "kernel" or case.last.op.endswith("pool")):
            height, width = words[f"{name}_h"], words[f"{name}_w"]
            yield (
                f"the vertical {name} {height} is used in both directions ({name} of columns {height} instead of {width})",
                {f"{name}_w": height},
            )
            yield (
                f"the horizontal {name} {width} is used in both directions ({name} of rows {width} instead of {height})",
                {f"{name}_h": width},
            )
            yield f"the vertical and the horizontal {name} are exchanged", {f"{name}_h": width, f"{name}_w": height}
            yield f"the vertical {name} is ignored (1)", {f"{name}_h": 1}
            yield f"the horizontal {name} is ignored (1)", {f"{name}_w": 1}
    if "dilation_h" in words:
        yield "the dilation is taken for the stride", {"stride_h": words["dilation_h"], "stride_w": words["dilation_w"]}
        yield "the stride is taken for the dilation", {"dilation_h": words["stride_h"], "dilation_w": words["stride_w"]}


def _paddings(case: Case, words: dict[str, int]) -> Iterator[tuple[str, dict[str, int]]]:
    top, left, bottom, right = (words[f"pad_{s}"] for s in ("top", "left", "bottom", "right"))
    wide, high = left + right, top + bottom
    yield (
        "pad_left is ignored: the windows start at the first column, all padding of columns is on the right",
        _pads(words, left=0),
    )
    yield (
        "pad_top is ignored: the windows start at the first row, all padding of rows is below",
        _pads(words, top=0),
    )
    yield (
        "pad_top and pad_left are ignored: all padding is at the end",
        _pads(words, top=0, left=0),
    )
    yield (
        "all padding comes first: pad_top and pad_left are the totals",
        _pads(words, top=high, left=wide),
    )
    yield (
        "the padding of both begins and ends is exchanged: pad_bottom and pad_right come first",
        _pads(words, top=bottom, left=right),
    )
    yield "pad_right is used in place of pad_left", _pads(words, left=right)
    yield "pad_bottom is used in place of pad_top", _pads(words, top=bottom)
    yield "pad_top and pad_left are exchanged", _pads(words, top=left, left=top)
    yield "pad_top is used in place of pad_left, too", _pads(words, left=top)
    yield "pad_left is used in place of pad_top, too", _pads(words, top=left)
    up, down = ((high + 1) // 2, (wide + 1) // 2), (high // 2, wide // 2)
    yield (
        "the padding is split anew, an odd total with its extra row and column first (begin half the total, rounded up)",
        _pads(words, top=up[0], left=up[1]),
    )
    yield (
        "the padding is split anew, an odd total with its extra row and column last (begin half the total, rounded down)",
        _pads(words, top=down[0], left=down[1]),
    )
    yield "the padding before rows is split anew, rounded up", _pads(words, top=up[0])
    yield "the padding before columns is split anew, rounded up", _pads(words, left=up[1])
    yield "the padding before rows is split anew, rounded down", _pads(words, top=down[0])
    yield "the padding before columns is split anew, rounded down", _pads(words, left=down[1])
    yield from _sizes(case, words)


def _sizes(case: Case, words: dict[str, int]) -> Iterator[tuple[str, dict[str, int]]]:
    top, left = words["pad_top"], words["pad_left"]
    for text, half in (("SAME_UPPER (the smaller half first)", 0), ("SAME_LOWER (the larger half first)", 1)):
        yield f"the padding is computed anew as {text}", _same(case, words, half)
    for text, by in (("the stride", "stride"), ("the dilation", "dilation")):
        if f"{by}_h" in words:
            yield (
                f"the padding is multiplied by {text}",
                _pads(words, top=top * words[f"{by}_h"], left=left * words[f"{by}_w"]),
            )
            yield (
                f"the padding is divided by {text}",
                _pads(words, top=top // words[f"{by}_h"], left=left // words[f"{by}_w"]),
            )
    yield (
        "the padding is half the kernel, rounded down",
        _pads(words, top=words["kernel_h"] // 2, left=words["kernel_w"] // 2),
    )
    yield (
        "the padding is half the kernel less one, rounded down",
        _pads(words, top=(words["kernel_h"] - 1) // 2, left=(words["kernel_w"] - 1) // 2),
    )
    yield "the padding counts twice", _pads(words, top=2 * top, left=2 * left)
    for side, word in (("top", "pad_top"), ("left", "pad_left")):
        for away in (-2, -1, 1, 2):
            way = "large" if away > 0 else "small"
            yield f"{word} is {abs(away)} too {way}", _pads(words, **{side: words[word] + away})


def _pads(words: dict[str, int], **pads: int) -> dict[str, int]:
    return {f"pad_{side}": value for side, value in pads.items()}


def _same(case: Case, words: dict[str, int], half: int) -> dict[str, int]:
    shape, out = case.graph.spec(case.last.inputs[0] or "").shape, case.spec.shape
    pads: dict[str, int] = {}
    for side, before in SIDES:
        if len(shape) == 3 and side == "h":
            continue
        axis = -2 if side == "h" else -1
        reach = (words[f"kernel_{side}"] - 1) * words.get(f"dilation_{side}", 1) + 1
        total = max(0, (out[axis] - 1) * words[f"stride_{side}"] + reach - shape[axis])
        pads[before] = (total + half) // 2
    return pads
