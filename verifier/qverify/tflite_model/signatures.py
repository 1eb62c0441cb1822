"""Chooses one of several signatures of a .tflite: LiteRT runs the first subgraph, so the one of the signature is put there."""

from __future__ import annotations

from typing import Any

from qverify.errors import BadFileError, UsageError
from qverify.printable import printable
from qverify.tflite_model.interpreter import open_object, pack_object
from qverify.tflite_model.read_tflite import DAMAGE_ERRORS, TfliteModel, schema


def select_signature(data: bytes, model: TfliteModel, name: str) -> bytes:
    """Returns the file with the subgraph of a signature as its first. model: the file's contents. Raises UsageError if it has
    no such signature, BadFileError for a damaged file."""
    found = next((s for s in model.signatures if s.name == name), None)
    if found is None:
        names = ", ".join(s.name for s in model.signatures) or "none"
        raise UsageError(f"--signature {name}: {model.file} has no such signature; it has: {names}")
    if found.subgraph == 0:
        return data
    try:
        source = open_object(schema(), data)
    except DAMAGE_ERRORS as error:
        raise BadFileError(f"{model.file}: a damaged .tflite: {printable(str(error))[:200]}") from error
    graphs, other = source.subgraphs, found.subgraph
    graphs[0], graphs[other] = graphs[other], graphs[0]
    moved = {0: other, other: 0}
    for graph in graphs:
        for operator in graph.operators or ():
            for options in (operator.builtinOptions, operator.builtinOptions2):
                _renumber(options, moved)
    for signature in source.signatureDefs:
        signature.subgraphIndex = moved.get(signature.subgraphIndex, signature.subgraphIndex)
    return pack_object(source)


def _renumber(options: Any, moved: dict[int, int]) -> None:
    """Gives the options of an operator that runs other subgraphs their new numbers."""
    for field, value in vars(options).items() if options is not None else ():
        if field.lower().endswith("subgraphindex") or field == "subgraph":
            setattr(options, field, moved.get(value, value))


def describe_others(model: TfliteModel, name: str) -> str:
    """Returns a line on the signatures that are not verified, "" if there are none. name: the one that was asked for, "" for
    the first."""
    own = next((s for s in model.signatures if s.name == name or (not name and s.subgraph == 0)), None)
    others = [s.name for s in model.signatures if own is None or s.subgraph != own.subgraph]
    if not others:
        return ""
    shown = ", ".join(others[:4]) + (f" and {len(others) - 4} more" if len(others) > 4 else "")
    which = f"signature {own.name}" if own is not None else "the first subgraph"
    return f"{which} alone; not verified: {shown} (--signature NAME)"
