"""The shapes with which the networks of a sequence are opened for the first time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from qverify.errors import BadFileError, UsageError
from qverify.onnx_model.open_dims import Dims, read_input_dims
from qverify.sequences.find_states import is_past
from qverify.sequences.sequence_request import SequenceRequest

Shapes = dict[str, tuple[int, ...]]


def first_shapes(paths: Sequence[str], shapes: Shapes, sequence: SequenceRequest) -> tuple[Shapes, SequenceRequest]:
    """Returns the shapes of -m, and the sequence with those of --decode: those of --shape, and for past values with one open
    dim a length of 0. Raises UsageError for a shape of an input that no network has."""
    networks = [_read(paths), _read(sequence.decode)]
    known = {name for network in networks for name in network}
    if (unknown := [name for name in shapes if name not in known]) and known:
        raise UsageError(f"--shape {unknown[0]}: no network has this input; there are {', '.join(sorted(known))}")
    first, decode = ({**_empty(network), **{n: s for n, s in shapes.items() if n in network}} for network in networks)
    return (first if networks[0] else shapes), replace(sequence, decode_shapes=decode)


def _read(paths: Sequence[str]) -> dict[str, Dims]:
    """Returns the inputs of the first file that is an ONNX. A file that cannot be read is refused when it is opened."""
    for path in paths:
        try:
            if dims := read_input_dims(path):
                return dims
        except BadFileError:
            return {}
    return {}


def _empty(network: Mapping[str, Dims]) -> Shapes:
    return {
        name: tuple(0 if d is None else d for d in dims)
        for name, dims in network.items()
        if is_past(name) and sum(d is None for d in dims) == 1
    }
