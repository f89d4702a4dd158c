import http.client
import ipaddress
import json
import logging
import os
import ssl
import time
import unicodedata
import urllib.error
import urllib.request
import uuid

SERVICE = os.environ.get("VELOCITY_URL", "http://127.0.0.1:8080")
FAIL_OPEN = False  # the policy for as long as there is no decision
BUDGET, EACH = 5.0, 2.0  # seconds for all tries of a call, and for one
HEADERS = {"Content-Type": "application/json"}
if "VELOCITY_TOKEN" in os.environ:
    HEADERS["Authorization"] = "Bearer " + os.environ["VELOCITY_TOKEN"]


class NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None  # the token goes nowhere else


OPENER = urllib.request.build_opener(NoRedirect, urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(
    context=ssl.create_default_context(cafile=os.environ.get("VELOCITY_CA"))))


class Unknown(Exception):
    """There was no answer in time."""


class Refused(Unknown):
    """The call or the answer is wrong, and will be until somebody mends it."""


def call(path, body):
    deadline = time.monotonic() + BUDGET
    data = json.dumps(body).encode()
    while True:
        pause = 0.1
        try:
            request = urllib.request.Request(SERVICE + path, data, HEADERS)
            with OPENER.open(request, timeout=max(0.1, min(EACH, deadline - time.monotonic()))) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code not in (408, 500, 503, 504):
                raise Refused(f"status {error.code}: {error.read(1000)!r}") from error  # see the table of errors
            after = error.headers.get("Retry-After", "")
            pause, failure = float(after) if after.isdigit() else pause, error
        except (OSError, http.client.HTTPException) as error:  # refused, reset, cut or too slow
            failure = error
        except ValueError as error:
            raise Refused("the answer is no JSON") from error
        if time.monotonic() + pause >= deadline:
            raise Unknown(str(failure)) from failure
        time.sleep(pause)


def is_name(user):
    """Says whether an account can have this name. Set 64 to the width of your column of names, 85 at most."""
    bare = unicodedata.normalize("NFKC", user).strip()
    return 0 < len(bare) <= 64 and len(user) <= 255 and not any(unicodedata.category(c) in ("Cc", "Cs") for c in user)


def may_try(user, address):
    """Returns whether the login may go ahead, and the txn to report, or None if there is nothing to report."""
    if not is_name(user):
        return False, None  # answer as to a wrong password
    address = str(ipaddress.ip_address(address.partition("%")[0]))
    try:
        decision = call("/v1/check", {
            "attempt_id": str(uuid.uuid4()),  # the same for all tries
            "buckets": [{"zone_id": 1, "bucket_key": user}, {"zone_id": 2, "bucket_key": address}],
        })
        if not isinstance(decision, dict) or not isinstance(decision.get("blocked"), bool):
            raise Refused("the answer is no decision")
        return not decision["blocked"], None if decision["blocked"] else decision.get("txn_id")
    except Refused as error:
        logging.critical("velocityd refuses our calls, and will until somebody mends it: %s", error)
    except Unknown as error:
        logging.error("velocityd has not answered: %s", error)
    return FAIL_OPEN, None


def report(txn, success):
    """Says how the login ended. The login goes on whatever becomes of the report."""
    if txn is None:
        return
    try:
        call(f"/v1/txns/{txn}/outcome", {"outcome": "success" if success else "failure"})
    except Unknown as error:
        logging.error("the outcome was not reported: %s", error)


# Use:
allowed, txn = may_try("bob", "203.0.113.9")
print("allowed:", allowed)
if allowed:  # look at the password, then say how it ended
    report(txn, True)
