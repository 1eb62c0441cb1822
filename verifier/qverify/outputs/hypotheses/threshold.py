"""Another score threshold."""

from __future__ import annotations

from collections.abc import Iterator

from qverify.outputs.recipe import OutputRecipe

NAME = "score-threshold"
FIX = "use the same score threshold on both sides"
USUAL = (
    0.0,
    0.001,
    0.01,
    0.02,
    0.05,
    0.1,
    0.15,
    0.2,
    0.25,
    0.3,
    0.35,
    0.4,
    0.45,
    0.5,
    0.55,
    0.6,
    0.65,
    0.7,
    0.75,
    0.8,
    0.85,
    0.9,
)


def variants(recipe: OutputRecipe) -> Iterator[tuple[str, OutputRecipe]]:
    own, least = recipe.settings.score, recipe.evidence.least
    if recipe.evidence.kind not in ("boxes", "plain boxes", "classes"):
        return
    yield from recipe.vary("score", USUAL, "score threshold")
    if recipe.evidence.kind == "plain boxes":
        yield from recipe.vary("binary", USUAL[5:18], "score threshold: of pixels")
    for variant in recipe.with_settings(score_equal=not recipe.settings.score_equal):
        yield (
            f"score threshold: a score of exactly {own:g} is {'left out' if recipe.settings.score_equal else 'kept'}",
            variant,
        )
    if 1e-6 < least < 1 and recipe.settings.score != least:
        for variant in recipe.with_settings(score=least - 1e-6):
            yield f"score threshold: another than {own:g}, at most {least:.6g} (the lowest score written)", variant
