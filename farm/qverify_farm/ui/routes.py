"""The routes of the pages."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.routing import Route

from qverify_farm.ui import forms, views
from qverify_farm.ui.api_calls import RefusedError
from qverify_farm.ui.page_rendering import refusal_page

UPLOAD_PATHS = ("/submit", "/inbox/new")  # routes of forms with files


def add_pages(app: FastAPI) -> None:
    """Adds the pages to the application of the service."""
    get, post = ["GET"], ["POST"]
    table = [
        ("/", views.boards, get),
        ("/boards/{action}", forms.board_action, post),
        ("/runs", views.runs, get),
        ("/runs/{run}", views.run, get),
        ("/runs/{run}/cancel", forms.run_action, post),
        ("/runs/{run}/resume", forms.run_action, post),
        ("/jobs/{job}", views.job, get),
        ("/history", views.history, get),
        ("/matrix", views.matrix, get),
        ("/compare", views.compare, get),
        ("/inbox", views.inbox, get),
        ("/inbox/new", forms.bad_case_form, get),
        ("/inbox/new", forms.bad_case, post),
        ("/submit", forms.submit_form, get),
        ("/submit", forms.submit, post),
        ("/login", forms.login_form, get),
        ("/login", forms.login, post),
        ("/logout", forms.logout, post),
        ("/static/{name}", views.static, get),
    ]
    for path, page, methods in table:
        app.router.routes.append(Route(path, page, methods=methods, include_in_schema=False))
    app.add_exception_handler(RefusedError, refusal_page)
