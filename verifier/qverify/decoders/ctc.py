"""CTC recognition: text from the best class of each step, repeats and blanks left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.decoders.parts.functions import softmax
from qverify.decoders.parts.levels import refuse, squeeze_batch
from qverify.decoders.parts.results import Text
from qverify.decoders.parts.settings import Settings

Array = npt.NDArray[Any]
Outputs = Mapping[str, Array]
NAME = "ctc"
ALSO = ("ppocr-rec",)
RESULT = "text"
DEFAULTS = Settings(blank=0, activation="none", layout="NHWC")


def decode(outputs: Outputs, settings: Settings) -> Text:
    """Returns the text of one output (1, T, C), (T, 1, C) or, with layout=NCHW, (1, C, T). The axis of the classes is that
    with the stated number of classes (`classes`, or `characters` and the blank), else the last."""
    plain = squeeze_batch(outputs)
    value = next(iter(plain.values())).squeeze() if len(plain) == 1 else np.zeros(0)
    wide = settings.classes or (len(settings.characters) + 1 if settings.characters else 0)
    if value.ndim != 2 or not value.size or (wide and wide not in value.shape):
        raise refuse(outputs, f"one output of steps and {wide or 'the'} classes")
    transposed = value.shape[1] != wide if wide else settings.layout == "NCHW"
    steps = np.asarray(value.T if transposed else value, np.float64)
    if settings.blank >= steps.shape[1]:
        raise refuse(outputs, f"more classes than the blank's number {settings.blank}")
    best = steps.argmax(axis=1)
    kept = _collapse(best, settings)
    chances = softmax(steps) if settings.activation == "softmax" else steps
    scores = chances[kept, best[kept]]
    codes = best[kept].astype(np.int64)
    return Text(spell(codes, settings), codes, float(scores.mean()) if len(scores) else 0.0)


def _collapse(best: Array, settings: Settings) -> Array:
    """Returns the steps whose classes are written."""
    full = best != settings.blank
    if settings.collapse == "blanks-first":
        steps = np.flatnonzero(full)
        return steps[np.r_[True, best[steps[1:]] != best[steps[:-1]]]] if len(steps) else steps
    changed = np.r_[True, best[1:] != best[:-1]]
    return np.flatnonzero({"none": full, "repeats-only": changed}.get(settings.collapse, full & changed))


def spell(codes: Array, settings: Settings) -> str:
    """Returns the characters of codes; the codes with spaces between them if no characters are stated."""
    if not settings.characters:
        return " ".join(map(str, codes.tolist()))
    places = [code - (code > settings.blank) for code in codes.tolist()]
    return "".join(settings.characters[at] if at < len(settings.characters) else "?" for at in places)
