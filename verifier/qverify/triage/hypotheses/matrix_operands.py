"""A matmul reads an operand transposed, a wrong matrix of a batch, or rows and columns of another place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from qverify.triage.altered_kernels.summands import operand_batches
from qverify.triage.case import Array, Case, UnitChange
from qverify.triage.hypotheses import FaultVariant

NAME = "matrix-operands"
OPS = ("matmul", "fully_connected")
Move = Callable[[Array], Array]  # rearranges matrices [B, rows, columns]
NAMES = ("the first operand", "the second operand")


def variants(case: Case) -> Iterator[FaultVariant]:
    if case.last.op not in ("matmul", "fully_connected"):
        return
    for at, operand in enumerate(NAMES if case.last.op == "matmul" else ("the input", "the weights")):
        shape = case.graph.spec(case.last.inputs[at] or "").shape
        for text, move in _moves(shape).items():
            yield FaultVariant(text.format(operand), partial(_moved, at=at, move=move), bits=1.0)
    if case.last.op == "matmul":
        yield from _batches(case)


def _moves(shape: tuple[int, ...]) -> dict[str, Move]:
    rows, columns = shape[-2:]
    moves: dict[str, Move] = {}
    if rows > 1 and columns > 1:
        square = "" if rows == columns else f", {columns} by {rows} instead of {rows} by {columns}"
        moves["{} is taken for already transposed: the product is with its transpose" + square] = partial(
            _read_transposed, rows=rows, columns=columns
        )
        if rows != columns:
            moves["{} is stored transposed but read as if it were not"] = _stored_transposed
    for axis, size, name in ((1, rows, "rows"), (2, columns, "columns")):
        for text, index in _indices(size).items():
            moves[f"the {name} of {{}} {text}"] = partial(_take, index=index, axis=axis)
    return moves


def _read_transposed(m: Array, rows: int, columns: int) -> Array:
    return m.reshape(len(m), columns, rows).swapaxes(1, 2)


def _stored_transposed(m: Array) -> Array:
    return m.swapaxes(1, 2).reshape(m.shape)


def _take(m: Array, index: Array, axis: int) -> Array:
    return m.take(index, axis)


def _indices(n: int) -> dict[str, Array]:
    i = np.arange(n)
    ways = {"are all the first one": 0 * i, "are in reverse order": i[::-1]}
    for m in (2, 4, 8, 16, 32, 64):
        tail = n // m * m
        if m < n:
            ways[f"are exchanged in reversed blocks of {m}"] = np.minimum(i // m * m + m - 1 - i % m, n - 1)
            ways[f"are those modulo {m}"] = i % m
            if n % m:
                ways[f"after the last whole {m} are all the first of the rest"] = np.minimum(i, tail)
                ways[f"after the last whole {m} are those {m} before"] = np.where(i < tail, i, i - m)
                ways[f"after the last whole {m} are the first ones again"] = np.where(i < tail, i, i - tail)
                ways[f"after the last whole {m} are the last of the whole ones"] = np.minimum(i, tail - 1)
    return {text: index for text, index in ways.items() if (index != i).any()}


def _value(case: Case, at: int) -> tuple[str, Array]:
    name = case.last.inputs[at] or ""
    return name, case.graph.constants[name] if name in case.graph.constants else case.inputs[name]


def _moved(case: Case, at: int, move: Move) -> Array:
    name, value = _value(case, at)
    moved = np.ascontiguousarray(move(value.reshape(-1, *value.shape[-2:]))).reshape(value.shape)
    if name in case.graph.constants:
        return case.recompute(UnitChange(constants={name: moved}))
    return case.recompute(UnitChange(inputs={name: moved}))


def _batches(case: Case) -> Iterator[FaultVariant]:
    own_batches = operand_batches(case)
    for at, operand in enumerate(NAMES):
        count, matrices = len(own_batches[at]), int(own_batches[at].max()) + 1
        b = np.arange(count)
        ways = {
            "the first matrix of {} is used for all batches": 0 * b,
            "the last matrix of {} is used for all batches": 0 * b + matrices - 1,
            "batch i uses matrix i of {}, wrapping, without broadcasting": b % matrices,
            "batch i uses matrix i of {}, the last one beyond, without broadcasting": np.minimum(b, matrices - 1),
            "{} is broadcast over the last batch axis instead of the first": b * matrices // count,
            "{} is read in reverse order of its matrices": own_batches[at][::-1],
            "batch i uses the matrix of {} before its own": np.maximum(own_batches[at] - 1, 0),
            "batch i uses the matrix of {} after its own": np.minimum(own_batches[at] + 1, matrices - 1),
        }
        for text, index in ways.items():
            if matrices > 1 and (index != own_batches[at]).any():
                yield FaultVariant(text.format(operand), partial(_batched, at=at, index=index))


def _batched(case: Case, at: int, index: Array) -> Array:
    """Returns the output if its batch i uses matrix index[i] of an operand: one product for each matrix that is
    used."""
    rows = int(np.prod(case.spec.shape[-2:]))
    output = case.healthy.reshape(-1, rows).copy()
    for used in np.unique(index):
        batches = np.flatnonzero(index == used)
        product = _moved(case, at, partial(_only, used=int(used)))
        output[batches] = product.reshape(-1, rows)[batches]
    return output.reshape(case.spec.shape)


def _only(matrices: Array, used: int) -> Array:
    return np.broadcast_to(matrices[used], matrices.shape)
