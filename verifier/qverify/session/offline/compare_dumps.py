"""Compares two dumps on disk: folders of .npy or raw files, .npz files, captures, and the dumps of run.sh, of qvrt and
of vendors' tools."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import permutations

from qverify.capture.reader import is_capture
from qverify.compare.containers import unwrap_differing
from qverify.compare.judge_roles import check_roles_of
from qverify.compare.options import Options
from qverify.compare.stated_arithmetic import read_stated
from qverify.compare.verdict import judge_all
from qverify.errors import UsageError
from qverify.files import write_text
from qverify.inputs.sources import InputRequest, prepared_inputs
from qverify.model_bin.layouts import infer_layouts
from qverify.model_bin.units import units
from qverify.plural import count
from qverify.printable import printable
from qverify.report.document import Pair, ReportDocument
from qverify.report.facts import Finding
from qverify.session.finals_arithmetics import gives_finals_alone, name_arithmetics_of_finals
from qverify.session.models import Models, open_models
from qverify.session.offline.dequantized_outputs import complete_outputs, describe_followed
from qverify.session.offline.dump_inputs import OTHER_INPUTS, UNKNOWN_OR_ROUNDING, compare_inputs, note_inputs
from qverify.session.offline.dump_reservations import describe_same_files, read_by_model, refuse_unscaled, share_specs
from qverify.session.offline.locate_dumps import find_locator, leave_out_inner, use_names_of_model
from qverify.session.offline.partial_dump import find_not_offered, state_offered
from qverify.session.offline.rejudge import mark_inconclusive
from qverify.session.offline.stated_scales import state_scales
from qverify.session.printed_values import check_precision, limit_to_precision
from qverify.session.request import BoardDump
from qverify.session.stated_arithmetics import open_arithmetic
from qverify.sides.dumps.array_axes import move_axes
from qverify.sides.dumps.open_dump import open_dump
from qverify.sides.dumps.other_spellings import refuse_contradicting
from qverify.sides.dumps.rewritten_names import apply_map, draft_map, pair_rewritten, read_map, without_partner
from qverify.sides.dumps.run_npz import read_index
from qverify.sides.dumps.twin_files import is_undescribed, refuse_twins
from qverify.sides.dumps.vendor_names import common_spelling
from qverify.sides.dumps.vendor_side import OtherSide, align_profiles, declared_specs, record_dump
from qverify.tensors.axis_moves import find_move
from qverify.tensors.recording import Array, Recording
from qverify.tensors.spec import TensorSpec
from qverify.vendor_files.vendor_dump import ITEM, LayerFacts, ReadingOptions, VendorDump


@dataclass(frozen=True, slots=True)
class DumpPair:
    """Two dumps and how to read them.

    Attributes:
        a, b: paths of the dumps.
        model: path of -m, None without one.
        profile_a, profile_b: names of vendors' profiles; "" to recognise the format by its content.
        reading: further options, for both.
        outputs_only: compare only the final outputs.
        side_a, side_b: the side to read from a dump of several sides; "" for that of `reading`.
        arithmetic: file or name of the arithmetic that both are stated to have; "" for none.
        names: file of --map, which pairs names; "" for none.
        quantization: files in which a vendor's toolkit states how it quantized the float ONNX of `model`.
        partial: whether B stands in a board's place, so that it is judged by the tensors that it has.
        inputs: the inputs that B was given; None if they are not known.
        is_first_pair: whether it is the first pair of a report, in which is said what is the same for all: other inputs of B, and which known
            roundings give its final outputs.
        shapes: dims of dynamic inputs of the model, by name.
        every_frame: whether every frame of folders of several is compared (compare_frames.py), and not that of `reading`.
    """

    a: str
    b: str
    model: str | None = None
    profile_a: str = ""
    profile_b: str = ""
    reading: ReadingOptions = field(default_factory=ReadingOptions)
    outputs_only: bool = False
    side_a: str = ""
    side_b: str = ""
    arithmetic: str = ""
    quantization: tuple[str, ...] = ()
    names: str = ""
    partial: bool = False
    inputs: InputRequest | None = None
    is_first_pair: bool = True
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    every_frame: bool = False

    def reading_of(self, b: bool) -> ReadingOptions:
        """Returns the options for reading dump B if `b`, else dump A."""
        layout = self.reading.layout if b else ""
        return replace(self.reading, side=(self.side_b if b else self.side_a) or self.reading.side, layout=layout)


def compare_dumps(dumps: DumpPair, options: Options) -> ReportDocument:
    """Returns the report of A against B. A tensor that only one of them has is missing in the other, so that the
    verdict is not PASSED. Raises UsageError if the two cannot be compared, BadFileError for a dump that cannot be
    read."""
    arithmetic = open_arithmetic(dumps.arithmetic) if dumps.arithmetic else None
    if arithmetic is not None and dumps.model is None:
        raise UsageError("--arithmetic says how the nodes of a model are computed; give -m MODEL")
    if dumps.quantization and dumps.model is None:
        raise UsageError("--quantization states how a toolkit quantized a float ONNX; give that: -m float.onnx")
    models = None
    if dumps.model is not None:
        models = open_models(
            [dumps.model],
            dumps.shapes or None,
            arithmetic=arithmetic,
            quantization=dumps.quantization,
            operators=True,
        )
    sides = [
        _open_side(p, profile, dumps.reading_of(b), models)
        for p, profile, b in ((dumps.a, dumps.profile_a, False), (dumps.b, dumps.profile_b, True))
    ]
    names = read_map(dumps.names) if dumps.names and os.path.exists(dumps.names) else {}
    if models is not None:
        for side in sides:
            use_names_of_model(side, models, names)
    same_source = _describe_same_source(dumps, sides) or describe_same_files(dumps.a, dumps.b)
    first, second = _make_recordings(dumps, sides, models, names, options.decimals and options.rule == "exact")
    if models is not None:
        for path, recording in zip((dumps.a, dumps.b), (first, second), strict=True):
            mapped = {*names, *names.values()}
            refuse_contradicting(path, recording, models.graph, models.onnx_names.quantized, mapped)
    paired = _pair_names(dumps, names, first, second)
    given, same_inputs, other_inputs = dict[str, Array](), list[str](), list[Finding]()
    if models is not None and dumps.inputs is not None:
        given = prepared_inputs(models.graph, dumps.inputs).arrays()
        same_inputs, other_inputs = compare_inputs(sides[1], models.graph, given)
    if dumps.reading.layout and isinstance(sides[1], Recording):
        known = infer_layouts(models.graph) if models is not None else first.specs
        second = move_axes(second, dumps.reading.layout, known, dumps.b)
    followed = list[str]()
    if models is not None:
        completed = (complete_outputs(s, models.graph, not dumps.partial) for s in (first, second))
        followed = [*dict.fromkeys(name for names in completed for name in names)]
    for path, side, recording in zip((dumps.a, dumps.b), sides, (first, second), strict=True):
        if isinstance(side, VendorDump) and side.profile == "raw" and os.path.isdir(path):
            refuse_twins(path, recording, ".bin")
    outputs = _find_outputs(first, second, models) if dumps.outputs_only else ()
    first.side, second.side = "A", "B"
    digests, digests_b = _input_digests(first), _input_digests(second)
    if digests and digests_b and digests != digests_b:
        raise UsageError(f"{dumps.a} and {dumps.b} were computed from different inputs; they cannot be compared")
    check_precision((first, second), options, models is not None)
    check_roles_of(options, {name: spec.shape for name, spec in first.specs.items()})
    graph = models.graph if models is not None else None
    model_tensors = graph.tensors if graph is not None else {}
    not_offered, why = set[str](), dict[str, str]()
    if dumps.partial and models is not None:
        not_offered, why = find_not_offered(first, second, models)
    inner = leave_out_inner(first, second, models) if models is not None else []
    borrowed = [name for name in share_specs(first, second, not_offered) if name not in model_tensors]
    second.missing |= why
    refuse_unscaled(first, second, model_tensors)
    by_model, contradicted = read_by_model(first, second, model_tensors, _spelling(sides))
    if models is not None:
        _refuse_another_network(dumps, (first, second), models)
    first, second = unwrap_differing(first, second, model_tensors)
    first.finals = second.finals = outputs or tuple(n for n in first.specs if n not in not_offered)
    for side in (first, second):
        side.capabilities |= {"per_node"}  # both list every tensor they have
    options = replace(options, dump_all=not dumps.outputs_only)
    notes = list[str]()
    locate = None
    if models is not None:
        locate = find_locator(models, bool(digests and digests_b), options, notes, given)
    report = judge_all({"A": first, "B": second}, None, [], options, {}, locate=locate, model=graph)
    report.notes += notes
    _mark_outputs(report.pairs, first, second, models)
    _state_layers(report.pairs, first, second)
    if models is not None:
        report.models, stated = list(models.rows), read_stated(models.graph)
        report.notes += models.notes if models.float_onnx is not None else []
        report.caveats += [stated.describe(units(models.graph), models.graph)] if stated is not None else []
    finals_alone = models is not None and gives_finals_alone(second, models.graph)
    for pair in report.pairs:
        pair.relaxed += [*([same_source] if same_source else []), *describe_followed(followed)]
        if borrowed:
            pair.relaxed.append(
                f"{count(len(borrowed), 'tensor', 'is', 'are')} read by a scale that only one dump gives, first {borrowed[0]}"
            )
        if contradicted:
            pair.relaxed.append(
                f"{count(len(contradicted), 'tensor', 'is', 'are')} read by a dump's scale or zero point, which -m contradicts, first {''.join(next(iter(contradicted.items())))}"
            )
        pair.relaxed += dict.fromkeys(str(part) for side in (first, second) for part in side.settings.get("part", []))
        names_outputs = any(side.settings.get("outputs") for side in (first, second))
        _state_scope(pair, dumps, _list_absent(first, models), inner, finals_alone, names_outputs)
    report.notes += paired
    report.notes += [f"A is {printable(dumps.a)}, B is {printable(dumps.b)}", *_model_notes(first, second)]
    report.notes += _scale_notes(first, second)
    if by_model:
        report.notes.append(
            f"{count(len(by_model), 'tensor', 'is', 'are')} read by the scale of -m, which contradicts both dumps, first {by_model[0]}"
        )
    doubts = [(k, s.settings[k]) for s in (first, second) for k in ("incomplete", "unsteady") if s.settings.get(k)]
    for key, why in dict.fromkeys(doubts):
        mark_inconclusive(report, f"the capture is incomplete: {why}" if key == "incomplete" else str(why))
    report.notes += note_inputs(
        dict.fromkeys(n for side in (first, second) for n in side.notes), same_inputs, bool(other_inputs)
    )
    state_scales(report, (first, second), contradicted, model_tensors, followed)
    report.findings = [*(other_inputs if dumps.is_first_pair else ()), *report.findings]
    for pair in report.pairs if other_inputs else ():
        pair.cause = OTHER_INPUTS if pair.cause in UNKNOWN_OR_ROUNDING else pair.cause
        pair.relaxed.insert(0, f"the dump's own input {printable(other_inputs[0].tensor)} is not that of -i")
    limit_to_precision(report, (first, second))
    if models is not None:
        _name_arithmetics(report, dumps, models, second)
    return report


def read_in_place(dump: BoardDump, models: Models, first: Recording) -> Recording:
    """Returns a dump in the board's place as the main job reads it, under the names of `first`, a side of the same models. Raises
    UsageError or BadFileError for one that cannot be read."""
    side_b = dump.reading.side or ("board" if not dump.profile and read_index(dump.path) is not None else "")
    dumps = DumpPair("", dump.path, profile_b=dump.profile, reading=dump.reading, side_b=side_b, names=dump.names)
    side = _open_side(dump.path, dump.profile, dumps.reading_of(True), models)
    names = read_map(dump.names) if dump.names and os.path.exists(dump.names) else {}
    use_names_of_model(side, models, names)
    first = replace(first, specs=dict(first.specs), missing=dict(first.missing))
    _, second = _make_recordings(dumps, [first, side], models, names, False)
    notes = _pair_names(dumps, names, first, second)
    if dump.reading.layout and isinstance(side, Recording):
        second = move_axes(second, dump.reading.layout, infer_layouts(models.graph), dump.path)
    second.notes += notes
    return second


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


def _spelling(sides: list[Recording | VendorDump]) -> Callable[[str], str]:
    """Returns a function that spells the model's names and those of both dumps alike."""
    first, second = (side.respell if isinstance(side, VendorDump) else None for side in sides)
    return common_spelling(first, second)


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


def _describe_same_source(dumps: DumpPair, sides: list[Recording | VendorDump]) -> str:
    """Returns the note for the verdict if A and B are the same folder or file, also by a link; "" if they are not, or
    are two sides of it."""
    files_read = [{t.where for t in side.tensors} for side in sides if isinstance(side, VendorDump)]
    two_sides = (is_capture(dumps.a) or read_index(dumps.a) is not None) and dumps.reading_of(
        False
    ).side != dumps.reading_of(True).side
    disjoint = len(files_read) == 2 and not files_read[0] & files_read[1]
    if not os.path.samefile(dumps.a, dumps.b) or two_sides or disjoint:
        return ""
    return f"A and B are one {'folder' if os.path.isdir(dumps.a) else 'file'}, compared with itself"


def _find_outputs(first: Recording, second: Recording, models: Models | None) -> tuple[str, ...]:
    """Returns the names of the final outputs: those of -m, or else those that the dumps state. Raises UsageError if
    neither dump states them, or the dumps contradict each other."""
    stated = (
        [tuple(s.settings.get("outputs", ())) for s in (first, second)] if models is None else [models.graph.outputs]
    )
    distinct = {names for names in stated if names}
    if not distinct:
        raise UsageError(
            "--outputs-only: neither dump says which of its tensors are final outputs (a capture and `qverify infer` do); give -m MODEL"
        )
    if len(distinct) > 1:
        raise UsageError(
            f"--outputs-only: the dumps name different final outputs: {' and '.join(map(str, sorted(distinct)))}"
        )
    return distinct.pop()


def _refuse_another_network(dumps: DumpPair, sides: tuple[Recording, Recording], models: Models) -> None:
    """Raises UsageError if no tensor of -m is in either dump: nothing is read or recomputed by it."""
    names, known = {*sides[0].specs}, (*models.graph.inputs, *models.graph.observable())
    if names and not names & {*known, *models.onnx_names.inner}:
        given, wanted = (", ".join(map(printable, list(n)[:2])) for n in (sides[0].specs, known))
        raise UsageError(
            f"-m {printable(str(dumps.model))}: none of its {count(len(known), 'tensor')} is in {printable(dumps.a)} or "
            f"{printable(dumps.b)}: got {given} ..., wanted {wanted} ...; give the network that the dumps are of, or no -m"
        )


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


def dtypes(values: Iterable[str]) -> dict[str, str]:
    """Parses DTYPE and NAME=DTYPE options. Returns the dtypes by tensor name; a dtype without a name is under "".
    Raises UsageError for an unknown dtype."""
    dtypes_by_name = {}
    for value in values:
        name, _, dtype = value.rpartition("=")
        if dtype not in ITEM:
            raise UsageError(f"--dtype {value}: wanted one of {', '.join(ITEM)}, or NAME=DTYPE")
        dtypes_by_name[name] = dtype
    return dtypes_by_name


def _open_side(path: str, profile: str, reading: ReadingOptions, models: Models | None) -> Recording | VendorDump:
    """Opens a dump with the profile that the user named, or else with the one that recognises its content."""
    graph, sha256 = (models.graph, hashlib.sha256(models.binary).hexdigest()) if models is not None else (None, "")
    side = open_dump(path, profile, reading, graph, sha256)
    if isinstance(side, Recording) and is_undescribed(path):
        refuse_twins(path, side)
    return side


def _make_recordings(
    dumps: DumpPair,
    sides: list[Recording | VendorDump],
    models: Models | None,
    names: Mapping[str, str],
    exact: bool,
) -> tuple[Recording, Recording]:
    """Returns both dumps as recordings. A vendor's dump is interpreted with the specs of the other side, which is
    therefore read first. names: those of --map. exact: as for align_profiles()."""
    a, b = sides
    names_of_b = {name_a: name_b for name_b, name_a in names.items()}
    model = infer_layouts(models.graph) if models is not None else {}
    outputs = models.graph.outputs if models is not None else ()
    stored = models.graph.stored() if models is not None else {}
    dtype_options = dumps.reading.dtypes
    if isinstance(a, Recording) and isinstance(b, Recording):
        return a, b
    if isinstance(a, VendorDump) and isinstance(b, Recording):
        return record_dump(
            a,
            dumps.a,
            "reference",
            OtherSide(_usable(b, a, model), None, model, outputs, stored, names_of_b),
            dtype_options,
        ), b
    if isinstance(a, Recording) and isinstance(b, VendorDump):
        other = OtherSide(_usable(a, b, model), None, model, outputs, stored, names)
        return a, record_dump(b, dumps.b, "dump", other, dtype_options)
    assert isinstance(a, VendorDump) and isinstance(b, VendorDump)
    if a.profile == b.profile:
        align_profiles(a, b, exact, models is None)
    if b.respell is None:  # b has the original names, which a gets as well
        other = OtherSide(declared_specs(b), b, model, (), stored, names_of_b)
        first = record_dump(a, dumps.a, "reference", other, dtype_options)
        other = OtherSide(_usable(first), None, model, (), stored, names)
        return first, record_dump(b, dumps.b, "dump", other, dtype_options)
    second = record_dump(b, dumps.b, "dump", OtherSide(declared_specs(a), a, model, (), stored, names), dtype_options)
    other = OtherSide(_usable(second), None, model, (), stored, names_of_b)
    return record_dump(a, dumps.a, "reference", other, dtype_options), second


def _pair_names(dumps: DumpPair, names: Mapping[str, str], first: Recording, second: Recording) -> list[str]:
    """Gives the second dump the first one's names by the map of the user and by known rewritings, and returns notes.
    names: those of the map. If its file does not exist, it is written as a draft, and UsageError says so."""
    notes = list[str]()
    if names:
        notes.append(apply_map(dumps.names, names, first, second))
    notes += pair_rewritten(first, second)
    if not without_partner(first, second):
        if dumps.names and not os.path.exists(dumps.names):
            raise UsageError(f"--map {dumps.names}: no such file, and every tensor has a partner; leave it out")
        return notes
    if dumps.names and not os.path.exists(dumps.names):
        write_text(draft_map(first, second), dumps.names)
        raise UsageError(f"--map {dumps.names}: no such file; a draft is there now: correct it, and run again")
    if not dumps.names:
        notes.append("names of both dumps have no partner; --map names.toml writes a draft that pairs them")
    return notes


def _usable(
    recording: Recording, read: VendorDump | None = None, model: Mapping[str, TensorSpec] | None = None
) -> dict[str, TensorSpec]:
    """Returns the specs of the tensors with which the other side can be compared, in the model's dims where `read`, the dump that
    is read by them, states those and the recording has them in another order."""
    specs = {n: s for n, s in recording.specs.items() if not s.interior and n not in recording.missing}
    stated = {t.name: t.shape for t in read.tensors} if read is not None else {}
    for name, wanted in (model or {}).items():
        if name in specs and stated.get(name) == wanted.shape and find_move(specs[name].shape, wanted.shape):
            specs[name] = replace(specs[name], shape=wanted.shape, aligned_shape=(), layout=wanted.layout)
    return specs


def _input_digests(recording: Recording) -> list[str]:
    """Returns the hashes of the inputs that a dump states; [] if it states none."""
    return list(recording.settings.get("inputs", []))
