"""Writes Einsum as Transpose, Reshape, MatMul and ReduceSum. More than two operands are combined from the left, two at
a time."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import onnx

from qverify.onnx_model.rewriter import Rewriter, attribute

ELLIPSIS = "..."


@dataclass(frozen=True, slots=True)
class Term:
    """A tensor and the label of each of its dims. The dims of an ellipsis are labelled 0, 1, ... from the last."""

    name: str
    labels: tuple[str, ...]
    sizes: dict[str, int]


def einsum(r: Rewriter, node: onnx.NodeProto) -> None:
    """Writes the node. Raises UnsupportedError for a label twice in one operand, and for other types than float32."""
    terms, out = _terms(r, node)
    left = terms[0]
    for at, right in enumerate(terms[1:], 1):
        later = {label for term in terms[at + 1 :] for label in term.labels} | set(out)
        left = _product(
            r, _summed(r, left, later | set(right.labels)), _summed(r, right, later | set(left.labels)), later
        )
    left = _summed(r, left, set(out))
    order = [left.labels.index(label) for label in out]
    if order != sorted(order):
        r.node("Transpose", [left.name], node.output[0], perm=order)
    else:
        r.node("Identity", [left.name], node.output[0])


def _terms(r: Rewriter, node: onnx.NodeProto) -> tuple[list[Term], tuple[str, ...]]:
    """Returns the operands and the labels of the output."""
    equation = attribute(node, "equation", b"").decode(errors="replace").replace(" ", "")
    left, arrow, right = equation.partition("->")
    parts = left.split(",")
    if len(parts) != len(node.input):
        raise r.refusal(f"equation {equation!r} for {len(node.input)} operands")
    for name in node.input:
        if (kind := r.kind(name)) != onnx.TensorProto.FLOAT:
            dtype = onnx.TensorProto.DataType.Name(kind or 0).lower()
            raise r.refusal(
                f"operand {name!r} is {dtype}; wanted float32, also between tensors quantized to 8 or 16 bits"
            )
    terms = [_term(r, name, part, equation) for name, part in zip(node.input, parts, strict=True)]
    most = max((len([n for n in t.labels if n.isdigit()]) for t in terms), default=0)
    dots = tuple(str(i) for i in reversed(range(most)))
    if arrow:
        before, has, after = right.partition(ELLIPSIS)
        return terms, (*before, *(dots if has else ()), *after)
    letters = "".join(parts).replace(".", "")
    return terms, (*dots, *sorted(c for c in set(letters) if letters.count(c) == 1))


def _term(r: Rewriter, name: str, part: str, equation: str) -> Term:
    dims = r.dims(name)
    before, dots, after = part.partition(ELLIPSIS)
    hidden = len(dims) - len(before) - len(after) if dots else 0
    labels = (*before, *(str(i) for i in reversed(range(hidden))), *after)
    if len(labels) != len(dims):
        raise r.refusal(f"equation {equation!r} has {part!r} for an operand of rank {len(dims)}")
    if len(set(labels)) != len(labels):
        raise r.refusal(
            f"equation {equation!r}: a label twice in one operand (a diagonal) is not supported. Take the diagonal by a GatherND or by a Mul with a mask and ReduceSum, or cut the model before it"
        )
    return Term(name, labels, dict(zip(labels, dims, strict=True)))


def _summed(r: Rewriter, term: Term, kept: set[str]) -> Term:
    """Returns the term with all dims summed that are not needed later."""
    axes = [at for at, label in enumerate(term.labels) if label not in kept]
    if not axes:
        return term
    more: dict[str, Any] = {} if r.opset >= 13 else {"axes": axes}
    inputs = [term.name, r.ints("summed_axes", axes)] if r.opset >= 13 else [term.name]
    name = r.step("ReduceSum", inputs, "summed", keepdims=0, **more)
    labels = tuple(label for label in term.labels if label in kept)
    return Term(name, labels, {n: term.sizes[n] for n in labels})


def _product(r: Rewriter, a: Term, b: Term, later: set[str]) -> Term:
    """Returns the product of two terms, summed over the dims that both have and that are not needed later."""
    a, b = _without_broadcast(r, a, b), _without_broadcast(r, b, a)
    both = [n for n in a.labels if n in b.labels]
    batch, inner = [n for n in both if n in later], [n for n in both if n not in later]
    rows, columns = ([n for n in t.labels if n not in both] for t in (a, b))
    first = _arranged(r, a, [*batch, *rows, *inner], len(batch), len(rows))
    second = _arranged(r, b, [*batch, *inner, *columns], len(batch), len(inner))
    name = r.step("MatMul", [first, second], "product")
    labels, sizes = (*batch, *rows, *columns), a.sizes | b.sizes
    if len(rows) != 1 or len(columns) != 1:
        name = r.step("Reshape", [name, r.ints("product_dims", [sizes[n] for n in labels])], "product_of_dims")
    return Term(name, labels, {n: sizes[n] for n in labels})


def _without_broadcast(r: Rewriter, term: Term, partner: Term) -> Term:
    """Returns the term without its dims of size 1 that are larger in the other term."""
    labels = tuple(n for n in term.labels if not (term.sizes[n] == 1 and partner.sizes.get(n, 1) > 1))
    if labels == term.labels:
        return term
    name = r.step("Reshape", [term.name, r.ints("unbroadcast", [term.sizes[n] for n in labels])], "unbroadcast_dims")
    return Term(name, labels, {n: term.sizes[n] for n in labels})


def _arranged(r: Rewriter, term: Term, order: list[str], batch: int, rows: int) -> str:
    """Returns the term's tensor as (batch..., rows, columns). rows: the number of labels after the batch that form the
    rows."""
    name, perm = term.name, [term.labels.index(n) for n in order]
    if perm != sorted(perm):
        name = r.step("Transpose", [name], "arranged", perm=perm)
    if rows == 1 and len(order) - batch == 2:
        return name
    sizes = [term.sizes[n] for n in order]
    dims = [*sizes[:batch], prod(sizes[batch : batch + rows]), prod(sizes[batch + rows :])]
    return r.step("Reshape", [name, r.ints("matrix_dims", dims)], "matrix")


REPLACED = {("", "Einsum"): einsum}
