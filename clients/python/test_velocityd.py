"""Holds velocityd.py against a real service, and against faults in front of it. docs/claims_test.go starts both and runs this."""

import json
import os
import ssl
import threading
import unittest
import unittest.mock
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import velocityd
from velocityd import Client, Decision, Error

URL, FRONT, TLS, CA, TOKEN = (os.environ["VELOCITY_" + name] for name in ("URL", "FRONT", "TLS", "CA", "TOKEN"))
PATIENCE = 120.0  # the timeout of calls that have to succeed; machines may be slow
ZONE = 3  # counts failures


def log(name):
    """Returns the requests of a name that came to the front, each with its attempt_id, its time in seconds and the caller's address."""
    with urllib.request.urlopen(f"{FRONT}/{name}/log") as answer:
        return json.load(answer)


def behind(name, faults, **options):
    url = "http://127.0.0.1:2" if faults == "refused" else f"{FRONT}/{name}/{faults}/"
    return Client(url, **{"token": TOKEN, "timeout": PATIENCE, **options})


def told(act):
    try:
        answer = act()
    except Error as error:
        return None, f"error {error.code}"
    if not isinstance(answer, Decision):
        return answer, str(answer).lower()
    words = ["degraded" * answer.degraded, "blocked" if answer.blocked else "allowed", answer.error.code if answer.error else ""]
    return answer, " ".join(filter(None, words))


class Claims(unittest.TestCase):
    maxDiff = None

    def test_the_claims_of_both_languages(self):
        with open(os.environ["VELOCITY_CLAIMS"], encoding="utf-8") as file:
            claims = json.load(file)
        with ThreadPoolExecutor(8) as pool:
            for claim, problems in zip(claims, pool.map(self.problems, range(len(claims)), claims)):
                with self.subTest(claim["claim"]):
                    self.assertEqual(problems, [])

    def problems(self, n, claim):
        """Returns what differs from a claim."""
        name, zone = f"python-{n}", claim.get("zone", ZONE)
        key = {"long": 256 * "x"}.get(claim.get("key"), claim.get("key", name))
        client = behind(name, claim["faults"], token=claim.get("token", TOKEN), timeout=claim.get("timeout", PATIENCE),
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


if __name__ == "__main__":
    unittest.main()
