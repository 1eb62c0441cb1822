"""How bytes may have been made: a description, and what was done besides at the stages of INPUTS.md section 1."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from qverify.errors import UsageError
from qverify.inputs.description import Description
from qverify.inputs.formats import YUV420

Stage = Literal["picture", "fitted", "normalized", "elements", "bytes"]
STAGES: tuple[Stage, ...] = ("picture", "fitted", "normalized", "elements", "bytes")
# The fields of a description that decide what a stage is given, beside those of the stages before.
FIT = ("library", "interpolation", "resize_dtype", "fit", "fill", "size", "source", "roi")
ELEMENTS = ("train", "colour", "mean", "scale", "rounding", "quantize", "quantize_dtype")
PLANES = ("layout", "stride", "width_align", "height_align", "innermost_align", "buffer_align")


@dataclass(frozen=True, slots=True)
class RecipeStep:
    """Something done at a stage. name: unique. change: the stage's values to others; it is told the whole recipe.
    size: of bytes, to what it makes of that many. undo: for steps on bytes that can be taken back. rowwise: of a step on
    elements, that it gives some rows (two by two in 4:2:0) the same whether it sees the others or not."""

    name: str
    change: Callable[[Any, Recipe], Any] = field(compare=False)
    size: Callable[[int], int] = field(default=lambda size: size, compare=False)
    undo: Callable[[bytes, Recipe], bytes] | None = field(default=None, compare=False)
    rowwise: bool = field(default=True, compare=False)


@dataclass(frozen=True, slots=True)
class CaptureEvidence:
    """size_bytes: of what was captured. undescribed_bytes: of the intended input, where no description says it. rgb: the
    picture (H, W, 3) that a gray format makes gray."""

    size_bytes: int
    undescribed_bytes: int | None = None
    rgb: Any = None


@dataclass(frozen=True, slots=True)
class Recipe:
    """wanted: every step that a description has. The others, by their stage: on the picture as read (H, W, C), on the
    fitted picture, on float32 normalized values, on elements (a list: y, u, v or one (H, W, C)), on the buffer's bytes."""

    wanted: Description
    evidence: CaptureEvidence = field(compare=False)
    picture: tuple[RecipeStep, ...] = ()
    fitted: tuple[RecipeStep, ...] = ()
    normalized: tuple[RecipeStep, ...] = ()
    elements: tuple[RecipeStep, ...] = ()
    bytes: tuple[RecipeStep, ...] = ()

    def with_step(self, stage: Stage, step: RecipeStep) -> Recipe:
        return replace(self, **{stage: (*getattr(self, stage), step)})  # type: ignore[arg-type]

    def described(self, **changes: Any) -> Iterator[Recipe]:
        """With these fields of the description; nothing where that is the same, or cannot be."""
        try:
            wanted = replace(self.wanted, **changes)
        except UsageError:
            return
        if wanted != self.wanted and wanted.gray == self.wanted.gray:
            yield replace(self, wanted=wanted)

    def choices(self, name: str, known: Iterable[Any], said: str) -> Iterator[tuple[str, Recipe]]:
        """One field, every other value of it: `said: this instead of that`."""
        own = getattr(self.wanted, name)
        for value in known:
            for one in self.described(**{name: value}):
                yield f"{said}: {value} instead of {own}", one

    @property
    def steps(self) -> int:
        return sum(len(getattr(self, stage)) for stage in STAGES)

    def key(self, stage: Stage) -> tuple[Any, ...]:
        """Equal where the values after that stage's steps are; of bytes, before them."""
        wanted, format_ = self.wanted, self.wanted.format
        held: list[Any] = [self.picture, *(getattr(wanted, name) for name in FIT)]
        if stage == "picture":
            return tuple(held)
        held += [self.fitted]
        if stage == "fitted":
            return tuple(held)
        held += [self.normalized, *(getattr(wanted, name) for name in ELEMENTS), format_ in YUV420 or format_]
        if stage == "normalized":
            return tuple(held)
        held += [self.elements]
        return tuple(held) if stage == "elements" else (*held, format_, *(getattr(wanted, name) for name in PLANES))
