"""Asks a velocityd, before a login, whether the attempt may go ahead, and reports afterwards how it ended.

    velocity = velocityd.Client("http://127.0.0.1:8080", token, on_error="deny")
    decision = velocity.check((1, user), (2, address))
    if decision.blocked:
        ...  # refuse the login, and do not look at the password
    else:
        ...  # look at the password
        decision.report("success" if password_is_right else "failure")

It asks and asks again as the client in Go does, see docs/clients.md. It follows no redirects and uses no proxies. Each Error but an
InvalidRequestError is also a line of the logger "velocityd", because its cause must be mended. No line names a key.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import http.client
import io
import json
import logging
import os
import random
import selectors
import socket
import ssl
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, Callable, Dict, List, Literal, Optional, Sequence, Tuple, Type, TypeVar, Union
from urllib.parse import quote, urlsplit

__all__ = ["AsyncClient", "AsyncDecision", "Bucket", "Client", "Decision", "Error", "InvalidRequestError", "NotAllowedError",
           "NotFoundError", "Outcome", "UndecidedError"]
__version__ = "0.2.0"  # as in pyproject.toml

Bucket = Tuple[int, str]  # the zone's id, and the key: a user's name, an address
Outcome = Literal["success", "failure"]
Policy = Literal["raise", "allow", "deny"]
T = TypeVar("T")

MOST_TRIES = 3  # of a call, the first included
LONGEST_TRY = 2.0  # seconds, so that an instance that hangs does not use up the time of a long call
FIRST_PAUSE, LAST_PAUSE = 0.1, 1.0  # seconds; the longest pause doubles from one to the other
FULL_BUDGET, RETRY_PRICE, TRY_REWARD = 500, 5, 1  # those of the client in Go, and of the AWS SDKs
LONGEST_IDLE, MOST_IDLE = 90.0, 64  # a service closes an idle connection after two minutes
LONGEST_ANSWER = 8 << 20  # bytes, above the answer to a thousand checks
LONGEST_KEY = 255  # characters

_MAY_PASS = (408, 500, 502, 503, 504)  # statuses after which asking again may help
_UNCOUNTED = ("busy", "no_keys", "not_ready", "too_many_streams")  # codes of 503, which say that nothing was counted

_log = logging.getLogger("velocityd")
_begun: contextvars.ContextVar[Optional[float]] = contextvars.ContextVar("begun", default=None)  # when an AsyncClient was called


class Error(Exception):
    """Says that a call has no answer. A blocked attempt is an answer, and never an Error.

    Each Error is of one of the four classes below. code is the code of the service's problem, by the table in docs/auth-server.md, such as "invalid_request" or "unauthenticated".
    Three codes also come from the client: "busy" if the service was not reached, "undecided" if its answer was lost, and
    "unexpected_answer" if something answered that is no velocityd. status is the HTTP status, or 0 without an answer. may_be_counted
    is true if the attempt may have been counted, or the change made. The text does not name a bucket's key.
    """

    def __init__(self, code: str, detail: str, status: int = 0, may_be_counted: bool = False, again: bool = False,
                 after: float = 0) -> None:
        super().__init__(f"{code}: {detail}")
        self.code, self.status, self.may_be_counted = code, status, may_be_counted
        self._again, self._after = again, after  # whether asking again may help, and the Retry-After in seconds


class InvalidRequestError(Error):
    """The question is wrong, as one about a name that no account can have: the user's fault. No policy answers it, and it is not logged."""


class NotAllowedError(Error):
    """The token is wrong, or may not ask this: an operator must mend it."""


class NotFoundError(Error):
    """The zone or the attempt does not exist: an operator must mend it."""


class UndecidedError(Error):
    """There is no answer: the service is away, busy or slow, or something else answers at its address."""


_KINDS: Dict[str, Type[Error]] = {
    "invalid_request": InvalidRequestError, "conflict": InvalidRequestError, "payload_too_large": InvalidRequestError,
    "unauthenticated": NotAllowedError, "forbidden": NotAllowedError, "missing_scope": NotAllowedError, "not_found": NotFoundError,
}


def _error(code: str, detail: str, status: int = 0, may_be_counted: bool = False, again: bool = False, after: float = 0) -> Error:
    return _KINDS.get(code, NotAllowedError if status in (401, 403) else UndecidedError)(code, detail, status, may_be_counted, again, after)


@dataclass(frozen=True)
class _Answer:
    """The answer to a check.

    blocked is the answer: refuse the login if it is true. would_block is true also if a zone in shadow mode had no room.
    retry_after is how many seconds later an attempt may pass, or 0 if this one did. buckets has the service's answer for each bucket
    as a dict, whose ids are strings; they name keys and are therefore left out of the repr.

    degraded is true if the database was not asked: the service answered by the settings of its zones, or, if error is not None,
    the client by its on_error, because of this error. Such an attempt has no txn_id and nothing to report.
    """

    blocked: bool
    would_block: bool
    retry_after: int
    attempt_id: str
    txn_id: Optional[int]
    degraded: bool
    buckets: Tuple[Dict[str, Any], ...] = field(repr=False)
    error: Optional[Error]
    _client: Client = field(repr=False, compare=False)

    @property
    def is_undecided(self) -> bool:
        """Whether the attempt is blocked although no limit says so: on_error or the zone's on_failure answered, because the service or
        its database is away. To a user this is a failure, 503, and not too many attempts, 429."""
        return self.blocked and self.degraded and not any(bucket.get("reason") for bucket in self.buckets)


class Decision(_Answer):
    __doc__ = _Answer.__doc__

    def report(self, outcome: Outcome) -> bool:
        """Reports how the login ended, as "success" or "failure", and returns whether the service has noted it.

        It does nothing for a degraded decision. It asks again as check does; to repeat a report changes nothing. With on_error
        "raise" it raises every Error. With a policy it returns False instead, so that no login fails because of its report. Another
        outcome raises InvalidRequestError in any case. Code "conflict" is the answer for a blocked attempt, for another outcome than
        before, and for a success after the zone's reserve_ttl.
        """
        _check_outcome(outcome)
        return self.txn_id is not None and self._client.report(self.txn_id, outcome)


class AsyncDecision(_Answer):
    __doc__ = _Answer.__doc__

    async def report(self, outcome: Outcome) -> bool:
        """Does what Decision.report does."""
        return await AsyncClient._in_thread(self._client, Decision(**vars(self)).report, outcome)


class Client:
    """Asks one service. Threads may share a Client, and should: they share its connections and its budget of tries.

    url is like "http://127.0.0.1:8080", and may end with a path. token is one of `velocityd token create`; give it over https, or to a
    service on the same machine. tls replaces the default context, to trust a CA of your own. timeout bounds each call, with all its
    tries, in seconds; the resolution of the host's name is NOT bounded, so name an address or a host of /etc/hosts. The constructor
    connects to nothing. It raises ValueError for an address or a token that cannot be.

    A call asks up to three times: after 408, 500, 502, 503, 504, a lost answer and a refused connection, under the same attempt id,
    so that the attempt counts once. Between tries it waits for Retry-After, which the service writes in whole seconds, or for up to
    0.1, then 0.2 seconds, at random. It does not ask again if that would end after the timeout, nor if a hundred tries in a row have
    failed lately. As a context manager it closes its connections at the end.

    on_error says what becomes of a check that was not decided: "raise" raises the Error, "allow" lets the attempt pass (fail open),
    and "deny" blocks it (fail closed); Decision.error then has the reason. Watch for it: a wrong token also gives such answers. 
    InvalidRequestError is raised in any case. It comes from the check itself, so a user that can cause one, by a name that no account
    has, would pass without a limit.
    """

    def __init__(self, url: str, token: Optional[str] = None, *, timeout: float = 1.0, on_error: Policy = "raise",
                 tls: Optional[ssl.SSLContext] = None) -> None:
        parts = urlsplit(url)
        if (parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None or parts.query or parts.fragment
                or not url.isascii() or not url.isprintable() or " " in url):
            raise ValueError("the address of a service must be like http://127.0.0.1:8080")
        if on_error not in ("raise", "allow", "deny"):
            raise ValueError('on_error must be "raise", "allow" or "deny"')
        if token is not None and not (token.isascii() and token.isprintable()):
            raise ValueError("the token must be printable ASCII")
        self._host, self._port = parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)
        self._tls = (tls or ssl.create_default_context()) if parts.scheme == "https" else None
        self._path, self._timeout, self._on_error = parts.path.rstrip("/"), timeout, on_error
        self._headers = {"Accept": "application/json, application/problem+json", "User-Agent": "velocityd-python"}
        if token:
            self._headers["Authorization"] = "Bearer " + token
        self._lock = threading.Lock()  # guards all below
        self._idle: List[Tuple[http.client.HTTPConnection, float]] = []
        self._process = os.getpid()
        self._spent = 0.0
        self._threads: Optional[ThreadPoolExecutor] = None  # of an AsyncClient

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def check(self, *buckets: Bucket, attempt_id: Optional[str] = None, secret_hash: Optional[str] = None) -> Decision:
        """Asks whether one attempt may go ahead in all these buckets, which records it.

        attempt_id names the attempt, and must be 128 random bits of your server: the same check asked twice under one id counts once.
        Without one the client makes it. secret_hash is explained in docs/auth-server.md. Raises Error.
        """
        question = _question(buckets, attempt_id, secret_hash)
        try:
            return self._retry("POST", "/v1/check", question, lambda answer: self._decision(answer, question))
        except Error as error:
            if self._on_error == "raise" or isinstance(error, InvalidRequestError):
                raise
            blocked = self._on_error == "deny"
            return Decision(blocked, blocked, int(blocked), question["attempt_id"], None, True, (), error, self)

    def check_all(self, checks: Sequence[Sequence[Bucket]]) -> List[Union[Decision, Error]]:
        """Asks up to a thousand checks in one call, in their order, and returns a Decision or an Error for each. There is no policy: it
        raises the Error of the call as a whole."""
        questions = [_question(buckets) for buckets in checks]

        def read(answer: Any) -> List[Union[Decision, Error]]:
            results = _expect(answer["results"], list)
            if len(results) != len(questions):
                raise ValueError("results")
            return [_logged(_problem(r["problem"], r["problem"]["status"], {})) if "problem" in r else self._decision(r["decision"], q)
                    for r, q in zip(results, questions)]

        return self._retry("POST", "/v1/checks", {"checks": questions}, read)

    def report(self, txn_id: int, outcome: Outcome) -> bool:
        """Does what Decision.report does, for a program that has kept the txn_id alone."""
        _check_outcome(outcome)

        def read(answer: Any) -> bool:
            if answer["txn_id"] != str(txn_id) or answer["outcome"] != outcome:
                raise ValueError("another report")
            return True

        try:
            return self._retry("POST", f"/v1/txns/{int(txn_id)}/outcome", {"outcome": outcome}, read)
        except Error as error:
            if self._on_error == "raise" or error.code == "invalid_request":
                raise
            return False

    def peek(self, zone_id: int, key: str) -> Dict[str, Any]:
        """Returns how a bucket stands, as the service writes it, without making an attempt. Raises Error."""
        return self._retry("GET", _bucket_path(zone_id, key), None, lambda answer: _expect(answer, dict))

    def release(self, zone_id: int, key: str, reason: str) -> Dict[str, Any]:
        """Empties a bucket and ends its lockout, as after a password reset, and returns how it stands. Raises Error."""
        return self._retry("POST", _bucket_path(zone_id, key) + "/release", {"reason": reason}, lambda answer: _expect(answer, dict))

    def close(self) -> None:
        """Closes the connections that are idle. The Client can still be used."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection, _ in idle:
            connection.close()

    def _retry(self, method: str, path: str, question: Any, read: Callable[[Any], T]) -> T:
        """Asks until there is an answer, which read makes of the JSON, or until no try may follow."""
        deadline = (_begun.get() or time.monotonic()) + self._timeout
        body = None if question is None else json.dumps(question).encode()
        lost: Optional[Error] = None
        tries, paid = 0, 0.0
        while True:
            tries += 1
            try:
                answer = self._try(method, path, body, min(deadline, time.monotonic() + LONGEST_TRY), read)
                self._spend(-max(paid, TRY_REWARD))
                return answer
            except Error as error:
                failure = error
            if lost is None and failure.may_be_counted:
                lost = failure
            pause = failure._after or random.uniform(0, min(LAST_PAUSE, FIRST_PAUSE * 2 ** (tries - 1)))
            if not failure._again or tries == MOST_TRIES or time.monotonic() + pause >= deadline or not self._spend(RETRY_PRICE):
                # "busy" would say that nothing was counted, which an earlier try contradicts.
                raise _logged(lost if lost is not None and failure.code == "busy" else failure)
            paid = RETRY_PRICE
            time.sleep(pause)

    def _spend(self, tokens: float) -> bool:
        """Takes tokens from the budget, or gives them back; returns False if there are too few."""
        with self._lock:
            if self._spent + tokens > FULL_BUDGET:
                return False
            self._spent = max(0.0, self._spent + tokens)
            return True

    def _try(self, method: str, path: str, body: Optional[bytes], deadline: float, read: Callable[[Any], T]) -> T:
        """Asks once. Its Errors say whether asking again may help."""
        try:
            connection = self._connect(deadline)
        except OSError as error:
            raise _error("busy", f"not reached: {error}", again=not isinstance(error, ssl.SSLError)) from None
        try:
            headers = {**self._headers, "Content-Type": "application/json"} if body is not None else self._headers
            connection.response_class = functools.partial(_Reply, deadline)  # type: ignore[assignment]
            connection.sock.settimeout(_left(deadline))
            connection.request(method, self._path + path, body, headers)
            answer = connection.getresponse()
            text = answer.read(LONGEST_ANSWER + 1)
            if answer.length and len(text) <= LONGEST_ANSWER:
                raise http.client.IncompleteRead(b"", answer.length)
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            changes = method != "GET"
            raise _error("undecided" if changes else "busy", f"no answer: {type(error).__name__}", 0, changes, True) from None
        self._keep(connection, answer.isclosed())
        return _read(answer, text, method != "GET", read)

    def _connect(self, deadline: float) -> http.client.HTTPConnection:
        """Returns a connection, an idle one if there is one. Raises OSError."""
        _left(deadline)
        while True:
            with self._lock:
                if self._process != os.getpid():  # a child must not share the connections of its parent
                    self._process, self._idle = os.getpid(), []
                if not self._idle:
                    break
                connection, since = self._idle.pop()
            if time.monotonic() - since < LONGEST_IDLE and not _is_readable(connection.sock):
                return connection
            connection.close()
        addresses = socket.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        failure: OSError = OSError("the host has no address")
        for i, (family, kind, protocol, _, address) in enumerate(addresses):
            wire = socket.socket(family, kind, protocol)
            try:
                wire.settimeout(_left(deadline) / (len(addresses) - i))
                wire.connect(address)
                wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if self._tls is not None:
                    wire = self._tls.wrap_socket(wire, server_hostname=self._host)
                connection = http.client.HTTPConnection(self._host, self._port)
                connection.sock = wire
                return connection
            except OSError as error:
                wire.close()
                failure = error
        raise failure

    def _keep(self, connection: http.client.HTTPConnection, is_whole: bool) -> None:
        """Keeps a connection for the next call, if its answer was read to the end and the service has not closed it."""
        with self._lock:
            if is_whole and connection.sock is not None and len(self._idle) < MOST_IDLE and self._process == os.getpid():
                self._idle.append((connection, time.monotonic()))
                return
        connection.close()

    def _decision(self, answer: Any, question: Dict[str, Any]) -> Decision:
        """Reads a decision, which must be about the buckets of the question. A decision that is not degraded names its txn."""
        degraded, buckets = _expect(answer.get("degraded", False), bool), _expect(answer["buckets"], list)
        if [b["zone_id"] for b in buckets] != [b["zone_id"] for b in question["buckets"]] or degraded == ("txn_id" in answer):
            raise ValueError("another check")
        txn_id = None if degraded else int(_expect(answer["txn_id"], str))
        return Decision(_expect(answer["blocked"], bool), _expect(answer["would_block"], bool), _expect(answer["retry_after"], int),
                        question["attempt_id"], txn_id, degraded, tuple(buckets), None, self)


class AsyncClient:
    """Asks as a Client does, and takes the same arguments, for programs with asyncio: each call is awaited, and so is decision.report.

    Calls run in up to 64 separate threads, so the event loop never waits, and neither do other users of its default threads.
    The timeout includes the wait for a thread. A task that is cancelled leaves its call to end by itself: the attempt may count.
    """

    def __init__(self, url: str, token: Optional[str] = None, *, timeout: float = 1.0, on_error: Policy = "raise",
                 tls: Optional[ssl.SSLContext] = None) -> None:
        self._client = Client(url, token, timeout=timeout, on_error=on_error, tls=tls)
        self._client._threads = ThreadPoolExecutor(MOST_IDLE, "velocityd")

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def check(self, *buckets: Bucket, attempt_id: Optional[str] = None, secret_hash: Optional[str] = None) -> AsyncDecision:
        """Does what Client.check does."""
        ask = functools.partial(self._client.check, attempt_id=attempt_id, secret_hash=secret_hash)
        return AsyncDecision(**vars(await self._in_thread(self._client, ask, *buckets)))

    async def check_all(self, checks: Sequence[Sequence[Bucket]]) -> List[Union[AsyncDecision, Error]]:
        """Does what Client.check_all does."""
        answers = await self._in_thread(self._client, self._client.check_all, checks)
        return [a if isinstance(a, Error) else AsyncDecision(**vars(a)) for a in answers]

    async def report(self, txn_id: int, outcome: Outcome) -> bool:
        """Does what Client.report does."""
        return await self._in_thread(self._client, self._client.report, txn_id, outcome)

    async def peek(self, zone_id: int, key: str) -> Dict[str, Any]:
        """Does what Client.peek does."""
        return await self._in_thread(self._client, self._client.peek, zone_id, key)

    async def release(self, zone_id: int, key: str, reason: str) -> Dict[str, Any]:
        """Does what Client.release does."""
        return await self._in_thread(self._client, self._client.release, zone_id, key, reason)

    async def close(self) -> None:
        """Closes the connections that are idle. The AsyncClient can still be used."""
        self._client.close()

    @staticmethod
    async def _in_thread(client: Client, act: Callable[..., T], *args: Any) -> T:
        context = contextvars.copy_context()
        context.run(_begun.set, time.monotonic())
        return await asyncio.get_running_loop().run_in_executor(client._threads, functools.partial(context.run, act, *args))


class _Reply(http.client.HTTPResponse):
    """An answer that is read until a deadline, however slowly it drips."""

    def __init__(self, deadline: float, sock: socket.socket, *args: Any, **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        self.fp = io.BufferedReader(_Dripping(self.fp.detach(), sock, deadline))  # type: ignore[attr-defined]


class _Dripping(io.RawIOBase):
    """Reads from a socket, each time with what is left until a deadline."""

    def __init__(self, raw: io.RawIOBase, sock: socket.socket, deadline: float) -> None:
        self._raw, self._sock, self._deadline = raw, sock, deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> Optional[int]:
        self._sock.settimeout(_left(self._deadline))
        return self._raw.readinto(buffer)  # type: ignore[attr-defined, no-any-return]

    def close(self) -> None:
        self._raw.close()
        super().close()


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("no time is left")
    return left


def _is_readable(sock: socket.socket) -> bool:
    """Says of an idle connection that the service has closed it, or has sent an answer without a request."""
    with selectors.DefaultSelector() as selector:
        selector.register(sock, selectors.EVENT_READ)
        return bool(selector.select(0))


def _question(buckets: Sequence[Bucket], attempt_id: Optional[str] = None, secret_hash: Optional[str] = None) -> Dict[str, Any]:
    if not all(isinstance(key, str) and 0 < len(key) <= LONGEST_KEY for _, key in buckets):  # a long one would take the time of the call
        raise _error("invalid_request", f"a key must be a text of 1 to {LONGEST_KEY} characters")
    question: Dict[str, Any] = {"buckets": [{"zone_id": zone_id, "bucket_key": key} for zone_id, key in buckets]}
    question["attempt_id"] = attempt_id or str(uuid.uuid4())
    if secret_hash is not None:
        question["secret_hash"] = secret_hash
    return question


def _bucket_path(zone_id: int, key: str) -> str:
    return f"/v1/zones/{int(zone_id)}/buckets/{quote(key, safe='')}"


def _read(answer: http.client.HTTPResponse, text: bytes, changes: bool, read: Callable[[Any], T]) -> T:
    media, is_good = answer.headers.get_content_type(), answer.status in (200, 201, 202)
    parsed: Any = None
    if media in ("application/json", "application/problem+json"):
        try:
            parsed = json.loads(text)
            if is_good:
                return read(parsed)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            pass
    if is_good:
        raise _error("unexpected_answer", "the answer is not what a velocityd writes", answer.status, changes)
    problem: Dict[str, Any] = parsed if media == "application/problem+json" and isinstance(parsed, dict) else {}
    raise _problem(problem, answer.status, dict(answer.headers), changes)


def _problem(problem: Any, status: int, headers: Dict[str, str], changes: bool = True) -> Error:
    """Returns the Error of an answer with this status. Without a problem in it, a proxy has answered, and the service may have acted."""
    code = str(problem.get("code") or ("undecided" if status >= 500 and changes else "unexpected_answer"))
    after = next((_seconds(value) for name, value in headers.items() if name.lower() == "retry-after"), 0.0)
    return _error(code, str(problem.get("detail") or f"unexpected answer {status}: is there a velocityd at this address?"), status,
                 changes and status >= 500 and code not in _UNCOUNTED, status in _MAY_PASS, after)


def _seconds(retry_after: str) -> float:
    """Reads Retry-After, as seconds or as a date. It is 0 if it cannot be read."""
    try:
        if retry_after.isdecimal():
            return float(retry_after)
        return max(0.0, parsedate_to_datetime(retry_after).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return 0.0


def _check_outcome(outcome: str) -> None:
    if outcome not in ("success", "failure"):
        raise _error("invalid_request", 'an outcome is "success" or "failure"')


def _logged(error: Error) -> Error:
    """Writes an Error to the log that is not the user's fault. Those that last until an operator mends them are errors there."""
    if not isinstance(error, InvalidRequestError):
        _log.log(logging.WARNING if isinstance(error, UndecidedError) else logging.ERROR, "velocityd has not decided: %s", error)
    return error


def _expect(value: Any, kind: type) -> Any:
    """Returns a value of an answer, which must be of a kind. A bool is no int here."""
    if type(value) is not kind:
        raise ValueError(kind.__name__)
    return value
