"""Generates the types of the Python functions' options from the table of options, for editors and type checkers."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

from qverify.options import commands
from qverify.options.option import FilePath, Number, Option, Whole

from scripts.documents.blocks import ROOT

HEAD = '''"""The options of the functions by keyword. Written by `scripts/docs_output` from the table of options (qverify.options)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict

from qverify.api.signatures import Path, Shapes, Some

# ruff: noqa: UP013 (a line for each would be 200 lines)
# fmt: off
'''
PARAMETERS = {  # options that are named parameters of a function
    "verify": ("models", "board", "inputs"),
    "triage": ("models", "board", "inputs"),
    "compile": ("output",),
    "quantize": ("output", "inputs"),
    **dict.fromkeys(("compare", "replay", "inputs_diff", "outputs_diff"), ()),
}
PATHS = ("FILE", "DIR", "FILE|NAME")  # metavars of paths


def every() -> dict[Path, str]:
    """Returns the text of each file that is generated, by path."""
    return {ROOT / "verifier" / "qverify" / "api" / "options.py": _module()}


def _module() -> str:
    """Returns the module. Its types are texts, which the signatures show."""
    parts = [HEAD]
    for name, parameters in PARAMETERS.items():
        title = "".join(part.capitalize() for part in name.split("_")) + "Options"
        fields = [
            f'"{keyword}":~{json.dumps(hint)},'.replace(" ", "~") for keyword, hint in _hints(name, parameters).items()
        ]
        lines = [
            f"    {line}".replace("~", " ") for line in textwrap.wrap(" ".join(fields), 114, break_on_hyphens=False)
        ]
        parts.append("\n".join([f'{title} = TypedDict("{title}", {{', *lines, "}, total=False)\n"]))
    return "\n".join(parts)


def _hints(command: str, parameters: tuple[str, ...]) -> dict[str, str]:
    """Returns the types of a command's options that Python has, by keyword. parameters: keywords that are left out."""
    declared = commands.keywords(command).items()
    return {keyword: option.hint or _hint(option) for keyword, option in declared if keyword not in parameters}


def _hint(option: Option) -> str:
    """Returns the type of an option's values in Python."""
    if option.many or option.listed:
        of_one = "Mapping[str, str] | Some" if option.mapping else "Some"
        return of_one if option.default is not None or option.many else f"{of_one} | None"
    plain = {"flag": "bool", "simulator": "bool | str", "boolean": "bool"}.get(str(option.kind), "str")
    if isinstance(option.kind, tuple):
        plain = f"Literal[{', '.join(map(repr, option.kind))}]"
    elif isinstance(option.kind, Whole | Number):
        plain = "int" if isinstance(option.kind, Whole) else "float"
    elif isinstance(option.kind, FilePath) or option.metavar in PATHS:
        plain = "Path"
    return plain if option.kind == "flag" or option.default is not None else f"{plain} | None"
