"""Products of 8-bit numbers with zero points, of which a fault can change the corrections, operands and
accumulators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from qverify.triage.altered_kernels.bind_last import bind_last

Array = npt.NDArray[Any]
SumChange = Callable[[Array], Array]


def as_it_is(values: Array) -> Array:
    """Returns the values unchanged."""
    return values


@dataclass(frozen=True, slots=True)
class Factors:
    """A wrong way to subtract an operand's zero point before the multiplication.

    Attributes:
        text: the way in words.
        centre: computes the factors from stored values and zero points that broadcast against them, both int64.
        bits: bits of choice.
    """

    text: str
    centre: Callable[[Array, Array], Array]
    bits: float = 5.0


def centrings(name: str) -> Iterator[Factors]:
    """Yields wrong ways to compute the factors of the operand with this name."""
    yield Factors(f"the zero point of {name} is not taken off", lambda v, z: v + 0 * z)
    yield Factors(f"the zero point of {name} is added instead of taken off", lambda v, z: v + z)
    yield Factors(f"the zero point of {name} is taken off twice", lambda v, z: v - 2 * z)
    for least, most, text in (
        (-128, 127, "-128..127 (8 bits)"),
        (-127, 127, "-127..127"),
        (0, 255, "0..255"),
        (-64, 63, "-64..63 (7 bits)"),
    ):
        yield Factors(
            f"centred {name} saturates at {text}", bind_last(lambda v, z, a, b: np.clip(v - z, a, b), least, most)
        )
    yield Factors(f"centred {name} wraps to signed 8 bits", lambda v, z: (v - z + 128) % 256 - 128)
    yield Factors(f"centred {name} wraps to unsigned 8 bits", lambda v, z: (v - z) % 256)
    yield Factors(f"{name} is read as signed 8 bits", lambda v, z: (v + 128) % 256 - 128 - z)
    yield Factors(f"{name} is read as unsigned 8 bits", lambda v, z: v % 256 - z)
    yield Factors(
        f"{name} and its zero point are read as signed 8 bits",
        lambda v, z: ((v + 128) % 256 - 128) - ((z + 128) % 256 - 128),
    )
    yield Factors(f"{name} and its zero point are read as unsigned 8 bits", lambda v, z: v % 256 - z % 256)
    yield Factors(f"the zero point of {name} is read as signed 8 bits", lambda v, z: v - ((z + 128) % 256 - 128))
    yield Factors(f"the zero point of {name} is read as unsigned 8 bits", lambda v, z: v - z % 256)
    for value in (128, -128, 127, 255, 1):
        yield Factors(
            f"the zero point of {name} is taken as {value}", bind_last(lambda v, z, k: v - k + 0 * z, value), 7.0
        )
    yield Factors(f"the zero point of {name} is one too large", lambda v, z: v - z - 1, 7.0)
    yield Factors(f"the zero point of {name} is one too small", lambda v, z: v - z + 1, 7.0)
    yield Factors(
        f"stored elements of {name} that are 0 count as 0 (as if the zero point)",
        lambda v, z: np.where(v == 0, 0, v - z),
        7.0,
    )
    for k in (1, 2, 3, 4):
        yield Factors(
            f"the lowest {k} bit{'s' * (k > 1)} of {name} are not used",
            bind_last(lambda v, z, s: (v >> s << s) - z, k),
            8.0,
        )


def wrapped(bits: int) -> SumChange:
    """Returns a function that wraps whole numbers to so many bits in two's complement."""
    return bind_last(lambda v, half: (v + half) % (2 * half) - half, 1 << (bits - 1))


def saturated(bits: int) -> SumChange:
    """Returns a function that saturates whole numbers at so many bits."""
    return bind_last(lambda v, half: np.clip(v, -half, half - 1), 1 << (bits - 1))


def accumulators() -> Iterator[tuple[str, SumChange]]:
    """Yields pairs of a text and a function that changes the whole sum as a narrow accumulator does."""
    for bits in (16, 24, 20, 18, 22, 28, 15, 17):
        yield f"wraps to {bits} bits", wrapped(bits)
        yield f"saturates at {bits} bits", saturated(bits)
    for bits in (24, 11, 8, 16):
        yield f"is rounded to {bits} significant bits", partial(rounded_to, bits=bits)


def rounded_to(values: Array, bits: int) -> Array:
    """Returns whole numbers rounded to so many significant bits."""
    mantissa, exponent = np.frexp(values.astype(np.float64))
    return np.ldexp(np.rint(mantissa * 2.0**bits), exponent - bits).astype(np.int64)


def running(products: Array, change: SumChange, every: int = 1) -> Array:
    """Returns the sum over the first axis, to which `change` is applied after every `every` summands."""
    total = np.zeros(products.shape[1:], np.int64)
    for k in range(0, len(products), every):
        total = change(total + products[k : k + every].sum(0))
    return total


def grouped(products: Array, change: SumChange, size: int) -> Array:
    """Returns the sum over the first axis, added from groups of `size` products; `change` is applied to the sum of each
    group."""
    total = np.zeros(products.shape[1:], np.int64)
    for k in range(0, len(products), size):
        total = total + change(products[k : k + size].sum(0))
    return total


def laned(products: Array, change: SumChange, lanes: int) -> Array:
    """Returns the sum over the first axis, added in so many partial sums; `change` is applied to each after every
    summand."""
    total = np.zeros(products.shape[1:], np.int64)
    for k in range(min(lanes, len(products))):
        total = total + running(products[k::lanes], change)
    return total


def narrow_accumulations() -> Iterator[tuple[str, Callable[[Array], Array]]]:
    """Yields pairs of a text and a function that sums products [depth, ...] to int64 and saturates, wraps or rounds on
    the way."""
    for size in (2, 4, 8, 16, 32):
        for phrase, change in (("saturate at int16", saturated(16)), ("wrap to int16", wrapped(16))):
            yield f"the sums of {size} products each {phrase}", partial(grouped, change=change, size=size)
    for bits in (16, 24, 20):
        yield f"the running sum saturates at {bits} bits", partial(running, change=saturated(bits))
        for every in (2, 4):
            text = f"the running sum saturates at {bits} bits after every {every} products"
            yield text, partial(running, change=saturated(bits), every=every)
    for lanes in (2, 4, 8, 16):
        yield (
            f"{lanes} partial sums saturate at int16 (step k in sum k mod {lanes})",
            partial(laned, change=saturated(16), lanes=lanes),
        )
        yield (
            f"{lanes} partial sums wrap to int16 (step k in sum k mod {lanes})",
            partial(laned, change=wrapped(16), lanes=lanes),
        )
    for phrase, change in (
        ("wraps to int16", wrapped(16)),
        ("saturates at int16", saturated(16)),
        ("wraps to signed 8 bits", wrapped(8)),
        ("saturates at 127", lambda v: np.clip(v, -128, 127)),
    ):
        yield f"every product {phrase}", partial(grouped, change=change, size=1)
    for shift in range(1, 9):
        yield (
            f"every product is shifted right by {shift}, and the sum shifted back",
            bind_last(lambda p, s: (p >> s).sum(0) << s, shift),
        )
    for bits in (11, 8):
        text = f"the running sum is rounded to {bits} significant bits"
        yield text, partial(running, change=partial(rounded_to, bits=bits))
