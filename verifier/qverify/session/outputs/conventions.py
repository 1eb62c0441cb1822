"""How the picture was fitted into the input, and whether boxes are clipped, where the user does not state it (OUTPUTS.md
section 1): of families that differ in it, each convention may be the intended one."""

from __future__ import annotations

from dataclasses import replace

from qverify.decoders import Decoder, pages
from qverify.decoders.parts.selection import find_placement
from qverify.decoders.parts.settings import FITS, Settings
from qverify.outputs.recipe import OutputRecipe


def list_conventions(decoder: Decoder, intended: OutputRecipe) -> list[OutputRecipe]:
    """Returns the recipes that differ from the intended one in what is not stated: `fit`, if the picture's size is known,
    and `clip`. None where the decoder's own is the centred letterbox, with boxes clipped to the picture: this is meant if
    nothing else is stated. None of a function of the user's, which has its own."""
    evidence, own = intended.evidence, intended.settings
    page = next((page for page in pages() if decoder.name == page.NAME), None)
    if (
        page is None
        or (page.DEFAULTS.fit == Settings().fit and page.DEFAULTS.clip)
        or evidence.kind not in ("boxes", "plain boxes")
    ):
        return []
    fits, clips = [own.fit], [own.clip]
    if own.frame != (0, 0) and not decoder.stated & {"fit", "roi"}:
        fits += [fit for fit in FITS if fit != own.fit]
    if "clip" not in decoder.stated:
        clips.append(not own.clip)
    placements, found = [], []
    for fit in fits:
        settings = replace(own, fit=fit)
        placement = find_placement(evidence.size, settings)
        if evidence.size == (0, 0) or placement not in placements:
            placements.append(placement)
            found += [replace(intended, settings=replace(settings, clip=clip)) for clip in clips]
    return found[1:]


def say_convention(decoder: Decoder, base: OutputRecipe) -> str:
    """Returns the note on what was assumed."""
    own = {"fit": base.settings.fit, "clip": str(base.settings.clip).lower()}
    if base.settings.frame == (0, 0):
        del own["fit"]
    words = " and ".join(f"{key}={value}" for key, value in own.items() if key not in decoder.stated)
    are = "are" if " and " in words else "is"
    return (
        f"{words} {are} assumed, for the device's result is reproduced with it; the decoder's settings do not state it"
    )
