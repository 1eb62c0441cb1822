"""Parts of tensors in which kernels take another path: rests of vectors, last channels, borders, sums of one sign or size,
scales, nodes of another size."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from qverify.arithmetic.windows import plane_shape, window_of
from qverify.compare.identify.fit import RecordedUnit, triples_of
from qverify.compare.identify.solve import Triples

Mask = npt.NDArray[np.bool_]
VECTORS = (32, 16, 8, 4)  # elements of a vector
MANTISSA_BITS = 3  # by which scales are grouped
BEYOND, OR_FEWER = " beyond whole vectors of ", ", or fewer"  # in names of parts
MOST_NAMED = 4  # parts that hold the same elements
WEIGHTED = ("conv", "conv_transpose", "fully_connected", "matmul")  # with a scale for each channel
WINDOWED = ("conv", "average_pool")


class Places:
    """The elements of one unit: where they lie, and the sums and scales that they come from."""

    def __init__(self, member: RecordedUnit):
        self.member, self.shape = member, member.recorded.shape

    @cached_property
    def triples(self) -> Triples | None:
        """All sums in the order of the elements; None if the unit scales no single sum."""
        return triples_of(self.member)

    @cached_property
    def scales(self) -> npt.NDArray[np.float64] | None:
        """The scale of each sum; None if it has none, or several."""
        found = None if self.triples is None else self.triples.scale.get("")
        return found if found is not None and found.size == self.member.recorded.size else None

    @property
    def biases(self) -> npt.NDArray[np.int64] | None:
        """The magnitude of each element's bias, int64; None where the op has none that is constant."""
        node, graph = self.member.unit.nodes[0], self.member.graph
        if node.op not in ("conv", "fully_connected") or len(node.inputs) < 3 or node.inputs[2] not in graph.constants:
            return None
        bias = np.abs(graph.constants[node.inputs[2]].astype(np.int64).reshape(-1))
        axis = 1 if node.op == "conv" else len(self.shape) - 1
        size = [self.shape[axis] if i == axis else 1 for i in range(len(self.shape))]
        return np.broadcast_to(bias.reshape(size), self.shape) if bias.size == self.shape[axis] else None

    @property
    def channel_scales(self) -> npt.NDArray[np.float64]:
        """The different scales of the sums; empty if the unit scales no single sum."""
        exact = self.member.rounded.exact
        return np.unique(exact.scales) if exact is not None and exact.operands is None else np.zeros(0)

    @property
    def kernel(self) -> tuple[int, int] | None:
        """The size of a convolution's kernel."""
        node = self.member.unit.nodes[0]
        return window_of(node.words).kernel if node.op == "conv" else None

    @property
    def terms(self) -> int:
        """The number of products of a sum; 0 where the op has no weights."""
        node, graph = self.member.unit.nodes[0], self.member.graph
        if node.op not in ("conv", "fully_connected", "matmul") or node.inputs[1] not in graph.constants:
            return 0
        shape = graph.spec(node.inputs[1]).shape
        return int(np.prod(shape[1:] if node.op == "conv" else shape)) // (1 if node.op == "conv" else shape[0])

    def along(self, axis: int, chosen: Mask) -> Mask:
        """Returns a mask of the elements at the chosen indices of an axis."""
        size = [1] * len(self.shape)
        size[axis] = self.shape[axis]
        return np.broadcast_to(chosen.reshape(size), self.shape)

    def whole(self, of_part: bool) -> Mask:
        """Returns a mask of all elements, or of none."""
        return np.full(self.shape, of_part)


def axes_of(shape: tuple[int, ...]) -> dict[str, int]:
    """Returns the axes of channels, rows and columns by these words."""
    if len(shape) == 4:
        return {"channel": 1, "row": 2, "column": 3}
    return {"row": len(shape) - 2, "column": len(shape) - 1} if len(shape) > 1 else {"element": 0}


def fixed_parts(places: Places) -> Iterator[tuple[str, Mask]]:
    """Yields the name of each part that is known beforehand, and a mask of its elements; a part that a tensor lacks has
    none."""
    shape = places.shape
    for word, axis in axes_of(shape).items():
        index, size = np.arange(shape[axis]), shape[axis]
        last, first = (index == size - 1) & (size > 1), (index == 0) & (size > 1)
        yield f"the last {word}", places.along(axis, last)
        yield f"the last {word} of an odd number of {word}s", places.along(axis, last & bool(size % 2))
        yield f"the first {word}", places.along(axis, first)
        for vector in VECTORS:
            rest = index >= size // vector * vector
            yield f"the {word}s{BEYOND}{vector}", places.along(axis, rest & (size > vector))
            yield f"the {word}s{BEYOND}{vector}{OR_FEWER}", places.along(axis, rest)
        yield f"tensors with an odd number of {word}s", places.whole(bool(size % 2))
    yield from _flat_tails(shape)
    if len(shape) in (2, 4):
        yield "batch items after the first", places.along(0, np.arange(shape[0]) > 0)
    yield "windows that touch the padding", _touches_padding(places)
    if places.triples is not None and places.scales is not None:
        acc = places.triples.acc.reshape(shape)
        yield "negative sums", acc < 0
        yield "sums above 0", acc > 0


def _flat_tails(shape: tuple[int, ...]) -> Iterator[tuple[str, Mask]]:
    """Yields the ends of tensors whose elements a kernel takes in one run, whatever their axes are: of the whole tensor, also
    with channels last, of each image and of each plane."""
    if len(shape) < 2:
        return
    size = int(np.prod(shape))
    runs = {"elements of the tensor": np.arange(size).reshape(shape)}
    if len(shape) == 4:
        n, c, h, w = shape
        runs["elements of the tensor with channels last"] = np.arange(size).reshape(n, h, w, c).transpose(0, 3, 1, 2)
        runs["elements of each plane"] = np.arange(h * w).reshape(1, 1, h, w)
    if shape[0] > 1:
        runs["elements of each image"] = np.arange(size // shape[0]).reshape(1, *shape[1:])
    for words, place in runs.items():
        for vector in VECTORS:
            rest = place >= place.size // vector * vector
            yield f"the {words}{BEYOND}{vector}", np.broadcast_to(rest & (place.size > vector), shape)


def join_names(names: Sequence[str]) -> str:
    """Returns names of parts that hold the same elements in words: vectors of several lengths are one part, and what names
    a part less simply is left out."""
    lengths = dict[str, list[int]]()
    for name in names:
        words, beyond, number = name.removesuffix(OR_FEWER).partition(BEYOND)
        if beyond:
            lengths[words] = sorted({*lengths.get(words, []), int(number)})
        elif not any(name.startswith(f"{known} of an odd number") for known in lengths):
            lengths.setdefault(name, [])
    parts = [w + ", or".join(f"{BEYOND}{n}" for n in several) for w, several in lengths.items()]
    return " or ".join(parts[:MOST_NAMED])


def _touches_padding(places: Places) -> Mask:
    """Returns a mask of the elements whose window reads padding."""
    node = places.member.unit.nodes[0]
    if node.op not in WINDOWED or len(places.shape) != 4:
        return places.whole(False)
    window = window_of(node.words, dilated=node.op == "conv")
    size = plane_shape(places.member.graph.spec(node.inputs[0] or "").shape)
    mask = places.whole(False)
    for axis, before in ((0, window.pad[0]), (1, window.pad[1])):
        start = np.arange(places.shape[2 + axis]) * window.stride[axis] - before
        end = start + (window.kernel[axis] - 1) * window.dilation[axis]
        mask = mask | places.along(2 + axis, (start < 0) | (end >= size[axis]))
    return mask


def shown_parts(every: Sequence[Places], wrong: Sequence[Mask]) -> Iterator[tuple[str, list[Mask]]]:
    """Yields parts that are drawn around the elements that do not follow, as narrow as these allow: one channel, sums of
    some size, scales with these first bits, nodes of some size.

    Args:
        every: all units.
        wrong: a mask of the elements of each that do not follow.
    """
    yield from _one_index(every, wrong)
    yield from _large_sums(every, wrong)
    yield from _large_biases(every, wrong)
    yield from _mantissas(every, wrong)
    yield from _nodes(every, wrong)


def _one_index(every: Sequence[Places], wrong: Sequence[Mask]) -> Iterator[tuple[str, list[Mask]]]:
    for word in ("channel", "row", "column"):
        axes = [axes_of(p.shape).get(word) for p in every]
        held = {
            int(i)
            for axis, mask in zip(axes, wrong, strict=True)
            if axis is not None
            for i in np.flatnonzero(mask.any(axis=tuple(a for a in range(mask.ndim) if a != axis)))
        }
        if len(held) == 1 and None not in axes:
            at = held.pop()
            masks = [
                p.along(axis, np.arange(p.shape[axis]) == at)
                for p, axis in zip(every, axes, strict=True)
                if axis is not None
            ]
            yield f"{word} {at}", masks


def _large_sums(every: Sequence[Places], wrong: Sequence[Mask]) -> Iterator[tuple[str, list[Mask]]]:
    sums = [None if p.triples is None or p.scales is None else np.abs(p.triples.acc.reshape(p.shape)) for p in every]
    known = [s for s in sums if s is not None]
    if len(known) < len(every):
        return
    least = min((int(s[mask].min()) for s, mask in zip(known, wrong, strict=True) if mask.any()), default=0)
    if bits := least.bit_length() - 1:
        if bits > 0:
            yield f"sums of 2^{bits} or more in magnitude", [s >= 1 << bits for s in known]


def _large_biases(every: Sequence[Places], wrong: Sequence[Mask]) -> Iterator[tuple[str, list[Mask]]]:
    biases = [p.biases if p.biases is not None else np.zeros(p.shape, np.int64) for p in every]
    least = min((int(b[mask].min()) for b, mask in zip(biases, wrong, strict=True) if mask.any()), default=0)
    if (bits := least.bit_length() - 1) > 0:
        yield f"biases of 2^{bits} or more in magnitude", [b >= 1 << bits for b in biases]


def _mantissas(every: Sequence[Places], wrong: Sequence[Mask]) -> Iterator[tuple[str, list[Mask]]]:
    scales = [p.scales for p in every]
    known = [s.reshape(p.shape) for s, p in zip(scales, every, strict=True) if s is not None]
    if len(known) < len(every):
        return
    unit = 2.0**-(MANTISSA_BITS)
    groups = [np.floor(np.frexp(np.abs(s))[0] / unit) for s in known]
    held = [g[mask] for g, mask in zip(groups, wrong, strict=True) if mask.any()]
    low, high = min(float(h.min()) for h in held), max(float(h.max()) for h in held)
    if high - low < 2:
        words = f"scales whose mantissa is between {low * unit:g} and {(high + 1) * unit:g}"
        yield words, [(g >= low) & (g <= high) for g in groups]


def _nodes(every: Sequence[Places], wrong: Sequence[Mask]) -> Iterator[tuple[str, list[Mask]]]:
    """Yields parts that are whole nodes."""
    hit = [bool(mask.any()) for mask in wrong]
    sizes: dict[str, Callable[[Places], int]] = {
        "outputs of more than {} elements": lambda p: p.member.recorded.size,
        "sums of more than {} products": lambda p: p.terms,
        "outputs of fewer than {} elements": lambda p: -p.member.recorded.size,
        "sums of fewer than {} products": lambda p: -p.terms,
    }
    for words, size in sizes.items():
        least = min(size(p) for p, is_hit in zip(every, hit, strict=True) if is_hit)
        smaller = [size(p) for p in every if size(p) < least]
        if smaller:
            name = words.format(abs(max(smaller)))
            yield name, [p.whole(size(p) >= least) for p in every]
    yield "1x1 kernels", [p.whole(p.kernel == (1, 1)) for p in every]
    yield "kernels larger than 1x1", [p.whole(p.kernel not in (None, (1, 1))) for p in every]
    if any(p.member.unit.nodes[0].op in WEIGHTED for p in every):
        several = [p.channel_scales.size > 1 for p in every]
        general = [bool((np.frexp(p.channel_scales)[0] != 0.5).any()) for p in every]
        yield "nodes with several scales", [p.whole(of) for p, of in zip(every, several, strict=True)]
        both = [a and b for a, b in zip(several, general, strict=True)]
        yield (
            "nodes with several scales that are no powers of two",
            [p.whole(of) for p, of in zip(every, both, strict=True)],
        )
        yield "nodes with scales that are no powers of two", [p.whole(of) for p, of in zip(every, general, strict=True)]
