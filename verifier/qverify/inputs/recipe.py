"""Recipe: a way in which bytes may have been made, consisting of a description and additional steps at the stages of
INPUTS.md section 1."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from qverify.errors import UsageError
from qverify.inputs.description import Description
from qverify.inputs.formats import YUV420

Stage = Literal["picture", "fitted", "normalized", "elements", "bytes"]
STAGES: tuple[Stage, ...] = ("picture", "fitted", "normalized", "elements", "bytes")
# Fields of a description that determine the values of a stage, in addition to those of the stages before it.
FIT = ("library", "interpolation", "resize_dtype", "fit", "fill", "size", "source", "roi")
ELEMENTS = ("train", "colour", "mean", "scale", "rounding", "quantize", "quantize_dtype")
PLANES = ("layout", "stride", "width_align", "height_align", "innermost_align", "buffer_align")


@dataclass(frozen=True, slots=True)
class RecipeStep:
    """An additional step at a stage.

    Attributes:
        name: unique name.
        change: function that returns the new values of the stage, given its values and the recipe.
        size: for a step on bytes, function that returns the size after the step, given the size before.
        undo: for a step on bytes, its inverse, or None if there is none.
        rowwise: for a step on elements, whether rows (pairs of rows in 4:2:0) can be computed without the others.
    """

    name: str
    change: Callable[[Any, Recipe], Any] = field(compare=False)
    size: Callable[[int], int] = field(default=lambda size: size, compare=False)
    undo: Callable[[bytes, Recipe], bytes] | None = field(default=None, compare=False)
    rowwise: bool = field(default=True, compare=False)


@dataclass(frozen=True, slots=True)
class CaptureEvidence:
    """Facts about a capture that hypotheses use.

    Attributes:
        size_bytes: size of the capture.
        undescribed_bytes: size of the intended input if it has no description, else None.
        rgb: the picture (H, W, 3) in colour, for a gray format; else None.
    """

    size_bytes: int
    undescribed_bytes: int | None = None
    rgb: Any = None


@dataclass(frozen=True, slots=True)
class Recipe:
    """A description with additional steps.

    Attributes:
        wanted: the description.
        evidence: facts about the capture.
        picture: additional steps on the picture as it was read, (H, W, C).
        fitted: additional steps on the fitted picture.
        normalized: additional steps on the normalized values, float32.
        elements: additional steps on the elements, a list of y, u and v, or of one array (H, W, C).
        bytes: additional steps on the bytes of the buffer.
    """

    wanted: Description
    evidence: CaptureEvidence = field(compare=False)
    picture: tuple[RecipeStep, ...] = ()
    fitted: tuple[RecipeStep, ...] = ()
    normalized: tuple[RecipeStep, ...] = ()
    elements: tuple[RecipeStep, ...] = ()
    bytes: tuple[RecipeStep, ...] = ()

    def with_step(self, stage: Stage, step: RecipeStep) -> Recipe:
        """Returns the recipe with one more step at the end of a stage."""
        return replace(self, **{stage: (*getattr(self, stage), step)})  # type: ignore[arg-type]

    def with_changes(self, **changes: Any) -> Iterator[Recipe]:
        """Yields the recipe with these fields of the description changed. Yields nothing if this does not change the
        description or makes it invalid."""
        try:
            wanted = replace(self.wanted, **changes)
        except UsageError:
            return
        if wanted != self.wanted and wanted.gray == self.wanted.gray:
            yield replace(self, wanted=wanted)

    def vary_field(self, name: str, known: Iterable[Any], text: str) -> Iterator[tuple[str, Recipe]]:
        """Yields, for every known value of a field except the recipe's own, a text like `said: this instead of that`
        and the recipe with this value."""
        own = getattr(self.wanted, name)
        for value in known:
            for variant in self.with_changes(**{name: value}):
                yield f"{text}: {value} instead of {own}", variant

    @property
    def steps(self) -> int:
        return sum(len(getattr(self, stage)) for stage in STAGES)

    def key(self, stage: Stage) -> tuple[Any, ...]:
        """Returns a key that is equal for recipes with the same values after the steps of this stage (for `bytes`,
        before them)."""
        wanted, format_ = self.wanted, self.wanted.format
        parts: list[Any] = [self.picture, *(getattr(wanted, name) for name in FIT)]
        if stage == "picture":
            return tuple(parts)
        parts += [self.fitted]
        if stage == "fitted":
            return tuple(parts)
        parts += [self.normalized, *(getattr(wanted, name) for name in ELEMENTS), format_ in YUV420 or format_]
        if stage == "normalized":
            return tuple(parts)
        parts += [self.elements]
        return tuple(parts) if stage == "elements" else (*parts, format_, *(getattr(wanted, name) for name in PLANES))
