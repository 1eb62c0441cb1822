"""Makes the requests of `qverify compare` and `qverify replay`."""

from __future__ import annotations

from qverify_agents.worker import RUNTIMES

from qverify.capture.reader import is_capture
from qverify.compare.options import Options
from qverify.errors import OptionsError
from qverify.inputs.description_tables import read_description
from qverify.options.given import Given
from qverify.session.models import parse_shapes
from qverify.session.offline.dump_pair import DumpPair, dtypes
from qverify.session.offline.rejudge import RejudgeRequest
from qverify.session.offline.replay_bundle import ReplayRequest
from qverify.session.requests.judging import read_judging
from qverify.session.requests.sides import read_link
from qverify.vendor_files.vendor_dump import ReadingOptions


def compare_request(given: Given) -> tuple[DumpPair, Options]:
    """Returns the dumps, and how they are compared. Raises OptionsError for options that exclude each other."""
    roles = read_description(given["description"])[1].get("outputs", {}) if given["description"] is not None else {}
    options, side, profile = read_judging(given, roles), given["side"], given["profile"]
    reading = ReadingOptions(dtypes(given["dtype"]), side, given["frame"], given["layer_info"], given["layout"] or "")
    if given["outputs_only"] and options.dump_all:
        raise OptionsError("--outputs-only and -r True contradict each other; give one")
    b, sides = given["b"], (given["side_a"] or side, given["side_b"] or side)
    dumps = DumpPair(
        given["a"],
        b or given["a"],
        given["model"],
        given["profile_a"] or profile,
        given["profile_b"] or profile,
        reading,
        given["outputs_only"] or ("dump_all" in options.named and not options.dump_all),
        *sides,
        given["arithmetic"],
        given["quantization"],
        given["names"],
        shapes=parse_shapes(given["shapes"]),
        every_frame="frame" not in given.named,
    )
    if dumps.shapes and given["model"] is None:
        raise OptionsError("--shape gives the dims of a dynamic ONNX; give that: -m quant.onnx")
    if b is None and (any(sides) or given["profile_b"]):
        raise OptionsError(
            "--side and --profile-b choose between two dumps; compare DIR takes every side of the folder"
        )
    return dumps, options


def replay_request(given: Given) -> RejudgeRequest | ReplayRequest:
    """Returns the request to judge a capture, or a bundle, again. Raises OptionsError for options of the other one."""
    options, folder, run_sim = read_judging(given), given["folder"], given["run_sim"]
    deadline_s, reach = read_link(given)
    paths = [p for p in (given["models"] or "").split(",") if p]
    board, runtime = given["board"], given["runtime"]
    if not is_capture(folder):
        if given["rerun"] or board:
            raise OptionsError(f"{folder}: not a capture (it has no capture.json), which --rerun and -b need")
        return ReplayRequest(folder, given["dump"], paths, run_sim, options)
    if given["dump"]:
        raise OptionsError("--dump is for a bundle of qverify pack; a capture contains its board's tensors")
    rerun = tuple(side for side in (given["rerun"] or "").split(",") if side)
    if runtime in RUNTIMES:
        reach["runtime"] = runtime
    return RejudgeRequest(folder, options, rerun, board, run_sim, tuple(paths), deadline_s, reach, runtime)
