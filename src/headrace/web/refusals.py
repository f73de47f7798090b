"""Failures that only HTTP has: too large, not allowed, no such route, a fault of our own."""

from __future__ import annotations

from headrace.errors import HeadraceError


class BadRequestError(HeadraceError):
    """A header of the request is not well-formed."""

    code = "bad_request"
    http_status = 400


class UnsupportedError(HeadraceError):
    """The body is said to be of a kind that is not taken."""

    code = "unsupported"
    http_status = 415


class SlowError(HeadraceError):
    """A request does not come, or too slowly; nothing of it was kept."""

    code = "too_slow"
    http_status = 408


class HeaderError(HeadraceError):
    """The headers of a request are too long."""

    code = "headers_too_long"
    http_status = 431


class UnauthorizedError(HeadraceError):
    """The bearer token is missing or wrong."""

    code = "unauthorized"
    http_status = 401


class ForbiddenError(HeadraceError):
    """A web page of another site, or another name of this machine, asks a server without a token."""

    code = "forbidden"
    http_status = 403


class RouteError(HeadraceError):
    """No endpoint has this path."""

    code = "no_such_path"
    http_status = 404


class MethodError(HeadraceError):
    """The endpoint exists but does not take this method."""

    code = "method_not_allowed"
    http_status = 405


class RequestError(HeadraceError):
    """A parameter or body has not the form that the endpoint takes."""

    code = "request"
    http_status = 422


class InternalError(HeadraceError):
    """A fault of ours; the log has the trace."""

    code = "internal"
    http_status = 500
