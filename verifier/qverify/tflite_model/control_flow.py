"""Writes the operators of other subgraphs in the place of an IF or WHILE that runs them: of an IF those of both branches and a
choice between their results, of a WHILE whose number of rounds the file determines those of its body, once for each round."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from qverify.tflite_model.composites import alike, placed
from qverify.tflite_model.interpreter import open_object, pack_object
from qverify.tflite_model.read_tflite import DAMAGE_ERRORS, MAX_COUNT, Array, TfliteModel, schema

BRANCH, LOOP = "IF", "WHILE"
MOST_ROUNDS, MOST_OPERATORS = 64, 4096
INTEGERS = {2: "<i4", 4: "<i8"}  # the schema's numbers of types that count rounds
COUNTS: dict[str, Callable[[Array, Array], Array]] = {
    "ADD": np.add, "SUB": np.subtract, "MUL": np.multiply, "MAXIMUM": np.maximum, "MINIMUM": np.minimum,
    "LESS": np.less, "LESS_EQUAL": np.less_equal, "GREATER": np.greater, "GREATER_EQUAL": np.greater_equal,
    "EQUAL": np.equal, "NOT_EQUAL": np.not_equal, "LOGICAL_AND": np.logical_and, "LOGICAL_OR": np.logical_or,
}  # fmt: skip
STAYS = (  # of which one run may fail, have an effect, or differ from the next: such a branch must not run unless it is chosen
    *("DIV", "FLOOR_DIV", "FLOOR_MOD", "SQRT", "RSQRT", "LOG", "GATHER", "GATHER_ND", "CUSTOM", "CALL_ONCE", "CALL"),
    *("VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE", "RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL", "MULTINOMIAL"),
    *("HASHTABLE", "HASHTABLE_FIND", "HASHTABLE_IMPORT", "HASHTABLE_SIZE", BRANCH, LOOP),
)


def inline_control_flow(data: bytes, model: TfliteModel) -> tuple[bytes, list[str]]:
    """Returns the file with the operators of each IF and WHILE of its first subgraph in its place, and lines on them; the file itself
    and no line if there is none, or none can be written so. model: the file's contents."""
    if not any(o.kind in (BRANCH, LOOP) for o in model.operators):
        return data, []
    try:
        inliner = _Inliner(open_object(schema(), data))
        lines = inliner.run()
        return (pack_object(inliner.source), lines) if lines else (data, [])
    except (*DAMAGE_ERRORS, RecursionError):
        return data, []


class _Inliner:
    """Changes the first subgraph of a file in place. source: the file, as objects."""

    def __init__(self, source: Any):
        self.source, self._graph, self._schema = source, source.subgraphs[0], schema()
        self._kinds = {v: k for k, v in vars(self._schema.BuiltinOperator).items() if isinstance(v, int)}
        self._same: dict[int, int] = {}  # a tensor to the one that stands for it

    def run(self) -> list[str]:
        """Returns lines on what was written."""
        graph, done, branches, rounds = self._graph, list[Any](), 0, list[int]()
        todo = [*reversed(graph.operators)]
        while todo:
            operator = todo.pop()
            operator.inputs = [self._same.get(int(i), int(i)) for i in _numbers(operator.inputs)]
            kind = self._kind(operator)
            written = None
            if kind == BRANCH and (written := self._branches(operator)) is not None:
                branches += 1
            elif kind == LOOP and (unrolled := self._rounds(operator)) is not None:
                written, number = unrolled
                rounds.append(number)
            if written is None:
                done.append(operator)
            else:
                todo += reversed(written)
            if len(done) + len(todo) > MOST_OPERATORS or len(graph.tensors) > MAX_COUNT:
                raise ValueError("too many operators")
        graph.operators = done
        graph.outputs = [self._same.get(int(i), int(i)) for i in graph.outputs]
        lines = ["each IF is run as the operators of both branches, of which one result is taken"] if branches else []
        if rounds:
            lines.append(f"each WHILE is run as its rounds, one after the other: {', '.join(map(str, rounds))}")
        return lines

    def _kind(self, operator: Any) -> str:
        code = self.source.operatorCodes[operator.opcodeIndex]
        return self._kinds.get(max(code.builtinCode, code.deprecatedBuiltinCode), "")

    def _subgraph(self, number: int) -> Any | None:
        """Returns a further subgraph of the file, None for another number."""
        if not 0 < int(number) < len(self.source.subgraphs):
            return None
        return self.source.subgraphs[number]

    def _branches(self, operator: Any) -> list[Any] | None:
        """Returns the operators of an IF; None if it stays."""
        options = operator.builtinOptions
        choice, *given = operator.inputs
        shape = [int(d) for d in _numbers(self._graph.tensors[choice].shape)]
        bodies = [self._subgraph(n) for n in (options.thenSubgraphIndex, options.elseSubgraphIndex)]
        if any(d != 1 for d in shape) or any(b is None or len(b.inputs) != len(given) for b in bodies):
            return None
        outputs, written, results = [int(i) for i in operator.outputs], list[Any](), list[list[int]]()
        for body in bodies:
            assert body is not None
            if any(self._kind(o) in STAYS for o in body.operators) or len(body.outputs) != len(outputs):
                return None
            index = {int(a): b for a, b in zip(body.inputs, given, strict=True)}
            operators = placed(self._graph, body, index)
            if operators is None:
                return None
            results.append([index[int(i)] for i in body.outputs])
            written += operators
        tensors = self._graph.tensors
        for place, y in enumerate(outputs):
            pair = results[0][place], results[1][place]
            if not all(alike(tensors[i], tensors[y]) for i in pair):
                return None
            written.append(self._choice(choice, *pair, y))
        return written

    def _choice(self, choice: int, first: int, second: int, output: int) -> Any:
        """Returns an operator that takes one of two tensors."""
        s = self._schema
        code, made = s.OperatorCodeT(), s.OperatorT()
        code.builtinCode = code.deprecatedBuiltinCode = s.BuiltinOperator.SELECT_V2
        code.version = 1
        made.opcodeIndex = len(self.source.operatorCodes)
        self.source.operatorCodes.append(code)
        made.inputs, made.outputs = [choice, first, second], [output]
        made.builtinOptionsType, made.builtinOptions = s.BuiltinOptions.SelectV2Options, s.SelectV2OptionsT()
        return made

    def _rounds(self, operator: Any) -> tuple[list[Any], int] | None:
        """Returns the operators of a WHILE and the number of its rounds; None if it stays."""
        options, now = operator.builtinOptions, [*operator.inputs]
        test, body = self._subgraph(options.condSubgraphIndex), self._subgraph(options.bodySubgraphIndex)
        if test is None or body is None or not len(now) == len(body.inputs) == len(body.outputs) == len(test.inputs):
            return None
        if any(self._kind(o) in ("CALL_ONCE", "ASSIGN_VARIABLE") for o in body.operators):
            return None
        values = [self._value(self._graph.tensors[i]) for i in now]
        written = list[Any]()
        for number in range(MOST_ROUNDS + 1):
            goes_on = self._compute(test, values)[0]
            if goes_on is None or goes_on.size != 1:
                return None
            if not goes_on.reshape(-1)[0]:
                return (written, number) if self._name_results(operator, written, now) else None
            index = {int(a): b for a, b in zip(body.inputs, now, strict=True)}
            operators = placed(self._graph, body, index)
            if operators is None or len(written) > MOST_OPERATORS:
                return None
            written += operators
            values, now = self._compute(body, values), [index[int(i)] for i in body.outputs]
        return None

    def _name_results(self, operator: Any, written: list[Any], now: Sequence[int]) -> bool:
        """Gives the results of the last round the numbers of the operator's outputs. Returns whether they are of their types."""
        tensors, made = self._graph.tensors, {int(i) for o in written for i in o.outputs}
        if not all(alike(tensors[i], tensors[int(y)]) for y, i in zip(operator.outputs, now, strict=True)):
            return False
        index = dict[int, int]()
        for y, i in zip(operator.outputs, now, strict=True):
            if i in made and i not in index:
                index[i] = int(y)
            else:
                self._same[int(y)] = index.get(i, i)
        for each in written:
            each.inputs = [index.get(int(i), int(i)) for i in _numbers(each.inputs)]
            each.outputs = [index.get(int(i), int(i)) for i in each.outputs]
        return True

    def _compute(self, graph: Any, values: Sequence[Array | None]) -> list[Array | None]:
        """Returns the integers that a subgraph computes from these inputs; None for an output that is not known."""
        known = [self._value(tensor) for tensor in graph.tensors]
        for i, value in zip(graph.inputs, values, strict=True):
            known[int(i)] = value
        for operator in graph.operators:
            function, inputs = COUNTS.get(self._kind(operator)), [known[int(i)] for i in _numbers(operator.inputs)]
            plain = not getattr(operator.builtinOptions, "fusedActivationFunction", 0)
            if function is not None and plain and len(inputs) == 2 and inputs[0] is not None and inputs[1] is not None:
                with np.errstate(over="ignore"):
                    known[int(operator.outputs[0])] = np.asarray(function(inputs[0], inputs[1]))
        return [known[int(i)] for i in graph.outputs]

    def _value(self, tensor: Any) -> Array | None:
        """Returns the integer of a constant of one element, None for another tensor."""
        data, kind = self.source.buffers[tensor.buffer].data, INTEGERS.get(int(tensor.type))
        if kind is None or data is None or len(data) != np.dtype(kind).itemsize:
            return None
        return np.frombuffer(bytes(bytearray(data)), kind).reshape(())


def _numbers(values: Any) -> list[Any]:
    return [] if values is None else [*values]
