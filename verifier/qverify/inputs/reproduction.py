"""Makes bytes according to a recipe, from the picture or the earliest stage that is known. Recipes that are tried in
the order of their keys share stages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.inputs import buffers, encoding, pixel_values, resize
from qverify.inputs.description import Description
from qverify.inputs.formats import REAL
from qverify.inputs.recipe import STAGES, CaptureEvidence, Recipe, RecipeStep, Stage

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Start:
    """The known values of the intended input.

    Attributes:
        stage: the stage at which values are known: "picture", "fitted", "elements" or "bytes".
        values: the values: pixels as they were read, pixels of the wanted size, a list of elements, or bytes.
        wanted: the intended description.
        rgb: the colours of a picture that was read as gray, else None.
    """

    stage: Stage
    values: Any
    wanted: Description
    rgb: Array | None = None

    def intended(self, captured_bytes: int) -> Recipe:
        """Returns the recipe without mistakes. captured_bytes: size of the capture in bytes."""
        undescribed = len(self.values) if self.stage == "bytes" else None
        return Recipe(self.wanted, CaptureEvidence(captured_bytes, undescribed, self.rgb))

    def can_reach(self, recipe: Recipe) -> bool:
        """Returns whether the recipe differs from the intended one only after the known stage."""
        if self.stage == "bytes":
            return recipe.wanted == self.wanted and not recipe.steps - len(recipe.bytes)
        before: dict[Stage, Stage | None] = {"picture": None, "fitted": "picture", "elements": "normalized"}
        stage_before = before[self.stage]
        return stage_before is None or recipe.key(stage_before) == Recipe(self.wanted, recipe.evidence).key(
            stage_before
        )


def from_bytes(data: bytes, wanted: Description) -> Start:
    """Returns the earliest stage from which exactly these bytes can be reproduced: fitted pixels if no information was
    lost, else elements, else the bytes. Raises UsageError for bytes of another size."""
    planes = buffers.unpack(data, wanted)
    with np.errstate(all="ignore"):
        pixels = np.ascontiguousarray(buffers.make_picture(data, wanted))
        if encoding.encode_fitted(pixels, wanted) == data:
            return Start("fitted", pixels, wanted)
    values = buffers.unarrange_planes(planes, wanted)
    if buffers.pack(buffers.arrange_planes(values, wanted), wanted) == data:
        return Start("elements", values, wanted)
    return Start("bytes", data, wanted)


@dataclass(slots=True)
class Reproduction:
    """Makes buffers from a start, and keeps the last value of every stage. kept: key and value, by stage."""

    start: Start
    kept: dict[Stage, tuple[Any, Any]] = field(default_factory=dict)

    def make_bytes(self, recipe: Recipe) -> bytes:
        """Returns the bytes that the recipe produces."""
        return bytes(_apply_steps(self.make_buffer(recipe), recipe.bytes, recipe))

    def make_buffer(self, recipe: Recipe) -> bytes:
        """Returns the buffer that the recipe produces before its steps on bytes."""
        if self.start.stage == "bytes":
            return bytes(self.start.values)

        def compute() -> bytes:
            values = self._make_elements(recipe)
            return buffers.pack(buffers.arrange_planes(values, recipe.wanted), recipe.wanted)

        return bytes(self._compute_once("bytes", recipe, compute))

    def make_rows(self, recipe: Recipe, pairs: Array) -> list[Array]:
        """Returns the elements of rows 2i and 2i + 1 for each i in pairs. Every step on elements must be rowwise."""
        wanted = recipe.wanted
        if self.start.stage == "elements":
            values = select_rows(self.start.values, pairs)
        else:
            (pixels,) = select_rows([self._make_fitted(recipe)], pairs)
            values = self._convert_pixels(pixels, recipe)
        dtype = wanted.dtype
        return [v.astype(dtype) for v in _apply_steps(values, recipe.elements, recipe)]

    def _make_elements(self, recipe: Recipe) -> list[Array]:
        def compute() -> list[Array]:
            is_known = self.start.stage == "elements"
            values = self.start.values if is_known else self._make_normalized(recipe)
            return list(_apply_steps(values, recipe.elements, recipe))

        return list(self._compute_once("elements", recipe, compute))

    def _make_normalized(self, recipe: Recipe) -> list[Array]:
        return list(
            self._compute_once("normalized", recipe, lambda: self._convert_pixels(self._make_fitted(recipe), recipe))
        )

    def _convert_pixels(self, pixels: Array, recipe: Recipe) -> list[Array]:
        if recipe.wanted.format not in REAL:
            return pixel_values.make_elements(pixels, recipe.wanted)
        real = _apply_steps(pixel_values.normalize(pixels, recipe.wanted), recipe.normalized, recipe)
        return [pixel_values.quantize(real, recipe.wanted)]

    def _make_fitted(self, recipe: Recipe) -> Array:
        return np.asarray(
            self._compute_once(
                "fitted", recipe, lambda: _apply_steps(self._make_resized(recipe), recipe.fitted, recipe)
            )
        )

    def _make_resized(self, recipe: Recipe) -> Array:
        if self.start.stage == "fitted":
            return np.asarray(self.start.values)

        def compute() -> Array:
            return resize.fit_picture(_apply_steps(self.start.values, recipe.picture, recipe), recipe.wanted)

        return np.asarray(self._compute_once("picture", recipe, compute))

    def _compute_once(self, stage: Stage, recipe: Recipe, compute: Callable[[], Any]) -> Any:
        key = recipe.key(stage)
        if stage not in self.kept or self.kept[stage][0] != key:
            self.kept[stage] = key, compute()
        return self.kept[stage][1]


def select_rows(values: list[Array], pairs: Array) -> list[Array]:
    """Returns pairs of rows of elements. The chroma planes of 4:2:0 have one row per pair."""
    both = np.stack([2 * pairs, 2 * pairs + 1], axis=1).reshape(-1)
    return [values[0][both], *(v[pairs] for v in values[1:])]


def compute_size(recipe: Recipe) -> int:
    """Returns the number of bytes that the recipe produces."""
    undescribed = recipe.evidence.undescribed_bytes
    size = recipe.wanted.size_bytes if undescribed is None else undescribed
    for step in recipe.bytes:
        size = step.size(size)
    return size


def sort_by_stages(recipes: list[Any], of: Callable[[Any], Recipe]) -> list[Any]:
    """Returns the recipes in an order in which neighbours share stages: grouped by the key of each stage, in the order
    in which keys first appear."""
    ranks: list[dict[Any, int]] = [{} for _ in STAGES]
    rows = []
    for at, one in enumerate(recipes):
        recipe = of(one)
        keys = [recipe.key(stage) for stage in STAGES]
        rows.append((*(rank.setdefault(key, at) for rank, key in zip(ranks, keys, strict=True)), at))
    return [recipes[row[-1]] for row in sorted(rows)]


def _apply_steps(values: Any, steps: tuple[RecipeStep, ...], recipe: Recipe) -> Any:
    for step in steps:
        values = step.change(values, recipe)
    return values
