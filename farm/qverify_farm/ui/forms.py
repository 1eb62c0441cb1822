"""The pages that change something: log in, submit, cancel, hand in a bad case."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request
from starlette.responses import Response

from qverify_farm.ui.api_calls import ApiCalls, RefusedError
from qverify_farm.ui.draft_child import draft_in_child
from qverify_farm.ui.page_rendering import check_form, redirect_to, show, visitor
from qverify_farm.work.job_options import JOB_OPTIONS

PIECE_BYTES = 1 << 20
OPEN_PATHS = ("/login", "/logout")  # forms that do not need a session
MAX_FILES, MAX_FIELDS = 1000, 60
_FORM = {keyword: option for keyword, option in JOB_OPTIONS.items() if option.form}
_IS_CHOICE = ("flag", "boolean", "simulator")  # kinds of options that are chosen: default, yes or no
BOOLEAN_OPTIONS = {keyword: option.form for keyword, option in _FORM.items() if option.kind in _IS_CHOICE}
NUMBER_OPTIONS = {keyword: option.form for keyword, option in _FORM.items() if keyword not in BOOLEAN_OPTIONS}
FIELDS: dict[str, Any] = {"numbers": NUMBER_OPTIONS, "choices": BOOLEAN_OPTIONS}
MAX_DESCRIPTION = 20_000  # characters
DESCRIPTION = "description.toml"  # the job's path of it
PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".webp")
CASE_FILES = ("models", "photo", "dump", "capture", "description", "outputs", "device_outputs")
BOARD_ACTIONS = ("drain", "undrain", "check")


async def login_form(request: Request) -> Response:
    return await show(request, "login.html", wrong="")


async def login(request: Request) -> Response:
    async with _checked_form(request) as form:
        token = _text(form, "token", 200)
    try:
        if not token:
            raise RefusedError(401, "type a token")
        cookies = await ApiCalls(request).log_in(token)
    except RefusedError as error:
        return await show(request, "login.html", error.status, wrong=error.text, who={})
    return _with_cookies(redirect_to("/"), cookies)


async def logout(request: Request) -> Response:
    async with _checked_form(request):
        cookies = await ApiCalls(request).log_out()
    return _with_cookies(redirect_to("/login"), cookies)


def _with_cookies(reply: Response, cookies: list[str]) -> Response:
    for cookie in cookies:
        reply.headers.append("set-cookie", cookie)
    return reply


async def submit_form(request: Request) -> Response:
    boards = (await ApiCalls(request).get("/boards"))["boards"]
    given = {"board": request.query_params.get("board", "")[:200]}
    return await show(request, "submit.html", boards=boards, wrong="", given=given, **FIELDS)


async def submit(request: Request) -> Response:
    async with _checked_form(request) as form:
        calls = ApiCalls(request)
        try:
            run = await _submit_verification(form, calls)
        except RefusedError as error:
            boards, given = (await calls.get("/boards"))["boards"], _typed(form)
            if isinstance(error, UndescribedError):
                given["description"] = await _draft_description(_uploads(form, "models"))
            return await show(
                request, "submit.html", error.status, boards=boards, wrong=error.text, given=given, **FIELDS
            )
        return redirect_to(f"/runs/{run}")


class UndescribedError(RefusedError):
    """Raised for pictures without a description; the form is shown again with the draft of one."""

    def __init__(self, text: str):
        super().__init__(422, text)


def _missing_description(models: list[UploadFile], inputs: list[UploadFile], described: str) -> str:
    """Returns what is missing: a description, if inputs are pictures and no model.bin was given, which may have one."""
    pictures = [u.filename or "" for u in inputs if (u.filename or "").lower().endswith(PICTURES)]
    if described or not pictures or any((u.filename or "").endswith(".bin") for u in models):
        return ""
    return (
        f"inputs: {pictures[0]}: a picture needs a description of its bytes; correct the draft below, and send it again"
    )


async def _draft_description(models: list[UploadFile]) -> str:
    """Returns the draft of a description of the model's pictures, or the reason why there is none as a comment."""
    with tempfile.TemporaryDirectory(prefix="qverify-draft-") as folder:
        paths = []
        for number, upload in enumerate(models):
            paths.append(Path(folder, f"{number}-{PurePosixPath(_job_path(upload.filename or '')).name}"))
            with paths[-1].open("wb") as file:
                async for piece in _pieces(upload):
                    file.write(piece)
        return await run_in_threadpool(draft_in_child, paths)


async def _bytes(data: bytes) -> AsyncIterator[bytes]:
    yield data


async def _submit_verification(form: FormData, calls: ApiCalls) -> str:
    """Submits the verification of a form and returns the id of its run."""
    models, inputs = _uploads(form, "models"), _uploads(form, "inputs")
    boards = [item for item in form.getlist("boards") if isinstance(item, str) and item]
    boards += [item.strip() for item in _text(form, "more_boards", 2000).split(",") if item.strip()]
    if not models:
        raise RefusedError(422, "models: choose the quantized ONNX, model.bin, or both")
    if not boards:
        raise RefusedError(422, "boards: choose at least one, or type a tag such as soc=j5")
    if wrong := _missing_description(models, inputs, described := _text(form, "description", MAX_DESCRIPTION)):
        raise UndescribedError(wrong)
    files, paths = await _upload_files(calls, models, "models")
    input_files, input_paths = await _upload_files(calls, inputs, "inputs")
    body: dict[str, Any] = {
        "files": files | input_files,
        "models": paths,
        "inputs": input_paths[0] if len(input_paths) == 1 else ("inputs" if input_paths else ""),
        "boards": list(dict.fromkeys(boards)),
        "options": _options(form),
        "labels": _labels(_text(form, "labels", 2000)),
        "keep_capture": bool(form.get("keep_capture")),
    }
    if described:
        text = described.replace("\r\n", "\n").encode()
        body["files"][DESCRIPTION] = await calls.put_file(_bytes(text), DESCRIPTION)
        body["options"]["description"] = DESCRIPTION
    if name := _text(form, "name", 200):
        body["name"] = name
    return str((await calls.post("/verifications", body))["id"])


def _typed(form: FormData) -> dict[str, Any]:
    """Returns what was typed and chosen in a form, to show it again: `boards` as a list."""
    longest = {"description": MAX_DESCRIPTION}
    given: dict[str, Any] = {k: v[: longest.get(k, 500)] for k, v in form.items() if isinstance(v, str)}
    return given | {"boards": [name for name in form.getlist("boards") if isinstance(name, str)]}


def _options(form: FormData) -> dict[str, Any]:
    collected: dict[str, Any] = {}
    for key in NUMBER_OPTIONS:
        text = _text(form, key, 40)
        try:
            if text:
                collected[key] = int(text) if text.lstrip("-").isdigit() else float(text)
        except ValueError:
            raise RefusedError(422, f"{key}: got {text!r}, wanted a number") from None
    for key in BOOLEAN_OPTIONS:
        text = _text(form, key, 10)
        if text in ("True", "False"):
            collected[key] = text == "True"
    return collected


def _labels(text: str) -> dict[str, str]:
    labels = {}
    for part in filter(None, (item.strip() for item in text.split(","))):
        key, equals, value = part.partition("=")
        if not equals or not key.strip():
            raise RefusedError(422, f"labels: {part[:80]!r}: wanted NAME=VALUE, NAME=VALUE")
        labels[key.strip()] = value.strip()
    return labels


async def run_action(request: Request) -> Response:
    async with _checked_form(request):
        run, action = request.path_params["run"], request.url.path.rpartition("/")[2]
    body = {"why": "cancelled on its page"} if action == "cancel" else {}
    await ApiCalls(request).post(f"/runs/{run}/{action}", body)
    return redirect_to(f"/runs/{run}")


async def board_action(request: Request) -> Response:
    action = request.path_params["action"]
    if action not in BOARD_ACTIONS:
        raise RefusedError(404, "there is no such page")
    async with _checked_form(request) as form:
        board = _text(form, "board", 200)
    await ApiCalls(request).post(f"/boards/{quote(board, safe='')}/{action}", {} if action == "drain" else None)
    return redirect_to("/")


async def bad_case_form(request: Request) -> Response:
    return await show(request, "bad_case.html", wrong="", given={})


async def bad_case(request: Request) -> Response:
    async with _checked_form(request) as form:
        try:
            run = await _submit_bad_case(form, ApiCalls(request))
        except RefusedError as error:
            return await show(request, "bad_case.html", error.status, wrong=error.text, given=_typed(form))
        return redirect_to(f"/runs/{run}")


async def _submit_bad_case(form: FormData, calls: ApiCalls) -> str:
    """Submits the bad case of a form and returns the id of its run."""
    parts = {key: _uploads(form, key) for key in CASE_FILES}
    has_outputs = bool(parts["device_outputs"])
    if has_outputs and not (parts["outputs"] or parts["capture"] or parts["dump"]):
        raise RefusedError(422, "give the network's outputs, a capture or the board's dump beside the device's outputs")
    if not has_outputs and not parts["capture"] and not (parts["models"] and parts["dump"]):
        raise RefusedError(422, "give a capture, or the models together with the board's dump")
    files: dict[str, str] = {}
    body: dict[str, Any] = {"kind": "bad-case", "note": _text(form, "note", 500)}
    for key, uploads in parts.items():
        added, paths = await _upload_files(calls, uploads, key)
        files |= added
        if key == "models":
            body["models"] = paths
        elif key == "photo" and paths:
            body["inputs"] = paths[0] if len(paths) == 1 else key
        elif paths:
            body[key] = paths[0] if len(paths) == 1 and key != "capture" else f"{key}/"
    for key in ("decoder", "written"):
        if value := _text(form, key, 500):
            body[key] = value
    if name := _text(form, "name", 200):
        body["name"] = name
    body |= {"files": files, "labels": _labels(_text(form, "labels", 2000))}
    return str((await calls.post("/triages", body))["id"])


async def _upload_files(calls: ApiCalls, uploads: list[UploadFile], folder: str) -> tuple[dict[str, str], list[str]]:
    """Stores uploaded files under a folder of the job. Returns the SHA-256 by path, and the list of paths."""
    collected: dict[str, str] = {}
    for number, upload in enumerate(uploads):
        name = _job_path(upload.filename or "")
        path = f"{folder}/{name}" if f"{folder}/{name}" not in collected else f"{folder}/{number}-{name}"
        collected[path] = await calls.put_file(_pieces(upload), name)
    return collected, list(collected)


def _job_path(file_name: str) -> str:
    """Returns the job's path for an uploaded file: its path below the chosen folder, or its name, with illegal characters
    replaced."""
    parts = [item for item in PurePosixPath(file_name.replace("\\", "/")).parts if item not in ("/", ".", "..")]
    below = parts[1:] if len(parts) > 1 else parts
    clean = ["".join("_" if c in ",:" or not c.isprintable() else c for c in item)[:120] for item in below[:4]]
    return "/".join(clean) or "file"


async def _pieces(upload: UploadFile) -> AsyncIterator[bytes]:
    while piece := await upload.read(PIECE_BYTES):
        yield piece


def _uploads(form: FormData, key: str) -> list[UploadFile]:
    return [item for item in form.getlist(key) if isinstance(item, UploadFile) and item.filename]


def _text(form: FormData, key: str, max_length: int) -> str:
    value = form.get(key)
    return value.strip()[:max_length] if isinstance(value, str) else ""


@asynccontextmanager
async def _checked_form(request: Request) -> AsyncIterator[FormData]:
    """Yields the fields of a form. Its files are temporary and are removed after the `with` block. Raises RefusedError, before
    the form is read, for a visitor who may not send it, and for a form that is not from this service's pages."""
    user = await visitor(request) if request.url.path not in OPEN_PATHS else {"role": "submitter"}
    if user is None:
        raise RefusedError(401, "log in first: nobody is logged in here, or the session has ended")
    if user["role"] == "viewer":
        raise RefusedError(403, "your token may look, not submit; the administrator makes one that may")
    async with request.form(max_files=MAX_FILES, max_fields=MAX_FIELDS) as form:
        check_form(request, form)
        yield form
