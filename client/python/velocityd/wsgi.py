"""WSGI middleware: asks velocityd before a login reaches the application, and reports afterwards how it ended."""

from __future__ import annotations

import functools
import io
import json
from typing import Any, Callable, Dict, Iterable, Iterator, Optional, Sequence
from urllib.parse import parse_qsl

import velocityd

__all__ = ["Login"]

LONGEST_FORM = 64 << 10  # bytes


class Login:
    """Stands in front of a WSGI application.

    buckets(environ, form) returns the buckets of a login, and none of a request that is no login: that goes on unasked. form() returns
    the fields of a body that is urlencoded or an object of JSON; the application reads the body again. Such a request as has no field of
    a name, by KeyError, has it twice, is of another kind or longer than 64 KB gets 400. outcome(status) tells by the status of the
    answer how the login ended, and returns None if that does not tell; what the application writes into
    environ["velocityd.outcome"] wins. A blocked login gets 429, and one that was not decided 503.
    """

    def __init__(self, app: Callable[..., Iterable[bytes]], client: velocityd.Client,
                 buckets: Callable[[Dict[str, Any], Callable[[], Dict[str, Any]]], Sequence[velocityd.Bucket]],
                 outcome: Callable[[int], Optional[velocityd.Outcome]] = lambda status: None) -> None:
        self._app, self._client, self._buckets, self._outcome = app, client, buckets, outcome

    def __call__(self, environ: Dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        try:
            buckets = self._buckets(environ, functools.partial(_form, environ))
            decision = self._client.check(*buckets) if buckets else None
        except (KeyError, ValueError, velocityd.InvalidRequestError):
            return _refuse(start_response, "400 Bad Request", 0, b"The login is malformed.\n")
        except velocityd.Error:  # the log has it
            return _refuse(start_response, "503 Service Unavailable", 1, b"Log-ins are not possible at the moment. Try again later.\n")
        if decision is None:
            return self._app(environ, start_response)
        if decision.is_undecided:
            return _refuse(start_response, "503 Service Unavailable", 1, b"Log-ins are not possible at the moment. Try again later.\n")
        if decision.blocked:
            return _refuse(start_response, "429 Too Many Requests", decision.retry_after, b"Too many attempts. Try again later.\n")
        return self._go_on(decision, environ, start_response)

    def _go_on(self, decision: velocityd.Decision, environ: Dict[str, Any], start_response: Callable[..., Any]) -> Iterator[bytes]:
        status = 0

        def note(line: str, *rest: Any) -> Any:
            nonlocal status
            status = int(line[:3])
            return start_response(line, *rest)

        body = self._app(environ, note)
        try:
            yield from body
        finally:
            getattr(body, "close", lambda: None)()
            outcome = environ.get("velocityd.outcome") or status and self._outcome(status)
            if outcome:
                velocityd._check_outcome(outcome)
                try:
                    decision.report(outcome)
                except velocityd.Error:  # the log has it, and the login has its answer
                    pass


def _form(environ: Dict[str, Any]) -> Dict[str, Any]:
    length = int(environ.get("CONTENT_LENGTH") or 0)
    if not 0 <= length <= LONGEST_FORM:
        raise ValueError("the form is too long")
    text = environ["wsgi.input"].read(length)
    environ["wsgi.input"] = io.BytesIO(text)
    kind = environ.get("CONTENT_TYPE", "").split(";")[0].strip().lower()
    pairs: Any = []
    if kind == "application/x-www-form-urlencoded":
        pairs = parse_qsl(text.decode(), keep_blank_values=True, errors="strict")
    elif kind == "application/json":
        pairs = json.loads(text, object_pairs_hook=lambda fields: fields)
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError("a field is there twice: applications take one or the other")
    return fields


def _refuse(start_response: Callable[..., Any], status: str, retry_after: int, text: bytes) -> Iterable[bytes]:
    headers = [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(text)))]
    start_response(status, headers + [("Retry-After", str(retry_after))] * (retry_after > 0))
    return [text]
