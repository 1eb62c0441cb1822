"""Drafts the descriptions of a model's picture inputs before anything runs (INPUTS.md section 8)."""

from __future__ import annotations

from qverify.errors import UsageError
from qverify.inputs.sources import input_requirements
from qverify.session.models import open_models


def draft_descriptions(paths: list[str]) -> dict[str, str]:
    """Returns a draft, several lines of TOML, for each input of the model that takes pictures and has no description in
    model.bin. paths: the files of -m. Raises UsageError if there is no such input, and what open_models raises."""
    requirements = input_requirements(open_models(paths).graph, {})
    drafts = {each.called: each.draft for each in requirements.values() if each.draft}
    if not drafts:
        stated = (f"{each.called} {each.spec.dtype}{list(each.spec.shape)}" for each in requirements.values())
        raise UsageError(
            f"{','.join(paths)}: got inputs {', '.join(stated)}, wanted one of pictures without a description in model.bin"
        )
    return drafts
