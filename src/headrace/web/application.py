"""The HTTP application over one runtime; a module of its own, since commands and tests both create it."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING

from fastapi import FastAPI

from headrace.web.alert_routes import alert_routes
from headrace.web.answer_routes import answer_routes, explain_routes
from headrace.web.body import BodyAdmission
from headrace.web.change_routes import change_routes
from headrace.web.dead_letter_routes import dead_letter_routes
from headrace.web.guard import Guard
from headrace.web.ingest_routes import ingest_routes
from headrace.web.meter import Meter, RequestNumbers
from headrace.web.metrics import make_registry, metrics_routes
from headrace.web.overview_routes import overview_routes
from headrace.web.page import page_routes
from headrace.web.replies import PlainRoutes, add_error_handlers
from headrace.web.sink_routes import sink_routes
from headrace.web.skip_routes import skip_routes
from headrace.web.sql_routes import sql_routes
from headrace.web.subscription_routes import subscription_routes
from headrace.web.table_routes import table_routes
from headrace.web.tail_routes import tail_routes
from headrace.web.version_routes import version_routes

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
    app.include_router(table_routes(runtime, max_body, QUESTION_BYTES))
    app.include_router(explain_routes(runtime))
    app.include_router(change_routes(runtime))
    app.include_router(sql_routes(runtime, QUESTION_BYTES))
    app.include_router(dead_letter_routes(runtime))
    app.include_router(tail_routes(runtime))
    app.include_router(subscription_routes(runtime))
    app.include_router(version_routes(runtime))
    app.include_router(sink_routes(runtime))
    app.include_router(alert_routes(runtime))
    app.include_router(skip_routes(runtime))
    app.include_router(overview_routes(runtime))
    registry = make_registry(runtime)
    app.include_router(metrics_routes(registry))
    app.include_router(page_routes(runtime, timeouts.wrong_token_s))
    add_error_handlers(app)
    app.add_middleware(PlainRoutes, routers=plain)
    app.add_middleware(Guard, host=settings.host, token=settings.token)
    app.add_middleware(Meter, numbers=RequestNumbers(registry))
    return app
