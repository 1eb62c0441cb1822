"""Bad cases with forged files, handed in at the API and on the page, over the ladder itself: each ends in a verdict with a
reason or in a refusal, never in PASSED, never in an error of the service."""

from __future__ import annotations

import hashlib
import io
import json
import re
import struct
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from qverify.cli.main import main

from tests.farm.served import BOARDS, CULPRIT, MODEL, serving

WAIT_S = 120
Files = dict[str, bytes]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with (
        serving(tmp_path_factory.mktemp("farm")) as (url, _),
        httpx.Client(base_url=url, timeout=60) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """The files of a capture of a wrong board."""
    folder = tmp_path_factory.mktemp("run") / "case"
    assert main(["-m", MODEL, "-b", BOARDS["wrong"], "-r", "True", "-q", "--capture", str(folder)]) == 1
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }


@pytest.fixture(scope="module")
def tensors(tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    """Returns the bytes that a correct device dumps for the input `x.npy` of dump_case()."""
    folder = tmp_path_factory.mktemp("dump")
    np.save(folder / "x.npy", PICTURE)
    words = ["-m", MODEL, "-i", str(folder / "x.npy"), "--side", "reference", "-o", str(folder / "out")]
    assert main(["infer", *words]) == 0
    names = json.loads((folder / "out" / "manifest.json").read_text())["tensors"]
    return {name: np.load(folder / "out" / file) for file, name in names.items()}


PICTURE = np.random.default_rng(19).random((1, 1, 8, 8), np.float32)


def submitted(client: httpx.Client, files: Files, **body: Any) -> dict[str, Any]:
    """Submits a bad case to the API, waits for its end, and returns its job."""
    digests = {}
    for path, data in files.items():
        digests[path] = hashlib.sha256(data).hexdigest()
        assert client.put(f"/api/v1/artifacts/{digests[path]}", content=data).status_code == 201
    reply = client.post("/api/v1/triages", json={"kind": "bad-case", "files": digests, **body})
    assert reply.status_code == 201, reply.text
    return ended(client, str(reply.json()["id"]))


def ended(client: httpx.Client, run: str) -> dict[str, Any]:
    """Waits for the end of a run, checks that its pages show the verdict, and returns its only job."""
    end = time.monotonic() + WAIT_S
    while client.get(f"/api/v1/runs/{run}").json()["state"] == "running":
        assert time.monotonic() < end
        time.sleep(0.05)
    (job,) = client.get(f"/api/v1/runs/{run}/jobs").json()["jobs"]
    for path in (f"/runs/{run}", f"/jobs/{job['id']}", "/inbox"):
        page = client.get(path)
        assert page.status_code == 200 and job["verdict"] in page.text, path
    if job["report"]:
        for path in ("report", "page"):
            told = client.get(f"/api/v1/jobs/{job['id']}/{path}")
            assert told.status_code == 200 and "/triage/trees/" not in told.text, path
    return dict(job)


def check_refused(client: httpx.Client, job: dict[str, Any], words: str) -> None:
    """Checks that a job is not PASSED, has a reason of one line without details of this host, and that the service is alive."""
    assert job["verdict"] in ("FAILED", "INCONCLUSIVE"), job
    assert re.search(words, job["why"]), job["why"]
    assert not re.search(r"/tmp|/root|/home|Traceback|internal error|\n", job["why"]), job["why"]
    assert client.get("/health").json()["alive"]


# captures


def with_manifest(change: Callable[[dict[str, Any]], object]) -> Callable[[Files], None]:
    def altered(files: Files) -> None:
        held = json.loads(files["capture.json"])
        change(held)
        files["capture.json"] = json.dumps(held).encode()

    return altered


def side_of(held: dict[str, Any], number: int) -> dict[str, Any]:
    return dict(held["frames"][0]["sides"][number])


def claim_the_reference_s_digest(held: dict[str, Any]) -> None:
    side_of(held, 2)["tensors"][CULPRIT][1] = side_of(held, 0)["tensors"][CULPRIT][1]


def claim_it_for_the_bytes_too(held: dict[str, Any]) -> None:
    claim_the_reference_s_digest(held)
    part, digest = side_of(held, 2)["tensors"][CULPRIT]
    held["parts"][part][3] = digest


def claim_loose_gates(held: dict[str, Any]) -> None:
    loose = {"atol": 1e9, "rtol": 1e9, "max_lsb": 255, "min_cosine": -1.0, "strict": False, "compare_digits": 0}
    held["command"].update(loose, gate="atol=1e9", gates={"simulator~board": "atol=1e9"}, nodes=["prob"])
    for side in held["frames"][0]["sides"]:
        side["settings"].update({"precision": -300, "runtime": "other", **loose})


def swap_bytes(files: Files) -> None:
    data = bytearray(files["parts.zst"])
    data[-1] ^= 1
    files["parts.zst"] = bytes(data)


def cut_bytes(files: Files) -> None:
    files["parts.zst"] = files["parts.zst"][:100]


def bomb(files: Files) -> None:
    """The board's tensor is a zstd frame with a declared size of gigabytes."""
    held = json.loads(files["capture.json"])
    part = held["parts"][side_of(held, 2)["tensors"][CULPRIT][0]]
    frame = struct.pack("<IBQ", 0xFD2FB528, 0xE0, 1 << 40) + bytes(40)
    part[0], part[1] = len(files["parts.zst"]), len(frame)
    files["parts.zst"] += frame
    files["capture.json"] = json.dumps(held).encode()


def climb(held: dict[str, Any]) -> None:
    held["models"][0]["file"] = "../../../../../../etc/passwd"


def another_model(files: Files) -> None:
    name = next(one for one in files if one.endswith(".bin"))
    files[name] = files[name][:-1] + bytes([files[name][-1] ^ 1])


def nested(files: Files) -> None:
    files["capture.json"] = b"[" * 200_000


def without_manifest(files: Files) -> None:
    del files["capture.json"]


FORGED: dict[str, tuple[Callable[[Files], None], str]] = {
    "digests of the reference": (with_manifest(claim_the_reference_s_digest), r"."),
    "digests of the reference for bytes of the board": (with_manifest(claim_it_for_the_bytes_too), r"."),
    "looser gates": (with_manifest(claim_loose_gates), r"."),
    "changed bytes": (swap_bytes, r"."),
    "missing bytes": (cut_bytes, r"part \d+|cut off|is not what was captured"),
    "a bomb": (bomb, r"."),
    "a path outside": (with_manifest(climb), r"not a manifest of qverify\.capture/1"),
    "another model": (another_model, r"is not what was captured"),
    "nesting": (nested, r"not a manifest"),
    "no manifest": (without_manifest, r"capture\.json is missing"),
}


@pytest.mark.parametrize("how", FORGED)
def test_a_forged_capture_does_not_pass(how: str, service: httpx.Client, captured: Files) -> None:
    change, words = FORGED[how]
    files = dict(captured)
    change(files)
    given = {f"capture/{path}": data for path, data in files.items()}
    check_refused(service, submitted(service, given, capture="capture/"), words)


def test_a_true_capture_fails_with_its_culprit_however_loose_its_settings(
    service: httpx.Client, captured: Files
) -> None:
    for change in (lambda _: None, with_manifest(claim_loose_gates)):
        files = dict(captured)
        change(files)
        job = submitted(service, {f"capture/{path}": data for path, data in files.items()}, capture="capture/")
        assert (job["verdict"], job["blame_side"], job["blame_node"]) == ("FAILED", "board", CULPRIT), job


# dumps


def npz(held: dict[str, np.ndarray]) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **held)  # type: ignore[arg-type]
    return stream.getvalue()


def dump_case(client: httpx.Client, dump: bytes, name: str = "dump.npz") -> dict[str, Any]:
    stream = io.BytesIO()
    np.save(stream, PICTURE)
    files = {"m.onnx": Path(MODEL).read_bytes(), "x.npy": stream.getvalue(), name: dump}
    return submitted(client, files, models=["m.onnx"], inputs="x.npy", dump=name)


def of_wrong_size(held: dict[str, np.ndarray]) -> bytes:
    return npz({**held, CULPRIT: held[CULPRIT].reshape(-1)[:-1]})


def of_no_output(held: dict[str, np.ndarray]) -> bytes:
    return npz({CULPRIT: held[CULPRIT]})


def of_nan(held: dict[str, np.ndarray]) -> bytes:
    return npz({name: np.full(value.shape, np.nan, np.float32) for name, value in held.items()})


def of_nothing(held: dict[str, np.ndarray]) -> bytes:
    return npz({})


def zip_bomb(held: dict[str, np.ndarray]) -> bytes:
    """A small archive with a member that declares an array of 2 GB and unpacks to 128 MB of zeros."""
    stream = io.BytesIO()
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "|i1", "fortran_order": False, "shape": (1 << 31,)})
    with (
        zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open(f"{CULPRIT}.npy", "w", force_zip64=True) as member,
    ):
        member.write(header.getvalue())
        for _ in range(128):
            member.write(bytes(1 << 20))
    return stream.getvalue()


def climbing_names(held: dict[str, np.ndarray]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, value in held.items():
            member = io.BytesIO()
            np.save(member, value)
            archive.writestr(f"../../../../tmp/qverify-climbed/{name}.npy", member.getvalue())
    return stream.getvalue()


def pickled(held: dict[str, np.ndarray]) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **{CULPRIT: np.array([{"a": 1}], dtype=object)})
    return stream.getvalue()


DUMPS: dict[str, tuple[Callable[[dict[str, np.ndarray]], bytes], str]] = {
    "a wrong size": (of_wrong_size, r"."),
    "no output": (of_no_output, r"."),
    "NaN": (of_nan, r"."),
    "nothing": (of_nothing, r"."),
    "a zip bomb": (zip_bomb, r"."),
    "paths outside": (climbing_names, r"."),
    "a pickle": (pickled, r"."),
    "no archive": (lambda _: b"PK\x03\x04" + bytes(64), r"."),
}


@pytest.mark.parametrize("how", DUMPS)
def test_a_forged_dump_does_not_pass(how: str, service: httpx.Client, tensors: dict[str, np.ndarray]) -> None:
    make, words = DUMPS[how]
    check_refused(service, dump_case(service, make(tensors)), words)
    assert not Path("/tmp/qverify-climbed").exists()


def test_a_correct_dump_passes(service: httpx.Client, tensors: dict[str, np.ndarray]) -> None:
    job = dump_case(service, npz(tensors))
    assert job["verdict"] == "PASSED", job


# what the API and the page refuse at once


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../x", "a//x", "a\\..\\x", "a:b", "a,b", "\0", "."])
def test_a_path_outside_is_refused_by_the_api(path: str, service: httpx.Client) -> None:
    sha256 = hashlib.sha256(b"x").hexdigest()
    assert service.put(f"/api/v1/artifacts/{sha256}", content=b"x").status_code == 201
    for body in (
        {"files": {path: sha256}, "models": [path]},
        {"files": {"m.onnx": sha256}, "models": ["m.onnx"], "dump": path},
        {"files": {"capture/x": sha256}, "capture": path},
        {"files": {"m.onnx": sha256}, "models": ["m.onnx"], "inputs": path},
    ):
        reply = service.post("/api/v1/triages", json=body)
        assert reply.status_code == 422 and "error" in reply.json(), (body, reply.text)


def test_the_page_accepts_a_forged_case_with_hostile_names_and_shows_its_result(
    service: httpx.Client, captured: Files, tensors: dict[str, np.ndarray]
) -> None:
    service.get("/inbox/new")
    token = {"form_token": service.cookies["qverify_form"], "name": "<b>../../x</b>"}
    forged = dict(captured)
    swap_bytes(forged)
    capture = [("capture", (f"../../case/../{path}", data)) for path, data in forged.items()]
    dump = [
        ("models", ("..\\..\\m.onnx", Path(MODEL).read_bytes())),
        ("dump", ("/etc/cron.d/dump.npz", of_wrong_size(tensors))),
    ]
    for files in (capture, dump):
        reply = service.post("/inbox/new", data=token, files=files, follow_redirects=False)
        assert reply.status_code == 303, reply.text
        job = ended(service, reply.headers["location"].rpartition("/")[2])
        check_refused(service, job, r".")
        assert "<b>" not in service.get("/inbox").text.partition("<main")[2]
    assert not Path("/etc/cron.d/dump.npz").exists()


def test_an_incomplete_case_is_refused_on_the_page(service: httpx.Client) -> None:
    service.get("/inbox/new")
    token = {"form_token": service.cookies["qverify_form"]}
    for files, words in (
        ([("dump", ("d.npz", b"x"))], "give a capture, or the models"),
        ([("capture", ("c", b"x")), ("models", ("m", b"x"))], "wanted it alone"),
    ):
        reply = service.post("/inbox/new", data=token, files=files, follow_redirects=False)
        assert reply.status_code == 422 and words in reply.text, reply.text
