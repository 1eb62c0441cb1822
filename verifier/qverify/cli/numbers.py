"""Types for options whose values are finite numbers."""

from __future__ import annotations

import math
from typing import Any

import click
from click.types import FloatParamType


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
