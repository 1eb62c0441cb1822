"""The pages that change something: login, submit, cancel, a bad case handed in."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import PurePosixPath
from typing import Any

from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request
from starlette.responses import Response

from qverify_farm.ui.calls import Calls, RefusedError
from qverify_farm.ui.pages import check_form, go, show, visitor

PIECE = 1 << 20
OPEN = ("/login", "/logout")  # forms that everybody may send
MOST_FILES, MOST_FIELDS = 1000, 60
NUMBERS = ("compare_digits", "repeat", "seed", "atol", "rtol", "min_cosine", "max_lsb")
CHOICES = ("dump_all_nodes_results", "run_sim", "strict", "paranoid")


async def login_form(request: Request) -> Response:
    return await show(request, "login.html", wrong="")


async def login(request: Request) -> Response:
    async with _form(request) as form:
        token = _text(form, "token", 200)
    try:
        if not token:
            raise RefusedError(401, "type a token")
        cookies = await Calls(request).log_in(token)
    except RefusedError as error:
        return await show(request, "login.html", error.status, wrong=error.text, who={})
    return _with_cookies(go("/"), cookies)


async def logout(request: Request) -> Response:
    async with _form(request):
        cookies = await Calls(request).log_out()
    return _with_cookies(go("/login"), cookies)


def _with_cookies(reply: Response, cookies: list[str]) -> Response:
    for cookie in cookies:
        reply.headers.append("set-cookie", cookie)
    return reply


async def submit_form(request: Request) -> Response:
    boards = (await Calls(request).get("/boards"))["boards"]
    given = {"board": request.query_params.get("board", "")[:200]}
    return await show(request, "submit.html", boards=boards, wrong="", given=given)


async def submit(request: Request) -> Response:
    async with _form(request) as form:
        calls = Calls(request)
        try:
            run = await _submitted(form, calls)
        except RefusedError as error:
            boards = (await calls.get("/boards"))["boards"]
            given = {key: value[:500] for key, value in form.items() if isinstance(value, str)}
            return await show(request, "submit.html", error.status, boards=boards, wrong=error.text, given=given)
        return go(f"/runs/{run}")


async def _submitted(form: FormData, calls: Calls) -> str:
    """Returns the id of the run that the form asks for."""
    models, inputs = _uploads(form, "models"), _uploads(form, "inputs")
    boards = [one for one in form.getlist("boards") if isinstance(one, str) and one]
    boards += [one.strip() for one in _text(form, "more_boards", 2000).split(",") if one.strip()]
    if not models:
        raise RefusedError(422, "models: choose the quantized ONNX, model.bin, or both")
    if not boards:
        raise RefusedError(422, "boards: choose at least one, or type a tag such as soc=j5")
    files, paths = await _stored(calls, models, "models")
    fed, fed_paths = await _stored(calls, inputs, "inputs")
    body: dict[str, Any] = {
        "files": files | fed,
        "models": paths,
        "inputs": fed_paths[0] if len(fed_paths) == 1 else ("inputs" if fed_paths else ""),
        "boards": list(dict.fromkeys(boards)),
        "options": _options(form),
        "labels": _labels(_text(form, "labels", 2000)),
        "keep_capture": bool(form.get("keep_capture")),
    }
    if name := _text(form, "name", 200):
        body["name"] = name
    return str((await calls.post("/verifications", body))["id"])


def _options(form: FormData) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key in NUMBERS:
        text = _text(form, key, 40)
        try:
            if text:
                found[key] = int(text) if text.lstrip("-").isdigit() else float(text)
        except ValueError:
            raise RefusedError(422, f"{key}: got {text!r}, wanted a number") from None
    for key in CHOICES:
        text = _text(form, key, 10)
        if text in ("True", "False"):
            found[key] = text == "True"
    return found


def _labels(text: str) -> dict[str, str]:
    labels = {}
    for part in filter(None, (one.strip() for one in text.split(","))):
        key, equals, value = part.partition("=")
        if not equals or not key.strip():
            raise RefusedError(422, f"labels: {part[:80]!r}: wanted NAME=VALUE, NAME=VALUE")
        labels[key.strip()] = value.strip()
    return labels


async def run_action(request: Request) -> Response:
    async with _form(request):
        run, action = request.path_params["run"], request.url.path.rpartition("/")[2]
    body = {"why": "cancelled on its page"} if action == "cancel" else {}
    await Calls(request).post(f"/runs/{run}/{action}", body)
    return go(f"/runs/{run}")


async def bad_case_form(request: Request) -> Response:
    return await show(request, "bad_case.html", wrong="", given={})


async def bad_case(request: Request) -> Response:
    async with _form(request) as form:
        try:
            run = await _handed_in(form, Calls(request))
        except RefusedError as error:
            given = {key: value[:500] for key, value in form.items() if isinstance(value, str)}
            return await show(request, "bad_case.html", error.status, wrong=error.text, given=given)
        return go(f"/runs/{run}")


async def _handed_in(form: FormData, calls: Calls) -> str:
    """Returns the id of the run that looks for the cause."""
    parts = {key: _uploads(form, key) for key in ("models", "photo", "dump", "capture", "description")}
    if not parts["capture"] and not (parts["models"] and parts["dump"]):
        raise RefusedError(422, "give a capture, or the models together with the board's dump")
    files: dict[str, str] = {}
    body: dict[str, Any] = {"kind": "bad-case", "note": _text(form, "note", 500)}
    for key, uploads in parts.items():
        added, paths = await _stored(calls, uploads, key)
        files |= added
        if key == "models":
            body["models"] = paths
        elif key == "photo" and paths:
            body["inputs"] = paths[0] if len(paths) == 1 else key
        elif paths:
            body[key] = paths[0] if len(paths) == 1 and key != "capture" else f"{key}/"
    if name := _text(form, "name", 200):
        body["name"] = name
    body |= {"files": files, "labels": _labels(_text(form, "labels", 2000))}
    return str((await calls.post("/triages", body))["id"])


async def _stored(calls: Calls, uploads: list[UploadFile], folder: str) -> tuple[dict[str, str], list[str]]:
    """Returns SHA-256 by path, and the paths, of files that were uploaded to a folder of the job."""
    found: dict[str, str] = {}
    for number, upload in enumerate(uploads):
        name = _name(upload.filename or "")
        path = f"{folder}/{name}" if f"{folder}/{name}" not in found else f"{folder}/{number}-{name}"
        found[path] = await calls.put_file(_pieces(upload), name)
    return found, list(found)


def _name(given: str) -> str:
    """Returns the path of a file below the folder that was chosen, or its name; without what a job's path cannot have."""
    parts = [one for one in PurePosixPath(given.replace("\\", "/")).parts if one not in ("/", ".", "..")]
    below = parts[1:] if len(parts) > 1 else parts
    clean = ["".join("_" if c in ",:" or not c.isprintable() else c for c in one)[:120] for one in below[:4]]
    return "/".join(clean) or "file"


async def _pieces(upload: UploadFile) -> AsyncIterator[bytes]:
    while piece := await upload.read(PIECE):
        yield piece


def _uploads(form: FormData, key: str) -> list[UploadFile]:
    return [one for one in form.getlist(key) if isinstance(one, UploadFile) and one.filename]


def _text(form: FormData, key: str, most: int) -> str:
    value = form.get(key)
    return value.strip()[:most] if isinstance(value, str) else ""


@asynccontextmanager
async def _form(request: Request) -> AsyncIterator[FormData]:
    """Yields the fields of a form of our own; its files lie in temporary ones, which end with the block. RefusedError for
    any other form, and, before anything of it is read, for who may not send one."""
    who = await visitor(request) if request.url.path not in OPEN else {"role": "submitter"}
    if who is None:
        raise RefusedError(401, "log in first: nobody is logged in here, or the session has ended")
    if who["role"] == "viewer":
        raise RefusedError(403, "your token may look, not submit; the administrator makes one that may")
    async with request.form(max_files=MOST_FILES, max_fields=MOST_FIELDS) as form:
        check_form(request, form)
        yield form
