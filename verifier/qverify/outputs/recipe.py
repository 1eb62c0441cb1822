"""Recipe: a way in which a device may have made its result of the final outputs: a decoder's settings and additional
steps at the stages of OUTPUTS.md section 2."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from qverify.decoders.parts.settings import Settings
from qverify.errors import UsageError

Array = npt.NDArray[Any]
Stage = Literal["stored", "real", "candidates", "kept", "found", "placed", "rows"]
STAGES: tuple[Stage, ...] = ("stored", "real", "candidates", "kept", "found", "placed", "rows")
# Settings that determine a stage, in addition to those of the stages before it. What none of them names is geometry.
SCORES = ("activation", "combine", "background", "multi_label")
KEPT = ("score", "score_equal", "nms", "iou", "before_nms", "top")
PLACED = ("frame", "fit", "clip", "roi")


@dataclass(frozen=True, slots=True)
class Output:
    """A final output as it is stored. values: of its shape. scale, zero: of its quantization, () if its values are real;
    one, or one per channel of `axis`."""

    values: Array
    scale: tuple[float, ...] = ()
    zero: tuple[int, ...] = ()
    axis: int = -1

    def real(self) -> Array:
        """Returns (q - zero) * scale in float64, or the values themselves."""
        if not self.scale:
            return self.values
        scale, zero = np.array(self.scale, np.float64), np.array(self.zero, np.float64)
        if len(self.scale) == 1 and self.values.dtype.kind in "iu" and self.values.dtype.itemsize == 1:
            codes = np.arange(256, dtype=np.uint8).view(self.values.dtype)  # every value once, by its bits
            return ((codes.astype(np.float64) - zero) * scale)[self.values.view(np.uint8)]
        if len(self.scale) > 1:
            along = [1] * self.values.ndim
            along[self.axis] = -1
            scale, zero = scale.reshape(along), zero.reshape(along)
        return (self.values.astype(np.float64) - zero) * scale

    def largest(self) -> Array:
        """Returns the largest magnitude that each real value is made of, in real units, for the roundings of its steps: where
        a zero point is subtracted from what was rounded already, what is left may be much smaller than both."""
        real = np.abs(self.real())
        if self.values.dtype.kind != "f" or not any(self.zero):
            return real
        plain = replace(self, values=np.abs(self.values), zero=tuple(-abs(z) for z in self.zero))
        return np.maximum(real, np.abs(plain.real()))


Outputs = dict[str, Output]


@dataclass(frozen=True, slots=True)
class Step:
    """An additional step at a stage. name: unique name, among those of all families. change: returns the new values of the stage, given its values and
    the recipe. of_one: whether the best anchor goes through it as it does among all others, so that a recipe can be
    rejected by this anchor alone. geometry: of a step on candidates, whether it leaves their scores as they are."""

    name: str
    change: Callable[[Any, OutputRecipe], Any] = field(compare=False)
    of_one: bool = field(default=True, compare=False)
    geometry: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class DeviceEvidence:
    """Facts that hypotheses use.

    Attributes:
        kind: key of decoders.KINDS, or "arrays".
        outputs: the reference's outputs, as they are stored.
        size: (width, height) of the network's input, (0, 0) if not known.
        rows: number of results that the device wrote.
        least: the lowest score that the device wrote, NaN without scores.
        most: between which two numbers the highest score of the device is, with what its writing rounds; () without.
        classes: the lowest and highest class that the device wrote, None without class numbers.
        target: of arrays: the output whose array is explained, else "".
        corners: whether the rows are the corners of turned boxes, without an upright box.
    """

    kind: str
    outputs: Outputs
    size: tuple[int, int] = (0, 0)
    rows: int = 0
    least: float = float("nan")
    most: tuple[float, ...] = ()
    classes: tuple[int, int] | None = None
    target: str = ""
    corners: bool = False


@dataclass(frozen=True, slots=True)
class OutputRecipe:
    """A decoder's settings with additional steps.

    Attributes:
        settings: of the decoder.
        evidence: facts about the device's result.
        form: how boxes are written: a key of forms.FORMS.
        stored: steps on the outputs as they are stored, a dict of Output.
        real: steps on their real values, a dict of arrays.
        candidates: steps on the candidates of a detector.
        kept: steps in place of NMS: function of (boxes, scores, classes, settings), sorted by score.
        found: steps on the detections in input pixels.
        placed: steps on the detections in the picture.
        rows: steps on the numbers that are written.
    """

    settings: Settings
    evidence: DeviceEvidence = field(compare=False)
    form: str = "xyxy"
    stored: tuple[Step, ...] = ()
    real: tuple[Step, ...] = ()
    candidates: tuple[Step, ...] = ()
    kept: tuple[Step, ...] = ()
    found: tuple[Step, ...] = ()
    placed: tuple[Step, ...] = ()
    rows: tuple[Step, ...] = ()

    def with_step(self, stage: Stage, step: Step) -> OutputRecipe:
        """Returns the recipe with one more step at the end of a stage."""
        return replace(self, **{stage: (*getattr(self, stage), step)})  # type: ignore[arg-type]

    def with_settings(self, **changes: Any) -> Iterator[OutputRecipe]:
        """Yields the recipe with these settings. Yields nothing if this changes nothing or is not valid."""
        try:
            settings = replace(self.settings, **changes)
        except UsageError:
            return
        if settings != self.settings:
            yield replace(self, settings=settings)

    def vary(self, name: str, known: Iterable[Any], text: str) -> Iterator[tuple[str, OutputRecipe]]:
        """Yields, for every known value of a setting but the recipe's own, `text: this instead of that` and the recipe."""
        own = getattr(self.settings, name)
        for value in known:
            for variant in self.with_settings(**{name: value}):
                yield f"{text}: {value} instead of {own}", variant

    @property
    def of_one(self) -> bool:
        """Whether the best anchor alone can reject the recipe."""
        return all(step.of_one for stage in STAGES for step in getattr(self, stage))

    @property
    def steps(self) -> int:
        return sum(len(getattr(self, stage)) for stage in STAGES)
