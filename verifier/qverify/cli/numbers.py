"""Numbers a person gives that must be numbers."""

from __future__ import annotations

import math
from typing import Any

import click
from click.types import FloatParamType


class AnyFinite(FloatParamType):
    """Any number; NaN and infinity are none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        found = super().convert(value, param, ctx)
        if not math.isfinite(found):
            self.fail(f"{value} is not a finite number.", param, ctx)
        return found


class Finite(AnyFinite, click.FloatRange):
    """A FloatRange that NaN does not slip through."""
