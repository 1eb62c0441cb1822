"""Leaves operators out of a .tflite that LiteRT has no kernel for: custom operators of an application, and those of TensorFlow."""

from __future__ import annotations

import re

from qverify.tflite_model.interpreter import cut
from qverify.tflite_model.read_tflite import DAMAGE_ERRORS, TfliteModel, TfliteOperator

CUSTOM = "CUSTOM "  # the first word of the kind of such an operator
UNRESOLVED = re.compile(
    r"(?:unresolved custom op|(?:Select|Regular) TensorFlow op).*Node number (\d+) \(\w+\) failed to prepare", re.DOTALL
)  # LiteRT's words


def find_unresolved(model: TfliteModel, refusal: str) -> TfliteOperator | None:
    """Returns the operator for which LiteRT has no kernel, by the text with which it refuses the file; None if that is not why."""
    match = UNRESOLVED.search(refusal)
    position = int(match[1]) if match else len(model.operators)
    operator = model.operators[position] if position < len(model.operators) else None
    return operator if operator is not None and operator.kind.startswith(CUSTOM) else None


def cut_before(data: bytes, model: TfliteModel, operator: TfliteOperator) -> tuple[bytes, int]:
    """Returns the file without an operator and what depends on it, and how many further operators that are. What they read are
    outputs of the file. Returns the file itself and 0 if nothing would be left."""
    lost, left, kept = {*operator.outputs}, [operator], list[TfliteOperator]()
    for each in model.operators:
        if each is operator:
            continue
        if lost.intersection(each.inputs):
            left.append(each)
            lost.update(each.outputs)
        else:
            kept.append(each)
    computed = {i for each in kept for i in each.outputs}
    read = [i for each in left for i in each.inputs]
    outputs = [i for i in dict.fromkeys((*model.outputs, *read)) if i in computed]
    if not outputs:
        return data, 0
    try:
        return cut(data, model, kept, model.inputs, outputs)[0], len(left) - 1
    except DAMAGE_ERRORS:
        return data, 0
