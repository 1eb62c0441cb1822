"""Compares two dumps on disk: folders of .npy or raw files, .npz files, captures, and the dumps of run.sh, of qvrt and
of vendors' tools."""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import permutations

from qverify.compare.options import Options
from qverify.compare.stated_arithmetic import read_stated
from qverify.compare.verdict import judge_all
from qverify.errors import UsageError
from qverify.inputs.sources import prepared_inputs
from qverify.model_bin.units import units
from qverify.plural import count
from qverify.printable import printable
from qverify.report.document import Pair, ReportDocument
from qverify.session.finals_arithmetics import gives_finals_alone, name_arithmetics_of_finals
from qverify.session.models import Models, open_models
from qverify.session.offline.dequantized_outputs import describe_followed
from qverify.session.offline.dump_inputs import OTHER_INPUTS, UNKNOWN_OR_ROUNDING, note_inputs
from qverify.session.offline.dump_pair import DumpPair
from qverify.session.offline.locate_dumps import find_locator
from qverify.session.offline.partial_dump import state_offered
from qverify.session.offline.read_dumps import ReadPair, read_pair
from qverify.session.offline.rejudge import mark_inconclusive
from qverify.session.offline.stated_scales import state_scales
from qverify.session.printed_values import limit_to_precision
from qverify.session.stated_arithmetics import open_arithmetic
from qverify.tensors.recording import Recording
from qverify.vendor_files.vendor_dump import LayerFacts


def compare_dumps(dumps: DumpPair, options: Options) -> ReportDocument:
    """Returns the report of A against B. A tensor that only one of them has is missing in the other, so that the
    verdict is not PASSED. Raises UsageError if the two cannot be compared, BadFileError for a dump that cannot be
    read."""
    models = _open_models(dumps)
    read = read_pair(dumps, options, models)
    report = _judge(read, replace(options, dump_all=not dumps.outputs_only), models)
    if models is not None:
        report.models, stated = list(models.rows), read_stated(models.graph)
        report.notes += models.notes if models.float_onnx is not None else []
        report.caveats += [stated.describe(units(models.graph), models.graph)] if stated is not None else []
    _state_reading(report, read, dumps, models)
    _state_inputs(report, read, dumps)
    limit_to_precision(report, (read.first, read.second))
    if models is not None:
        _name_arithmetics(report, dumps, models, read.second)
    return report


def _open_models(dumps: DumpPair) -> Models | None:
    """Returns the model of -m; None without one. Raises UsageError for options that need one."""
    if dumps.model is None:
        if dumps.arithmetic:
            open_arithmetic(dumps.arithmetic)
            raise UsageError("--arithmetic says how the nodes of a model are computed; give -m MODEL")
        if dumps.quantization:
            raise UsageError("--quantization states how a toolkit quantized a float ONNX; give that: -m float.onnx")
        return None
    return open_models(
        [dumps.model],
        dumps.shapes or None,
        arithmetic=open_arithmetic(dumps.arithmetic) if dumps.arithmetic else None,
        quantization=dumps.quantization,
        operators=True,
    )


def _judge(read: ReadPair, options: Options, models: Models | None) -> ReportDocument:
    """Returns the report of both recordings, with whom to blame if the model is known."""
    first, second, locate, notes = read.first, read.second, None, list[str]()
    if models is not None:
        locate = find_locator(models, read.has_input_digests, options, notes, read.given)
    graph = models.graph if models is not None else None
    report = judge_all({"A": first, "B": second}, None, [], options, {}, locate=locate, model=graph)
    report.notes += notes
    _mark_outputs(report.pairs, first, second, models)
    _state_layers(report.pairs, first, second)
    return report


def _state_reading(report: ReportDocument, read: ReadPair, dumps: DumpPair, models: Models | None) -> None:
    """States how the dumps were read: in the verdict line what weakens it, else in the notes."""
    first, second, both = read.first, read.second, (read.first, read.second)
    finals_alone = models is not None and gives_finals_alone(second, models.graph)
    names_outputs = any(side.settings.get("outputs") for side in both)
    for pair in report.pairs:
        pair.relaxed += _list_reservations(read)
        _state_scope(pair, dumps, _list_absent(first, models), read.inner, finals_alone, names_outputs)
    report.notes += [*read.paired, f"A is {printable(dumps.a)}, B is {printable(dumps.b)}"]
    report.notes += [*_model_notes(first, second), *_scale_notes(first, second)]
    if read.by_model:
        report.notes.append(
            f"{count(len(read.by_model), 'tensor', 'is', 'are')} read by the scale of -m, which contradicts both dumps, first {read.by_model[0]}"
        )
    doubts = [(k, s.settings[k]) for s in both for k in ("incomplete", "unsteady") if s.settings.get(k)]
    for key, why in dict.fromkeys(doubts):
        mark_inconclusive(report, f"the capture is incomplete: {why}" if key == "incomplete" else str(why))
    noted = dict.fromkeys(n for side in both for n in side.notes)
    report.notes += note_inputs(noted, read.same_inputs, bool(read.other_inputs))
    state_scales(report, both, read.contradicted, models.graph.tensors if models is not None else {}, read.followed)


def _list_reservations(read: ReadPair) -> list[str]:
    """Returns what every verdict line says of the reading of the dumps."""
    said = [*([read.same_source] if read.same_source else []), *describe_followed(read.followed)]
    if read.borrowed:
        tensors = count(len(read.borrowed), "tensor", "is", "are")
        said.append(f"{tensors} read by a scale that only one dump gives, first {read.borrowed[0]}")
    if read.contradicted:
        tensors = count(len(read.contradicted), "tensor", "is", "are")
        first = "".join(next(iter(read.contradicted.items())))
        said.append(f"{tensors} read by a dump's scale or zero point, which -m contradicts, first {first}")
    parts = (str(part) for side in (read.first, read.second) for part in side.settings.get("part", []))
    return [*said, *dict.fromkeys(parts)]


def _state_inputs(report: ReportDocument, read: ReadPair, dumps: DumpPair) -> None:
    """States first that B was computed from other inputs than those that the user gives."""
    report.findings = [*(read.other_inputs if dumps.is_first_pair else ()), *report.findings]
    for pair in report.pairs if read.other_inputs else ():
        pair.cause = OTHER_INPUTS if pair.cause in UNKNOWN_OR_ROUNDING else pair.cause
        pair.relaxed.insert(0, f"the dump's own input {printable(read.other_inputs[0].tensor)} is not that of -i")


def _name_arithmetics(report: ReportDocument, dumps: DumpPair, models: Models, second: Recording) -> None:
    """States which known roundings give the final outputs of B, if it has nothing else, and they are not right."""
    if report.verdict != "FAILED" or not dumps.is_first_pair or not gives_finals_alone(second, models.graph):
        return
    if dumps.inputs is None:
        if not dumps.partial and models.compiled is not None:
            report.notes.append(
                "of the model, B has final outputs alone: -m quant.onnx,B -i INPUT tries the known roundings on them"
            )
        return
    folder, who = os.path.dirname(os.path.abspath(str(dumps.model))), "the dump" if dumps.partial else "B"
    prepared = prepared_inputs(models.graph, dumps.inputs)
    text, note = name_arithmetics_of_finals(models, folder, prepared, second, who)
    report.notes += [note] if note else []
    for pair in report.pairs if text else ():
        pair.arithmetics.append(text)
        pair.relaxed.append(text)


def _mark_outputs(pairs: list[Pair], first: Recording, second: Recording, models: Models | None) -> None:
    """Marks only the model's outputs as final, and keeps the agreement of their largest values alone. Without known
    outputs, nothing is changed."""
    stated = [side.settings.get("outputs", ()) for side in (first, second)]
    outputs = frozenset(models.graph.outputs if models is not None else [n for names in stated for n in names])
    for pair in pairs:
        if any(row.name in outputs for row in pair.tensors):
            pair.agreement = [agreement for agreement in pair.agreement if agreement.output in outputs]
            for row in pair.tensors:
                row.final = row.name in outputs


def _state_layers(pairs: list[Pair], first: Recording, second: Recording) -> None:
    """Adds to the rows what the tables of vendors' dumps state of the layers."""
    layers: dict[str, LayerFacts] = {**first.settings.pop("layers", {}), **second.settings.pop("layers", {})}
    for row in (row for pair in pairs for row in pair.tensors if row.name in layers):
        row.op, row.stated = row.op or layers[row.name].op, layers[row.name].stated


def _list_absent(first: Recording, models: Models | None) -> list[str]:
    """Returns the tensors of -m that neither dump lists. first: the recording of A, to which the tensors of B were
    added as missing."""
    return [] if models is None else [n for n in models.graph.observable() if n not in first.specs]


def _state_scope(
    pair: Pair, dumps: DumpPair, absent: list[str], inner: list[str], finals_alone: bool, stated: bool
) -> None:
    """Adds what the verdict line must state about the scope: --outputs-only, or tensors of the model that neither dump
    has, and tensors inside its nodes that only one has. inner: the text on the latter, if there are any. finals_alone: whether B gives
    final outputs and no other tensor. stated: whether a dump names its final outputs."""
    if dumps.partial:
        state_offered(pair, dumps.outputs_only, finals_alone)
    if dumps.outputs_only:
        pair.scope = pair.scope if dumps.partial else "final outputs only, as asked"
        return
    pair.relaxed += inner
    if absent:
        pair.relaxed.append(
            f"{count(len(absent), 'tensor')} of the model {'is' if len(absent) == 1 else 'are'} in neither dump, first {absent[0]}"
        )
    if pair.cause == "coverage" and not dumps.partial:
        needed = " with -m MODEL" if dumps.model is None and not stated else ""
        pair.why += f"; if one side has only the final outputs, --outputs-only{needed} compares those"


def _model_notes(first: Recording, second: Recording) -> list[str]:
    """Returns a warning if both are captures, but of different models; else []."""
    digests = [str(s.settings.get("models", "")) for s in (first, second)]
    return ["WARNING: A and B are captures of different models"] if all(digests) and digests[0] != digests[1] else []


def _scale_notes(first: Recording, second: Recording) -> list[str]:
    """Returns a note on the tensors that are integers without a scale in one dump and floats in the other, which were
    compared as if the integers were real values; [] without such tensors."""
    missing = {*first.missing, *second.missing}
    common = [n for n in first.specs if n in first.tensors and n in second.tensors and n not in missing]
    mixed = [
        name
        for name in common
        for stored, real in permutations((first.specs[name], second.specs[name]))
        if stored.dtype.startswith(("int", "uint")) and not stored.quantized and real.dtype.startswith("float")
    ]
    if not mixed:
        return []
    return [
        f"{count(len(mixed), 'tensor')}, first {mixed[0]}: integers without a scale in one dump, floats in the other, compared as they "
        "are; -m model.bin has the scales"
    ]
