"""Decoders: from the final outputs of a network to detections, keypoints, masks, text or classes, one file per family.

A page has NAME (what --decoder takes), a docstring of one line, RESULT (a key of parts.results.KINDS), DEFAULTS (its
Settings) and decode(outputs, settings). outputs: the real (dequantized) values of the outputs of one frame by name, with
or without a leading axis of 1. A detector has candidates(outputs, settings) as well, and its decode is select(...) of
them. UsageError, in one line, refuses outputs whose shapes do not fit. All values are float64, and the same bits on every
processor; pixels are those of the picture if `frame` states its size, else of the network's input."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt

from qverify.closest_names import did_you_mean
from qverify.decoders.parts.results import KINDS, Boxes, Classes, Keypoints, Mask, Result, Text
from qverify.decoders.parts.selection import Candidates
from qverify.decoders.parts.settings import Settings, parse_settings, read_settings, split_settings
from qverify.errors import UsageError
from qverify.pages import load_pages
from qverify.printable import printable
from qverify.user_functions import load_function

__all__ = [
    "Boxes",
    "Candidates",
    "Classes",
    "Decoder",
    "Keypoints",
    "Mask",
    "Result",
    "Settings",
    "Text",
    "find_decoder",
    "pages",
]
Outputs = Mapping[str, npt.NDArray[Any]]


class DecoderPage(Protocol):
    """A page of this folder. RESULT: key of KINDS, the type that decode() returns."""

    NAME: str
    RESULT: str
    DEFAULTS: Settings
    __doc__: str

    def decode(self, outputs: Outputs, settings: Settings) -> Result: ...


@cache
def pages() -> tuple[DecoderPage, ...]:
    """Returns the pages, sorted by file name."""
    required = ("NAME", "__doc__", "RESULT", "DEFAULTS", "decode")
    return tuple(cast(DecoderPage, page) for page in load_pages(__name__, required))


@dataclass(frozen=True, slots=True)
class Decoder:
    """A decoder with its settings. name: NAME of its page, or the user's FILE.py:FUNCTION. result: key of KINDS, "" if
    the user's function decides. candidates: of a detector, else None. stated: the settings that the user states."""

    name: str
    result: str
    settings: Settings
    function: Callable[[Outputs, Settings], Result]
    candidates: Callable[[Outputs, Settings], Candidates] | None = None
    stated: frozenset[str] = frozenset()

    def decode(self, outputs: Outputs) -> Result:
        """Returns the result of one frame. outputs: real values of the final outputs, by name. Raises UsageError if they
        do not fit the decoder, or the user's function fails or returns something else than a Result."""
        return self.function(outputs, self.settings)


def find_decoder(text: str, table: Mapping[str, Any] | None = None) -> Decoder:
    """Returns the decoder that `NAME,KEY=VALUE,...` names: a page, or the user's `MODULE:FUNCTION` or
    `FILE.py:FUNCTION`, a function(outputs, settings) that returns a Result. table: the table [decoder] of a description,
    which the text overrides; its `name` counts if the text is "". Raises UsageError for anything else."""
    stated = dict(table or {})
    name = str(stated.pop("name", ""))
    text = text or name
    name = text.partition(",")[0]
    given = frozenset(key.replace("-", "_") for key in stated)
    by_name = {page.NAME: page for page in pages()}
    by_name |= {other: page for page in pages() for other in getattr(page, "ALSO", ())}
    if name in by_name:
        page = by_name[name]
        settings = parse_settings(text, read_settings(stated, page.DEFAULTS, "[decoder]"))[1]
        given |= frozenset(split_settings(text)[1])
        return Decoder(page.NAME, page.RESULT, settings, page.decode, getattr(page, "candidates", None), given)
    if ":" not in name:
        known = ", ".join(by_name)
        raise UsageError(
            f"--decoder {printable(name) or '(empty)'}: wanted one of {known}, MODULE:FUNCTION or FILE.py:FUNCTION"
            f"{did_you_mean(name, list(by_name))}"
        )
    settings = parse_settings(text, read_settings(stated, Settings(), "[decoder]"))[1]
    return Decoder(name, "", settings, _guard(name, load_function(name, "--decoder", UsageError)))


def _guard(name: str, function: Callable[..., Any]) -> Callable[[Outputs, Settings], Result]:
    """Returns the user's function with its errors as UsageError, and its result checked."""

    def decode(outputs: Outputs, settings: Settings) -> Result:
        try:
            with redirect_stdout(sys.stderr):  # stdout may be taken by a report
                result = function({n: np.array(v) for n, v in outputs.items()}, settings)
        except (Exception, SystemExit) as error:
            message = " ".join(f"{type(error).__name__}: {error}".split())
            raise UsageError(f"--decoder {name}: {printable(message)}") from error
        return check_result(name, result)

    return decode


def check_result(name: str, result: Any) -> Result:
    """Returns the result of a user's function with the types and shapes that parts.results states. A tuple (boxes,
    scores, classes) becomes Boxes. Raises UsageError for anything else."""
    if isinstance(result, tuple) and len(result) == 3:
        result = Boxes(*(np.asarray(part) for part in result))
    if not isinstance(result, tuple(KINDS.values())):
        raise UsageError(
            f"--decoder {name}: returned {type(result).__name__}; wanted qverify.decoders.{'/'.join(t.__name__ for t in KINDS.values())}, or (boxes, scores, classes)"
        )
    if not isinstance(result, Boxes):
        return cast(Result, result)
    try:
        boxes = np.asarray(result.boxes, np.float64).reshape(-1, 4)
        scores = np.asarray(result.scores, np.float64).reshape(-1)
        classes = np.asarray(result.classes).astype(np.int64).reshape(-1)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"--decoder {name}: {printable(str(error))}; wanted boxes (N, 4), scores (N,), classes (N,)"
        ) from error
    if not len(boxes) == len(scores) == len(classes):
        raise UsageError(
            f"--decoder {name}: {len(boxes)} boxes, {len(scores)} scores, {len(classes)} classes; wanted as many"
        )
    return Boxes(boxes, scores, classes, result.keypoints, result.corners)
