"""Limits the log-ins of Django, wherever they call authenticate(): the forms, the admin, an API. In settings.py:

    VELOCITYD = {"url": "http://127.0.0.1:8080", "timeout": 3.0, "on_error": "deny"}  # the arguments of velocityd.Client
    AUTHENTICATION_BACKENDS = ["velocityd.django.Backend"]
    MIDDLEWARE = [..., "velocityd.django.RefusalMiddleware"]

Another backend is limited by a class of yours: class Backend(velocityd.django.Limit, LDAPBackend).
"""

from __future__ import annotations

import functools
from typing import Any, List, Optional

from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.backends import ModelBackend
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django.utils.deprecation import MiddlewareMixin

import velocityd

__all__ = ["Backend", "Limit", "LoginRefused", "RefusalMiddleware"]


@functools.lru_cache(maxsize=None)
def _client() -> velocityd.Client:
    return velocityd.Client(**settings.VELOCITYD)


class LoginRefused(Exception):
    """A login is blocked, status 429, or was not decided, 503. The password was not looked at. RefusalMiddleware makes the answer."""

    def __init__(self, status: int, retry_after: int) -> None:
        super().__init__(f"the login is refused with {status}")
        self.status, self.retry_after = status, retry_after


class Limit:
    """Asks before the backend behind it looks at the password, and reports how that ended. Override buckets for other zones, or behind
    a proxy, where REMOTE_ADDR is the proxy's."""

    def buckets(self, request: Any, username: str) -> List[velocityd.Bucket]:
        address = request.META["REMOTE_ADDR"] if request is not None else None  # none in a script
        return [(1, username)] + ([(2, address)] if address else [])

    def authenticate(self, request: Any, username: Optional[str] = None, password: Optional[str] = None, **kwargs: Any) -> Any:
        name = kwargs.get(get_user_model().USERNAME_FIELD) if username is None else username
        if name is None or password is None:
            return None
        try:
            decision = _client().check(*self.buckets(request, name))
        except velocityd.InvalidRequestError:  # no account can have this name
            raise PermissionDenied from None
        except velocityd.Error as error:  # the log has it
            raise LoginRefused(503, 1) from error
        if decision.blocked:
            raise LoginRefused(503 if decision.is_undecided else 429, decision.retry_after)
        user = super().authenticate(request, username=name, password=password, **kwargs)  # type: ignore[misc]
        try:
            decision.report("failure" if user is None else "success")
        except velocityd.Error:  # the log has it, and the password was looked at
            pass
        return user

    async def aauthenticate(self, request: Any, **credentials: Any) -> Any:
        return await sync_to_async(self.authenticate)(request, **credentials)


class Backend(Limit, ModelBackend):
    """Django's own backend, limited."""


class RefusalMiddleware(MiddlewareMixin):
    """Answers a refused login."""

    def process_exception(self, request: Any, exception: Exception) -> Optional[HttpResponse]:
        if not isinstance(exception, LoginRefused):
            return None
        text = "Too many attempts. Try again later.\n" if exception.status == 429 else "Log-ins are not possible at the moment.\n"
        answer = HttpResponse(text, status=exception.status, content_type="text/plain")
        if exception.retry_after:
            answer["Retry-After"] = str(exception.retry_after)
        return answer
