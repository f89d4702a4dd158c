"""Holds the package against a real service, and against faults in front of it. docs/claims_test.go starts both and runs this."""

import asyncio
import io
import json
import logging
import os
import ssl
import threading
import unittest
import unittest.mock
import urllib.request
import wsgiref.util
from concurrent.futures import ThreadPoolExecutor

import velocityd
import velocityd.wsgi
from velocityd import AsyncClient, AsyncDecision, Client, Decision, Error, InvalidRequestError, NotAllowedError, NotFoundError, UndecidedError

URL, FRONT, TLS, CA, TOKEN = (os.environ["VELOCITY_" + name] for name in ("URL", "FRONT", "TLS", "CA", "TOKEN"))
PATIENCE = 120.0  # the timeout of calls that have to succeed; machines may be slow
ZONE = 3  # counts failures


def log(name):
    """Returns the requests of a name that came to the front, each with its attempt_id, its time in seconds and the caller's address."""
    with urllib.request.urlopen(f"{FRONT}/{name}/log") as answer:
        return json.load(answer)


def behind(name, faults, kind=Client, **options):
    url = "http://127.0.0.1:2" if faults == "refused" else f"{FRONT}/{name}/{faults}/"
    return kind(url, **{"token": TOKEN, "timeout": PATIENCE, **options})


async def awaited(coroutine):
    return await coroutine


def done(answer):
    """Returns an answer, or that of a coroutine after running it."""
    return asyncio.run(awaited(answer)) if asyncio.iscoroutine(answer) else answer


def told(act):
    try:
        answer = done(act())
    except Error as error:
        return None, f"error {error.code}"
    if not isinstance(answer, (Decision, AsyncDecision)):
        return answer, str(answer).lower()
    words = ["degraded" * answer.degraded, "blocked" if answer.blocked else "allowed", answer.error.code if answer.error else ""]
    return answer, " ".join(filter(None, words))


class Claims(unittest.TestCase):
    maxDiff = None

    def test_the_claims_of_both_languages(self):
        with open(os.environ["VELOCITY_CLAIMS"], encoding="utf-8") as file:
            claims = json.load(file)
        for kind in (Client, AsyncClient):
            with ThreadPoolExecutor(8) as pool:
                for claim, problems in zip(claims, pool.map(lambda n, claim: self.problems(kind, n, claim), range(len(claims)), claims)):
                    with self.subTest(claim["claim"], kind=kind):
                        self.assertEqual(problems, [])

    def problems(self, kind, n, claim):
        """Returns what differs from a claim."""
        name, zone = f"{kind.__name__}-{n}", claim.get("zone", ZONE)
        key = {"long": 256 * "x"}.get(claim.get("key"), claim.get("key", name))
        client = behind(name, claim["faults"], kind, token=claim.get("token", TOKEN), timeout=claim.get("timeout", PATIENCE),
                        on_error=claim.get("on_error", "raise"))
        decision, answer = told(lambda: client.check((zone, key)))
        got = {"answer": answer}
        if "report" in claim:
            got["reported"] = told(lambda: decision.report(claim["report"]))[1]
        seen = log(name)
        ids = {request["attempt_id"] for request in seen if request["attempt_id"]}
        got["asked"] = len(seen)
        if "charged" in claim:
            got["charged"] = Client(URL, TOKEN, timeout=PATIENCE).peek(zone, key)["velocity"]
        problems = [f"{field} is {got[field]}, want {claim[field]}" for field in got if got[field] != claim[field]]
        if len(ids) > 1 or decision and ids - {decision.attempt_id}:
            problems.append(f"attempt ids {ids}")
        if "waits" in claim and seen[1]["at"] - seen[0]["at"] < claim["waits"]:
            problems.append(f"asked again at {seen}")
        if decision and decision.is_undecided != (answer.startswith("degraded blocked")):
            problems.append(f"{answer}, and is_undecided is {decision.is_undecided}")
        if decision and not decision.degraded and not decision.txn_id > 2**53:
            problems.append(f"the test wants ids above 2^53, and not {decision.txn_id}")
        return problems


class Tests(unittest.TestCase):
    def test_a_service_that_is_down_is_asked_again_a_hundred_times_in_a_row_and_no_more(self):
        client = behind("python-storm", "cut", on_error="allow")
        with ThreadPoolExecutor(16) as pool:
            decisions = list(pool.map(lambda n: client.check((ZONE, f"python-storm-{n}")), range(80)))
        self.assertTrue(all(d.degraded and not d.blocked for d in decisions))
        self.assertEqual(len(log("python-storm")), 80 + 100)

    def test_tries_that_succeed_give_the_budget_back(self):
        client = behind("python-spell", "cut-first")
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda n: client.check((ZONE, f"python-spell-{n}")), range(120)))
        self.assertEqual(len(log("python-spell")), 240)

    def test_threads_share_a_client_and_each_gets_its_own_answer(self):
        client = behind("python-threads", "pass")
        start = threading.Barrier(16)

        def ask(n):
            start.wait()
            for _ in range(5):
                self.assertEqual(client.check((ZONE, f"python-thread-{n}")).buckets[0]["bucket_key"], f"python-thread-{n}")

        with ThreadPoolExecutor(16) as pool:
            list(pool.map(ask, range(16)))
        seen = log("python-threads")
        self.assertEqual(len({request["attempt_id"] for request in seen}), 80)
        self.assertLessEqual(len({request["from"] for request in seen}), 16, "connections are kept")

    def test_a_connection_that_the_service_has_closed_is_not_used(self):
        client = behind("python-stale", "pass-and-close")
        client.check((ZONE, "python-stale"))
        ((connection, _),) = client._idle
        while not velocityd._is_readable(connection.sock):
            pass
        with unittest.mock.patch.object(velocityd, "MOST_TRIES", 1):
            client.check((ZONE, "python-stale"))

    @unittest.skipUnless(hasattr(os, "fork"), "the system has no fork")
    def test_a_child_does_not_share_the_connections_of_its_parent(self):
        client = behind("python-fork", "pass")
        client.check((ZONE, "python-fork"))
        child = os.fork()
        if child == 0:
            os._exit(int(client.check((ZONE, "python-fork")).blocked))
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        client.check((ZONE, "python-fork"))
        first, second, third = (request["from"] for request in log("python-fork"))
        self.assertNotEqual(first, second)
        self.assertEqual(first, third)

    def test_a_service_is_asked_over_tls_if_its_certificate_is_trusted_and_not_otherwise(self):
        for tls, url, want in (
            (ssl.create_default_context(cafile=CA), TLS, ["allowed", "allowed"]),
            (ssl.create_default_context(cafile=CA), TLS.replace("127.0.0.1", "localhost"), ["error busy", "error busy"]),  # another name
            (None, TLS, ["error busy", "error busy"]),
        ):
            client = Client(f"{url}/python-tls/pass", TOKEN, timeout=PATIENCE, tls=tls)
            self.assertEqual([told(lambda: client.check((ZONE, "python-tls")))[1] for _ in range(2)], want)
        first, second = log("python-tls")
        self.assertEqual(first["from"], second["from"], "the connection is kept")

    def test_many_checks_are_answered_each_by_itself_and_charged_once(self):
        checks = [[(ZONE, "python-many")], [(99, "python-many")], [(4, "python-many")]]
        allowed, missing, blocked = behind("python-many", "lost+pass").check_all(checks)
        self.assertEqual((allowed.blocked, missing.code, blocked.blocked), (False, "not_found", True))
        client = Client(URL, TOKEN, timeout=PATIENCE)
        self.assertEqual(client.peek(ZONE, "python-many")["velocity"], 1)
        self.assertTrue(client.report(allowed.txn_id, "failure"))
        self.assertEqual(client.release(ZONE, "python-many", "the test")["velocity"], 0)

    def test_no_text_names_a_key_or_the_token(self):
        client = behind("python-quiet", "cut", on_error="allow")
        decision = client.check((ZONE, "Mallory"))
        texts = [repr(decision), str(decision.error), repr(Client(URL, TOKEN, timeout=PATIENCE).check((ZONE, "Mallory"))), repr(client)]
        with self.assertRaises(Error) as raised:
            behind("python-mallory", "pass").check((ZONE, "Mallory\0"))
        for text in [*texts, str(raised.exception)]:
            self.assertNotIn("Mallory", text)
            self.assertNotIn(TOKEN, text)

    def test_what_cannot_be_is_refused_at_once(self):
        for url in ("127.0.0.1:8080", "ftp://localhost", "http://", "http://a b/", "http://me:secret@localhost", "http://localhost?x"):
            with self.assertRaises(ValueError, msg=url):
                Client(url)
        for options in ({"token": "vel_\n"}, {"on_error": "open"}):
            with self.assertRaises(ValueError, msg=options):
                Client(URL, **options)

    def test_retry_after_is_read_as_seconds_or_as_a_date(self):
        for text, want in (("7", 7.0), ("Fri, 01 Jan 1971 00:00:00 GMT", 0.0), ("", 0.0), ("soon", 0.0), ("-1", 0.0)):
            self.assertEqual(velocityd._seconds(text), want, text)
        self.assertGreater(velocityd._seconds("Fri, 01 Jan 2100 00:00:00 GMT"), 1e6)

    def test_errors_have_a_class_and_those_of_no_user_are_logged(self):
        for faults, key, options, kind, level in (
            ("pass", "a\0b", {}, InvalidRequestError, None), ("pass", 256 * "x", {}, InvalidRequestError, None),
            ("conflict", "x", {}, InvalidRequestError, None), ("too-large", "x", {}, InvalidRequestError, None),
            ("pass", "x", {"token": "vel_wrong"}, NotAllowedError, "ERROR"), ("pass", "x", {"zone": 99}, NotFoundError, "ERROR"),
            ("cut", "Mallory", {}, UndecidedError, "WARNING"), ("html", "x", {}, UndecidedError, "WARNING"),
            ("refused", "x", {}, UndecidedError, "WARNING"),
        ):
            with self.subTest(faults, options=options):
                zone = options.pop("zone", ZONE)
                for on_error in ("raise", "deny"):
                    with self.assertLogs("velocityd", "DEBUG") as lines:
                        logging.getLogger("velocityd").debug("the first")
                        client = behind(f"python-class-{faults}-{on_error}", faults, on_error=on_error, **options)
                        try:
                            error = client.check((zone, key)).error
                        except Error as raised:
                            error = raised
                    self.assertIs(type(error), kind)
                    self.assertEqual([r.levelname for r in lines.records[1:]], [level] if level else [])
                    self.assertNotIn("Mallory", str(lines.output))

    def test_an_outcome_that_is_none_is_refused_before_it_is_sent(self):
        client = Client(URL, TOKEN, timeout=PATIENCE)
        decision, degraded = client.check((ZONE, "python-sucess")), Client("http://127.0.0.1:2", on_error="allow").check((ZONE, "x"))
        for act in (lambda: decision.report("sucess"), lambda: degraded.report("sucess"), lambda: client.report(1, "sucess"),
                    lambda: decision.report(True), lambda: decision.report(None)):
            with self.assertRaises(InvalidRequestError):
                act()

    def test_a_client_and_an_async_client_are_context_managers(self):
        with behind("python-context", "pass") as client:
            client.check((ZONE, "python-context"))
        self.assertEqual(client._idle, [])

        async def ask():
            async with behind("python-context", "pass", AsyncClient) as client:
                decisions = await asyncio.gather(*(client.check((ZONE, f"python-context-{n}")) for n in range(9)))
                reported = await asyncio.gather(*(decision.report("failure") for decision in decisions))
                allowed, missing = await client.check_all([[(ZONE, "python-context-0")], [(99, "x")]])
                self.assertTrue(await client.report(allowed.txn_id, "success"))
                self.assertEqual((await client.release(ZONE, "python-context-0", "the test"))["velocity"], 0)
                self.assertEqual((await client.peek(ZONE, "python-context-1"))["velocity"], 1)
                return all(reported), type(missing), client

        reported, missing, client = asyncio.run(ask())
        self.assertEqual((reported, missing, client._client._idle), (True, NotFoundError, []))

    def test_the_timeout_of_an_async_client_includes_the_wait_for_a_thread(self):
        async def ask():
            client = AsyncClient("http://127.0.0.1:2", timeout=0.01, on_error="deny")
            held = threading.Event()
            threads = client._client._threads
            for _ in range(velocityd.MOST_IDLE):
                threads.submit(held.wait)
            check = asyncio.ensure_future(client.check((ZONE, "x")))
            await asyncio.sleep(0.02)
            held.set()
            return await check

        self.assertIn("no time is left", str(asyncio.run(ask()).error))


class Forms(unittest.TestCase):
    """velocityd.wsgi in front of an application that knows one password."""

    def log_in(self, body, kind="application/x-www-form-urlencoded", client=None, path="/login", outcome=None):
        def app(environ, start_response):
            text = environ["wsgi.input"].read().decode()
            environ["velocityd.outcome"] = outcome
            start_response("200 OK" if "horse" in text else "401 Unauthorized", [])
            return [text.encode()]

        def buckets(environ, form):
            return [(ZONE, form()["user"])] if environ["PATH_INFO"] == "/login" else []

        def by_status(status):
            return {200: "success", 401: "failure"}.get(status)

        answered = []
        environ = {"PATH_INFO": path, "wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body)), "CONTENT_TYPE": kind}
        wsgiref.util.setup_testing_defaults(environ)
        login = velocityd.wsgi.Login(app, client or Client(URL, TOKEN, timeout=PATIENCE), buckets, by_status)
        text = b"".join(login(environ, lambda status, headers, *_: answered.append((int(status[:3]), dict(headers)))))
        return answered[0][0], answered[0][1], text

    def test_failures_fill_the_limit_and_successes_do_not(self):
        plain = Client(URL, TOKEN, timeout=PATIENCE)
        for _ in range(3):
            self.assertEqual(self.log_in(b"user=python-wsgi&password=horse")[0], 200)
        self.assertEqual(plain.peek(ZONE, "python-wsgi")["velocity"], 0)
        status, _, text = self.log_in(b"user=python-wsgi&password=guess")
        self.assertEqual((status, text), (401, b"user=python-wsgi&password=guess"))
        self.assertEqual(self.log_in(b'{"user": "python-wsgi", "password": "x"}', "application/json")[0], 401)
        self.assertEqual(self.log_in(b"user=python-wsgi&password=horse", outcome="failure")[0], 200)
        self.assertEqual(plain.peek(ZONE, "python-wsgi")["velocity"], 3)

    def test_refusals_have_the_status_of_their_reason(self):
        away = Client("http://127.0.0.1:2", on_error="deny")
        full = unittest.mock.Mock(spec=Client)
        full.check.return_value = Client(URL, TOKEN, timeout=PATIENCE).check((4, "python-full"))
        for body, options, want in (
            (b"user=x", {"client": full}, 429), (b"user=x", {"client": away}, 503), (b"user=x", {"client": Client("http://127.0.0.1:2")}, 503),
            (b"user=x", {"client": Client(URL, "vel_wrong")}, 503), (b"user=a%00b", {}, 400), (b"user=a&user=b", {}, 400), (b"name=a", {}, 400),
            (b'{"user": "a", "user": "b"}', {"kind": "application/json"}, 400), (b"[]", {"kind": "application/json"}, 400),
            (b"user=x", {"kind": "multipart/form-data"}, 400), (b"user=%ff", {}, 400),
            (b'{"user": 7}', {"kind": "application/json"}, 400), (b'{"user": ["a"]}', {"kind": "application/json"}, 400), (b"user=" + 70000 * b"x", {}, 400),
            (b"user=a&user=b", {"path": "/other"}, 401), (b"", {}, 400),
        ):
            with self.subTest(body[:20], options=options):
                status, headers, _ = self.log_in(body, **options)
                self.assertEqual(status, want)
                self.assertEqual("Retry-After" in headers, want == 503 or want == 429 and full.check.return_value.retry_after > 0)


if __name__ == "__main__":
    unittest.main()
