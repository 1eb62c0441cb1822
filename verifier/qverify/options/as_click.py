"""Options as parameters of click, which parses and checks words with them."""

from __future__ import annotations

import math
from typing import Any

import click
from click.types import FloatParamType

from qverify.compare.vendor_criteria import CRITERIA, find_gates
from qverify.options.option import FilePath, Number, Option, Whole
from qverify.vendor_names import known_spelling


class AnyFinite(FloatParamType):
    """A float option that rejects NaN and infinity."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Returns the number. Raises click.BadParameter if it is not finite."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return number


class Finite(AnyFinite, click.FloatRange):
    """A FloatRange that also rejects NaN and infinity."""


class SimulatorChoice(click.ParamType[Any]):
    """True or False, or the text of an engine that runs in the simulator's place."""

    name = "boolean or engine"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> bool | str:
        """Returns a bool for the words of a bool, else the text."""
        if isinstance(value, bool):
            return value
        try:
            return bool(click.BOOL.convert(value, param, ctx))
        except click.BadParameter:
            if not value.strip():
                raise
            return str(value)


class CriteriaChoice(click.Choice[str]):
    """A vendor, of some with tolerances behind it (sophgo:0.90,0.80)."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Returns the vendor by its known spelling, with its tolerances. Raises UsageError for wrong tolerances."""
        word, colon, limits = str(value).partition(":")
        vendor = super().convert(known_spelling(word, CRITERIA), param, ctx)
        find_gates(f"{vendor}{colon}{limits}")
        return f"{vendor}{colon}{limits}"


def as_click(option: Option) -> click.Parameter:
    """Returns the parameter that parses an option or an argument."""
    if option.is_argument:
        return click.Argument([option.words], type=_type(option), required=option.required)
    if option.kind == "flag" and "/" not in option.words:
        more: dict[str, Any] = {"is_flag": True}
    else:
        more = {"type": _type(option), "show_default": option.shown or None}
        more |= {} if option.default is None else {"default": option.default}
    return click.Option(
        [*option.words.split(), option.name],
        multiple=option.many or option.kind == "board",
        callback=_require_single if option.kind == "board" else None,
        metavar=option.metavar,
        required=option.required,
        help=option.help or None,
        **more,
    )


def _type(option: Option) -> Any:
    """Returns the type that checks a value, None for text."""
    kind = option.kind
    if isinstance(kind, tuple):
        return click.Choice(kind)
    if isinstance(kind, Whole):
        return click.INT if kind == Whole() else click.IntRange(kind.lowest, kind.highest)
    if isinstance(kind, Number):
        return AnyFinite() if kind == Number() else Finite(kind.lowest, kind.highest)
    if isinstance(kind, FilePath):
        return click.Path(exists=kind.exists, file_okay=kind.file, dir_okay=kind.folder)
    named = {"boolean": click.BOOL, "simulator": SimulatorChoice(), "criteria": CriteriaChoice(list(CRITERIA))}
    return named.get(kind)


def _require_single(context: click.Context, parameter: click.Parameter, boards: tuple[str, ...]) -> str | None:
    if len(boards) > 1:
        raise click.UsageError(
            f"-b {' -b '.join(boards)}: {context.info_name} takes one board; the main job takes several"
        )
    if boards == ("",):
        raise click.UsageError("an empty -b (an unset shell variable?)")
    return boards[0] if boards else None
