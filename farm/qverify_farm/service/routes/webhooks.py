"""Routes of webhooks: URLs that are called when the verdict of a suite changes."""

from __future__ import annotations

import secrets
import time
import uuid

from fastapi import APIRouter
from sqlalchemy import func, select

from qverify_farm.service.access import ADMIN, Scoped
from qverify_farm.service.error_replies import error_responses
from qverify_farm.service.errors import ApiError, not_found
from qverify_farm.service.farm import add_audit
from qverify_farm.service.schemas.lab import Done, NewWebhook, WebhookMade, Webhooks, WebhookShort
from qverify_farm.service.schemas.texts import IdPath
from qverify_farm.service.webhook_sender import check_url
from qverify_farm.store.tables import WebhookRecord

router = APIRouter(prefix="/webhooks", tags=["webhooks"], responses=error_responses(), dependencies=[ADMIN])
MAX_WEBHOOKS = 50  # per project


@router.post("", status_code=201, responses=error_responses(409), summary="Add a webhook")
def post_webhook(scope: Scoped, body: NewWebhook) -> WebhookMade:
    """The secret is shown only in this reply. Each body is signed with it: X-QVerify-Signature: sha256=HMAC."""
    check_url(body.url, scope.farm.settings.private_webhooks)
    row = WebhookRecord(
        id=uuid.uuid4().hex,
        project=scope.project,
        url=body.url,
        secret=secrets.token_urlsafe(32),
        suite=body.suite,
        created=time.time(),
        last_status="",
    )
    with scope.farm.database.write() as session:
        query = select(func.count()).select_from(WebhookRecord).where(WebhookRecord.project == scope.project)
        if int(session.scalar(query) or 0) >= MAX_WEBHOOKS:
            raise ApiError(409, f"the project has {MAX_WEBHOOKS} webhooks", next="delete one")
        session.add(row)
        add_audit(session, scope.caller, scope.request, "webhook.create", scope.project, webhook=row.id, url=body.url)
    return WebhookMade(secret=row.secret, **_webhook_reply(row).model_dump())


@router.get("", summary="The project's webhooks")
def list_webhooks(scope: Scoped) -> Webhooks:
    """The secrets are left out."""
    with scope.farm.database.read() as session:
        rows = session.scalars(
            select(WebhookRecord)
            .where(WebhookRecord.project == scope.project)
            .order_by(WebhookRecord.created, WebhookRecord.id)
        ).all()
    return Webhooks(webhooks=[_webhook_reply(row) for row in rows])


@router.delete("/{webhook}", summary="Delete a webhook")
def delete_webhook(scope: Scoped, webhook: IdPath) -> Done:
    """The URL is not called any more."""
    with scope.farm.database.write() as session:
        row = session.get(WebhookRecord, webhook)
        if row is None or row.project != scope.project:
            raise not_found("webhook", webhook)
        session.delete(row)
        add_audit(session, scope.caller, scope.request, "webhook.delete", scope.project, webhook=webhook)
    return Done()


def _webhook_reply(row: WebhookRecord) -> WebhookShort:
    return WebhookShort(**{name: getattr(row, name) for name in WebhookShort.model_fields})
