"""Reads the inputs, the task that is measured on them, the sequence, and a dump in the board's place."""

from __future__ import annotations

from qverify.errors import OptionsError
from qverify.inputs.description_tables import read_description
from qverify.inputs.sources import InputRequest
from qverify.options.commands import IN_PLACE
from qverify.options.given import Given
from qverify.sequences.sequence_request import SequenceRequest, sequence_request
from qverify.session.request import BoardDump
from qverify.session.task.task_request import TaskRequest


def read_inputs(given: Given) -> InputRequest:
    """Returns the request for inputs. Raises OptionsError for areas without pictures, and for an area that is given twice."""
    files, description, rois = given["files"], given["description"], given["rois"]
    if files == "":
        raise OptionsError("an empty -i (an unset shell variable?)")
    descriptions, stated = read_description(description) if description is not None else ({}, {})
    outputs, decoder = (stated.pop(name, {}) for name in ("outputs", "decoder"))
    loop, named = {**stated, "path": description} if stated else {}, set[str]()
    for roi in rois:
        name, _, area = roi.rpartition(":")
        if name in named:
            raise OptionsError(f"--roi {roi}: given twice for {name or 'every input'}")
        named.add(name)
        descriptions[name] = {**descriptions.get(name, {}), "roi": area}
    if rois and files is None:
        raise OptionsError("--roi is a part of a picture; give -i")
    words = [*(["--description", description] if description else []), *(w for r in rois for w in ("--roi", r))]
    return InputRequest(
        files, given["seed"], descriptions, words=tuple(words), loop=loop, outputs=outputs, decoder=decoder
    )


def read_task(given: Given) -> TaskRequest | None:
    """Returns the request for task numbers; None without one."""
    kind, labels, decoder, metric = (given[name] for name in ("task_kind", "labels", "decoder", "task_metric"))
    asked = {"--task": kind, "--labels": labels, "--task-metric": metric}
    if labels == "" or metric == "":
        raise OptionsError("an empty --labels or --task-metric (an unset shell variable?)")
    if kind == "" or decoder == "":
        raise OptionsError("got an empty --task or --decoder (an unset shell variable?)")
    if not any(asked.values()):
        if decoder:
            raise OptionsError("--decoder reads outputs for --task; give --task KIND and --labels")
        return None
    if kind and metric is not None:
        raise OptionsError("--task and --task-metric are both given; give one")
    if decoder and not kind:
        raise OptionsError("--decoder reads outputs for --task; give --task KIND")
    if given["files"] is None:
        flag = next(name for name, value in asked.items() if value)
        raise OptionsError(f"{flag} is about frames; give them with -i (a file, a folder or a list)")
    return TaskRequest(labels, metric, None, kind or "", decoder or "")


def read_sequence(given: Given, inputs: InputRequest) -> SequenceRequest | None:
    """Returns the request for a sequence; None without --steps."""
    kept = given.get("snapshot") or "", given["from_snapshot"]
    return sequence_request(given["steps"], given["feed"], given["decode"], inputs.loop, *kept)


def read_dump(given: Given, path: str | None) -> BoardDump | None:
    """Returns the dump in the board's place. path: that of the dump; None without one, and then an option that says how it is
    read is refused."""
    if path is None:
        if option := next((o.flag for o in IN_PLACE if given[o.name]), ""):
            raise OptionsError(
                f"{option} says how a dump in the board's place is read, and -m has none; give -m MODEL,DUMP without -b"
            )
        return None
    from qverify.session.offline.dump_pair import dtypes
    from qverify.vendor_files.vendor_dump import ReadingOptions

    reading = ReadingOptions(
        dtypes(given["dtype"]), given["side"], given["frame"], given["layer_info"], given["layout"] or ""
    )
    return BoardDump(path, given["profile"], reading, given["names"])
