"""Records a vendor's dump as a side, with the names and axes of the other side. Ambiguous tensors are missing."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from qverify_agents.printable import one_line

from qverify.plural import count
from qverify.sides.dumps.rewritten_names import match_rewritten
from qverify.sides.dumps.vendor_axes import BLOCKED, Unsettled
from qverify.sides.dumps.vendor_forms import check_forms_agree
from qverify.sides.dumps.vendor_names import NamedTensor, PairedNames, common_spelling, pair_by_index, pair_names
from qverify.sides.dumps.vendor_tensor import DEQUANTIZED, SettledTensor, loader, settle_tensor, state_layout
from qverify.tensors.recording import Recording, Tensors
from qverify.tensors.spec import TensorSpec
from qverify.vendor_files.vendor_dump import LayerFacts, VendorDump, VendorTensor

INPUTS_NOT_COMPARED = "inputs of the network that the other side does not have: not compared"
MAX_SHOWN = 3  # names in a note
ADVICE = {  # to give -m, and what is said instead if it was given; {} is what -m has of this name
    "(give -m)": "({})",
    "give -m quant.onnx or model.bin, which states it": "{}",
    "give -m quant.onnx or model.bin": "{}",
    "give -m quant.onnx, which states it": "{}",
    "give -m quant.onnx, which states the order of its axes": "{}",
    "give --dtype, or -m": "give --dtype; {}",
    "give -m, or the tensor without padding": "give the tensor without padding; {}",
}


@dataclass(slots=True)
class OtherSide:
    """The side that a dump is compared with.

    Attributes:
        specs: specs of its tensors, by its names.
        dump: the side itself if it is also a vendor's dump; specs is then incomplete.
        model: specs of the model of -m.
        outputs: names of the model's final outputs, in order.
        stored: as Graph.stored(), of the model.
        names: its names by those of the dump that is read, as --map pairs them.
    """

    specs: Mapping[str, TensorSpec]
    dump: VendorDump | None = None
    model: Mapping[str, TensorSpec] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()
    stored: Mapping[str, TensorSpec] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)


def record_dump(dump: VendorDump, path: str, side: str, other_side: OtherSide, dtypes: Mapping[str, str]) -> Recording:
    """Returns the dump as a side. A tensor that cannot be read for certain, or has an ambiguous name, is missing, with
    the reason. The notes state how values were converted. dtypes: values of --dtype, by tensor name."""
    dump.tensors = [
        replace(
            t,
            name=one_line(t.name),
            other_names=tuple(map(one_line, t.other_names)),
            aliases=tuple(map(one_line, t.aliases)),
        )
        for t in dump.tensors
    ]
    dump.missing = {one_line(name): why for name, why in dump.missing.items()}
    counts = Counter((t.name, t.form) for t in dump.tensors)
    dump.missing |= {name: "the dump contains it twice" for (name, _), times in counts.items() if times > 1}
    dump.tensors = [t for t in dump.tensors if t.name not in dump.missing]
    reading = _Reading(dump, path, other_side, dtypes)
    groups = _group_by_name(dump)
    pairs = _pair_with_other_side(groups, other_side, dump)
    reading.missing = {**dump.missing, **pairs.doubtful}
    partners, of_model = _find_partners(groups, pairs, other_side)
    for name, tensors in groups.items():
        if tensors[0].is_input and name not in partners:
            reading.add_note(INPUTS_NOT_COMPARED, name)
        elif tensors[0].is_inserted and name not in partners:
            reading.add_note("inserted by the toolkit, and not on the other side: not compared", name)
        elif name not in pairs.doubtful:
            reading.settle(pairs.b_of_a.get(name) or name, tensors, partners.get(name, ""), of_model.get(name, ""))
    renamed = [f"{n} is {t}" for n, t in pairs.b_of_a.items() if n != t]
    if renamed:
        reading.add_note("names in the vendor's spelling", *renamed)
    return reading.recording(side)


class _Reading:
    """The tensors read so far, the missing ones, and notes on them."""

    def __init__(self, dump: VendorDump, path: str, other_side: OtherSide, dtypes: Mapping[str, str]):
        self.dump, self.path, self.other_side, self.dtypes = dump, path, other_side, dtypes
        self.settled: dict[str, SettledTensor] = {}
        self.specs: dict[str, TensorSpec] = {}
        self.missing: dict[str, str] = {}
        self.note_names: dict[str, list[str]] = {}
        self.layers: dict[str, LayerFacts] = {}

    def add_note(self, text: str, *names: str, model: TensorSpec | None = None) -> None:
        text = self._advise(text, model)
        self.note_names.setdefault(text, []).extend(names)

    def _advise(self, text: str, model: TensorSpec | None) -> str:
        """Returns the text without the advice to give -m if it was given. model: what it has of the tensor."""
        if not self.other_side.model:
            return text
        advice = next((advice for advice in ADVICE if advice in text), None)
        has = "has no tensor of this name" if model is None else f"has {model.name} as {model.dtype}{list(model.shape)}"
        return text if advice is None else text.replace(advice, ADVICE[advice].format(f"-m {has}"))

    def settle(self, name: str, tensors: list[VendorTensor], partner: str, of_model: str) -> None:
        """Records the first of the tensor's files that can be read for certain, and compares the other files with it.
        If there is none, the tensor is missing, with the reason for the first file. partner, of_model: the other side's
        name of it and the model's, "" if it has none. Raises BadFileError if its files contradict each other."""
        other, why = self.other_side.specs.get(partner), ""
        model = _model_spec(name, self.dump, self.other_side) or self.other_side.model.get(of_model)
        if self.other_side.dump is not None and model is not None and other is not None:
            other = _in_dims_of(other, model)  # as both dumps are read
        tensors = [state_layout(tensor, self.dump.layout, other or model) for tensor in tensors]
        for tensor in _sort_by_similarity(tensors, other):
            dtype = self.dtypes.get(name) or self.dtypes.get(tensor.name) or self.dtypes.get("", "")
            try:
                form = _stored_form(model, tensor, self.other_side.stored)
                settled = settle_tensor(name, tensor, other, form, dtype if len(tensor.dtypes) > 1 else "")
                known = [spec for spec in (form, other) if spec is not None]
                settled.notes += [check_forms_agree(settled, twin, known) for twin in tensors if twin is not tensor]
            except Unsettled as reason:
                why = why or f"{tensor.where.removeprefix(os.path.join(os.path.realpath(self.path), ''))}: {reason}"
                continue
            self.settled[name], self.specs[name] = settled, settled.spec
            if tensor.name in self.dump.layers:
                self.layers[name] = self.dump.layers[tensor.name]
            for text in settled.notes:
                self.add_note(
                    text, f"{name} ({settled.spec.describe_scale()})" if text == DEQUANTIZED else name, model=model
                )
            return
        self.missing[name] = self._advise(why, model)
        self.specs[name] = other or TensorSpec(name, _numpy_dtype(tensors[0].dtypes[0]), tensors[0].shape or ())

    def recording(self, side: str) -> Recording:
        engine = f"{self.dump.profile} dump {os.path.basename(os.path.normpath(self.path))}"
        result = Recording(side, engine, specs=self.specs, missing=self.missing)
        result.settings["profile"] = self.dump.profile
        result.settings |= {"layers": self.layers} if self.layers else {}
        result.tensors = Tensors({name: loader(s) for name, s in self.settled.items()})
        for name in self.missing:
            self.specs.setdefault(name, self.other_side.specs.get(name) or TensorSpec(name, "float32", ()))
        decimals = [s.decimals for s in self.settled.values() if s.decimals is not None]
        if decimals:
            result.settings["precision"] = min(decimals)
        notes = [f"{self.dump.profile}: {t}: {len(n)}: {_some(n)}" for t, n in self.note_names.items()]
        result.notes = [one_line(note) for note in (*self.dump.notes, *notes)]
        result.missing = {name: one_line(why) for name, why in self.missing.items()}
        return result


def _numpy_dtype(dtype: str) -> str:
    return "float32" if dtype == "bfloat16" else dtype


def _some(names: list[str]) -> str:
    return ", ".join(names[:MAX_SHOWN]) + (" ..." if len(names) > MAX_SHOWN else "")


def _group_by_name(dump: VendorDump) -> dict[str, list[VendorTensor]]:
    """Returns the files of each tensor, by name."""
    groups: dict[str, list[VendorTensor]] = {}
    for tensor in dump.tensors:
        groups.setdefault(tensor.name, []).append(tensor)
    return groups


def _named_tensors(groups: Mapping[str, list[VendorTensor]], others: Collection[str] = ()) -> list[NamedTensor]:
    """Returns the tensors with their possible names. others: names of the other side; the first alias among them counts, that
    of an inserted tensor only if no other tensor has it."""
    names = {n: (n, *g[0].other_names) for n, g in groups.items()}
    taken = {each for found in names.values() for each in found if each in others}
    for inserted in (False, True):
        for name, files in groups.items():
            if files[0].is_inserted != inserted or any(each in others for each in names[name]):
                continue
            free = (a for a in files[0].aliases if a in others and not (inserted and a in taken))
            if alias := next(free, ""):
                names[name] = (*names[name], alias)
                taken.add(alias)
    return [NamedTensor(found, groups[n][0].index) for n, found in names.items()]


def _pair_with_other_side(
    groups: Mapping[str, list[VendorTensor]], other_side: OtherSide, dump: VendorDump
) -> PairedNames:
    if other_side.dump is not None:
        others = _named_tensors(_group_by_name(other_side.dump), groups.keys())
        spelled = common_spelling(dump.respell, other_side.dump.respell)
    else:
        others = [NamedTensor((name,)) for name in other_side.specs]
        spelled = common_spelling(dump.respell, None)
    known = {name for other in others for name in other.names}
    own = _named_tensors(groups, known)
    pairs = pair_names(own, others, spelled, other_side.model)
    if other_side.outputs and other_side.dump is None:
        pair_by_index(pairs, own, other_side.outputs, set(other_side.specs))
    return pairs


def _find_partners(
    groups: Mapping[str, list[VendorTensor]], pairs: PairedNames, other_side: OtherSide
) -> tuple[dict[str, str], dict[str, str]]:
    """Returns, by name in the dump, the names of the other side's and of the model's tensor whose facts count for it: paired by
    --map, by the vendor's spelling, or the only one that it is a rewriting of."""
    others = dict.fromkeys(other_side.specs)
    if other_side.dump is not None:
        others |= dict.fromkeys(t.name for t in other_side.dump.tensors)
    paired = {**pairs.b_of_a, **other_side.names}
    alone = [n for n in groups if n not in paired and n not in pairs.doubtful]
    partners = paired | match_rewritten(alone, [n for n in others if n not in paired.values() and n not in groups])[0]
    unknown = [n for n in groups if partners.get(n) not in other_side.model and n not in other_side.model]
    return partners, partners | match_rewritten(unknown, [n for n in other_side.model if n not in groups])[0]


def _model_spec(name: str, dump: VendorDump, other_side: OtherSide) -> TensorSpec | None:
    """Returns the spec of the model's tensor with this name in the vendor's spelling, or None if there is none or
    several."""
    if name in other_side.model:
        return other_side.model[name]
    spelled = common_spelling(dump.respell, None)
    matches = [spec for model_name, spec in other_side.model.items() if spelled(model_name) == spelled(name)]
    return matches[0] if len(matches) == 1 else None


def _stored_form(model: TensorSpec | None, tensor: VendorTensor, stored: Mapping[str, TensorSpec]) -> TensorSpec | None:
    """Returns the spec of the quantized tensor if the model's tensor has its real values and the file its type: integers under
    the name of an output that is dequantized last."""
    form = stored.get(model.name) if model is not None else None
    if model is None or form is None or form.shape != model.shape or form.dtype not in tensor.dtypes:
        return model
    return replace(form, layout=model.layout)


def _in_dims_of(spec: TensorSpec, model: TensorSpec) -> TensorSpec:
    """Returns the spec with the model's dims, if only dims of 1 are others."""
    same = [d for d in spec.shape if d != 1] == [d for d in model.shape if d != 1]
    if not same or spec.shape == model.shape or len(spec.scale) > 1:
        return spec
    return replace(spec, shape=model.shape, aligned_shape=(), layout=model.layout, channel_axis=-1)


def _sort_by_similarity(tensors: list[VendorTensor], other: TensorSpec | None) -> list[VendorTensor]:
    """Sorts the files of one tensor by similarity to the other side: first files of its dtype, then real values if it
    has real values, or files that may have its dtype if it has integers."""
    real = other is None or other.numpy_dtype.kind == "f"

    def rank(tensor: VendorTensor) -> int:
        stated, same = len(tensor.dtypes) == 1, other is not None and other.dtype in tensor.dtypes
        if stated and same:
            return 0
        return (1 if stated and tensor.dtypes[0].startswith("float") else 2) if real else (1 if same else 2)

    return sorted(tensors, key=rank)


def declared_specs(dump: VendorDump) -> dict[str, TensorSpec]:
    """Returns the specs that a dump states itself, for comparison with the other side. One in blocks of channels is
    left out: the other side states how many channels are valid."""
    specs = {}
    for name, tensors in _group_by_name(dump).items():
        tensor = _sort_by_similarity(tensors, None)[0]
        if len(tensor.dtypes) == 1 and tensor.shape is not None and tensor.layout != BLOCKED:
            spec = TensorSpec(name, _numpy_dtype(tensor.dtypes[0]), tensor.shape, layout=tensor.layout)
            single = len(tensor.scale) == 1
            specs[name] = replace(spec, scale=tensor.scale, zero_point=tensor.zero_point) if single else spec
    return specs


def align_profiles(a: VendorDump, b: VendorDump, exact: bool = False, apart: bool = True) -> None:
    """Prepares two dumps of one profile for comparison: each form of a tensor that both have becomes a separate tensor.
    If neither dump states the dtype, equal bytes count as equal values. exact: whether only equal values pass, so that
    other bytes of integers fail, whatever their type. apart: False to leave the forms files of one tensor, whose type a
    model states."""
    forms = [{n: {t.form for t in g} for n, g in _group_by_name(dump).items()} for dump in (a, b)]
    for dump in (a, b):
        kept = []
        for tensor in dump.tensors:
            both_have = set.intersection(*(f.get(tensor.name, set()) for f in forms))
            if tensor.form in both_have and (apart or len(both_have) == 1):
                label = f"{tensor.name} {tensor.form}" if len(both_have) > 1 else tensor.name
                tensor = replace(tensor, name=label, form="")
            kept.append(tensor)  # a form that the other side lacks is compared with the one it has
        dump.tensors = kept
    if not apart:
        return
    tensors_b = {(t.name, t.form): t for t in b.tensors}
    pairs = [
        (tensor_a, tensors_b[tensor_a.name, tensor_a.form])
        for tensor_a in a.tensors
        if (tensor_a.name, tensor_a.form) in tensors_b
    ]
    equal, other = set[tuple[str, str]](), set[tuple[str, str]]()
    for tensor_a, tensor_b in pairs:
        if _same_unknown_type(tensor_a, tensor_b):
            if tensor_a.read() == tensor_b.read():
                equal.add((tensor_a.name, tensor_a.form))
            elif exact and all("int" in dtype for dtype in tensor_a.dtypes):
                other.add((tensor_a.name, tensor_a.form))
    known = equal | other
    for dump in (a, b) if known else ():
        dump.tensors = [replace(t, dtypes=t.dtypes[:1]) if (t.name, t.form) in known else t for t in dump.tensors]
    for found, text in ((equal, "equal bytes, of any type"), (other, "other bytes, equal in no type; read as signed")):
        if found:
            names = _some(sorted(name for name, _ in found))
            a.notes.append(f"{a.profile}: {count(len(found), 'tensor', 'has', 'have')} {text}: {names}")


def _same_unknown_type(a: VendorTensor, b: VendorTensor) -> bool:
    """Returns True if both have the same shape and neither states its dtype."""
    same = (a.dtypes, a.shape, a.size_bytes) == (b.dtypes, b.shape, b.size_bytes)
    return same and len(a.dtypes) > 1 and a.shape is not None
