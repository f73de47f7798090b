"""The HTTP application over one runtime; a module of its own, since commands and tests both create it."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING

from fastapi import FastAPI

from headrace.api.server_verbs import ServerVerbs
from headrace.api.verbs import Verbs
from headrace.web.answer_routes import answer_routes, explain_routes
from headrace.web.body import BodyAdmission
from headrace.web.change_routes import change_routes
from headrace.web.guard import Guard
from headrace.web.ingest_routes import ingest_routes
from headrace.web.meter import Meter, RequestNumbers
from headrace.web.metrics import make_registry, metrics_routes
from headrace.web.overview_routes import overview_routes
from headrace.web.page import page_routes
from headrace.web.replies import PlainRoutes, add_error_handlers
from headrace.web.sql_routes import sql_routes
from headrace.web.subscription_routes import subscription_routes
from headrace.web.table_routes import table_routes
from headrace.web.tail_routes import tail_routes
from headrace.web.verb_routes import verb_routes

if TYPE_CHECKING:
    from headrace.server.runtime import Runtime
QUESTION_BYTES = 1 << 20


@dataclass(frozen=True)
class Timeouts:
    """Limits on the time of requests, in seconds."""

    headers_s: float = 20.0  # from the first byte of a request, or the connection, to the end of its headers
    body_s: float = 15.0  # for a body, in addition to the time of its bytes at the lowest accepted rate
    wrong_token_s: float = 0.5  # delay before a wrong token is refused, to slow down guessing


TIMEOUTS = Timeouts()


def create_app(runtime: Runtime, timeouts: Timeouts = TIMEOUTS) -> FastAPI:
    """All endpoints. The server sets `app.state.stopping` so that waiting requests end."""
    settings = runtime.workspace.settings
    max_body = settings.max_body_mb << 20
    app = FastAPI(
        title="Headrace",
        version=version("headrace"),
        description="Events in, answers out. Every failure has the shape "
        '`{"error": {"code", "message", "found", "expected", "fix", "where"}}`.',
        docs_url=None,
        redoc_url=None,
    )
    app.state.stopping = False
    app.state.timeouts = timeouts
    plain = [
        ingest_routes(runtime, max_body, BodyAdmission(max(settings.bodies_mb << 20, max_body))),
        answer_routes(runtime, QUESTION_BYTES),
    ]
    for router in plain:
        app.include_router(router)
    verbs = ServerVerbs(runtime)
    letters = (Verbs.dead_letters, Verbs.dead_letter_reasons, Verbs.replay, Verbs.dead_letter)
    versions = (Verbs.versions, Verbs.audits, Verbs.rollback, Verbs.refresh)
    sinks = (Verbs.sinks, Verbs.pause_sink, Verbs.resume_sink, Verbs.retry_sink)
    alerts = (Verbs.alerts, Verbs.silence, Verbs.end_silences, Verbs.end_silence)
    for router in (  # in the order of OpenAPI and docs/http.md
        table_routes(verbs, max_body, QUESTION_BYTES),
        explain_routes(verbs),
        change_routes(verbs),
        sql_routes(verbs, QUESTION_BYTES),
        verb_routes(verbs, "dead letters", *letters),
        tail_routes(runtime),
        subscription_routes(verbs),
        verb_routes(verbs, "versions", *versions),
        verb_routes(verbs, "sinks", *sinks),
        verb_routes(verbs, "alerts", *alerts),
        verb_routes(verbs, "streams", Verbs.skip),
        overview_routes(verbs),
    ):
        app.include_router(router)
    registry = make_registry(verbs)
    app.include_router(metrics_routes(registry))
    app.include_router(page_routes(verbs, timeouts.wrong_token_s))
    add_error_handlers(app)
    app.add_middleware(PlainRoutes, routers=plain)
    app.add_middleware(Guard, host=settings.host, token=settings.token)
    app.add_middleware(Meter, numbers=RequestNumbers(registry))
    return app
