"""-i and the other options on inputs, which every command that takes inputs of a model has."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

OPTIONS = (
    click.option(
        "-i",
        "--input-img",
        "files",
        help="a.jpg,b.bin or name1:a.npy,name2:b.wav or one .npz; the main job, quantize and triage also take a folder or a list (.txt); random when not given, but quantize needs it",
    ),
    click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="seed of random inputs"),
    click.option(
        "--description",
        metavar="FILE",
        help="TOML or JSON with [inputs.NAME]: how pictures and sound become inputs, where model.bin does not describe it; of a sequence [state] and [steps]",
    ),
    click.option(
        "--roi",
        "rois",
        multiple=True,
        metavar="[NAME:]X,Y,W,H",
        help="the part of each picture that is used, in its pixels; may be repeated",
    ),
)


def input_options(command: Callable[..., int]) -> Callable[..., int]:
    """Adds the options. The command receives them as one `inputs` (inputs.sources.InputRequest)."""

    @wraps(command)
    def wrapper(files: str | None, seed: int, description: str | None, rois: tuple[str, ...], **others: Any) -> int:
        from qverify.inputs.description_tables import read_description
        from qverify.inputs.sources import InputRequest

        if files == "":
            raise click.UsageError("an empty -i (an unset shell variable?)")
        descriptions, loop = read_description(description) if description is not None else ({}, {})
        loop, named = {**loop, "path": description} if loop else {}, set[str]()
        for roi in rois:
            name, _, area = roi.rpartition(":")
            if name in named:
                raise click.UsageError(f"--roi {roi}: given twice for {name or 'every input'}")
            named.add(name)
            descriptions[name] = {**descriptions.get(name, {}), "roi": area}
        if rois and files is None:
            raise click.UsageError("--roi is a part of a picture; give -i")
        words = [*(["--description", description] if description else []), *(w for r in rois for w in ("--roi", r))]
        return command(inputs=InputRequest(files, seed, descriptions, words=tuple(words), loop=loop), **others)

    for option in reversed(OPTIONS):
        wrapper = option(wrapper)
    return wrapper
