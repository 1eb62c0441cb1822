"""How bytes may have been made: a description, and additional steps at the stages of INPUTS.md section 1."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from qverify.errors import UsageError
from qverify.inputs.description import Description
from qverify.inputs.formats import YUV420

Stage = Literal["picture", "fitted", "normalized", "elements", "bytes"]
STAGES: tuple[Stage, ...] = ("picture", "fitted", "normalized", "elements", "bytes")
# The fields of a description that decide a stage's values, in addition to those of the stages before.
FIT = ("library", "interpolation", "resize_dtype", "fit", "fill", "size", "source", "roi")
ELEMENTS = ("train", "colour", "mean", "scale", "rounding", "quantize", "quantize_dtype")
PLANES = ("layout", "stride", "width_align", "height_align", "innermost_align", "buffer_align")


@dataclass(frozen=True, slots=True)
class RecipeStep:
    """An additional step at a stage. name: unique. change: from the stage's values and the recipe to new values. size:
    for steps on bytes, from the size before to the size after. undo: the inverse of a step on bytes, if there is one.
    rowwise: for a step on elements, whether rows (pairs of rows in 4:2:0) can be computed without the others."""

    name: str
    change: Callable[[Any, Recipe], Any] = field(compare=False)
    size: Callable[[int], int] = field(default=lambda size: size, compare=False)
    undo: Callable[[bytes, Recipe], bytes] | None = field(default=None, compare=False)
    rowwise: bool = field(default=True, compare=False)


@dataclass(frozen=True, slots=True)
class CaptureEvidence:
    """Facts about a capture. size_bytes: its size. undescribed_bytes: the size of an intended input without
    description. rgb: the picture (H, W, 3) in colour, for a gray format."""

    size_bytes: int
    undescribed_bytes: int | None = None
    rgb: Any = None


@dataclass(frozen=True, slots=True)
class Recipe:
    """A description and additional steps. wanted: the steps of the description. The other steps by stage: on the
    picture as read (H, W, C), on the fitted picture, on float32 normalized values, on elements (a list: y, u, v or one
    (H, W, C)), on the buffer's bytes."""

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
        """Yields the recipe with these fields of the description changed; nothing where that changes nothing or is not
        valid."""
        try:
            wanted = replace(self.wanted, **changes)
        except UsageError:
            return
        if wanted != self.wanted and wanted.gray == self.wanted.gray:
            yield replace(self, wanted=wanted)

    def vary_field(self, name: str, known: Iterable[Any], said: str) -> Iterator[tuple[str, Recipe]]:
        """Yields the recipe with every other value of a field, with a text like `said: this instead of that`."""
        own = getattr(self.wanted, name)
        for value in known:
            for one in self.with_changes(**{name: value}):
                yield f"{said}: {value} instead of {own}", one

    @property
    def steps(self) -> int:
        return sum(len(getattr(self, stage)) for stage in STAGES)

    def key(self, stage: Stage) -> tuple[Any, ...]:
        """Returns a key that is equal for recipes with equal values after that stage's steps; for bytes, before
        them."""
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
