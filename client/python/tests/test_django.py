"""Holds velocityd.django in a real Django against a real service. docs/claims_test.go runs this where Django is to be had."""

import asyncio
import os
import sys
import types
import unittest
import unittest.mock

try:
    import django
except ImportError as error:
    raise unittest.SkipTest("Django is not here") from error
from django.conf import settings

import velocityd

URL, TOKEN = os.environ["VELOCITY_URL"], os.environ["VELOCITY_TOKEN"]
ZONE = 3  # counts failures

settings.configure(
    SECRET_KEY="of the test", ROOT_URLCONF="urls_of_the_test", ALLOWED_HOSTS=["testserver"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes"], DEFAULT_AUTO_FIELD="django.db.models.AutoField",
    AUTHENTICATION_BACKENDS=["backend_of_the_test.Backend"], MIDDLEWARE=["velocityd.django.RefusalMiddleware"],
    PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"], VELOCITYD={"url": URL, "token": TOKEN, "timeout": 120.0},
)
django.setup()

from django.contrib.auth import authenticate, get_user_model  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.http import HttpResponse  # noqa: E402
from django.test import Client  # noqa: E402
from django.urls import path  # noqa: E402

import velocityd.django  # noqa: E402


class Backend(velocityd.django.Backend):
    def buckets(self, request, username):
        return [(4 if username == "full" else ZONE, username)]


def log_in(request):
    user = authenticate(request, username=request.POST["user"], password=request.POST["password"])
    return HttpResponse(status=200 if user else 401)


sys.modules["backend_of_the_test"] = types.SimpleNamespace(Backend=Backend)
sys.modules["urls_of_the_test"] = types.SimpleNamespace(urlpatterns=[path("login", log_in)])


class Logins(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        call_command("migrate", verbosity=0)
        get_user_model().objects.create_user("python-django", password="horse")

    def post(self, user, password):
        return Client().post("/login", {"user": user, "password": password})

    def velocity(self):
        return velocityd.Client(URL, TOKEN, timeout=120.0).peek(ZONE, "python-django")["velocity"]

    def test_each_login_is_asked_and_reported(self):
        self.assertEqual(self.post("python-django", "horse").status_code, 200)
        self.assertEqual(self.velocity(), 0)
        self.assertEqual(self.post("python-django", "guess").status_code, 401)
        self.assertEqual(self.velocity(), 1)
        asyncio.run(Backend().aauthenticate(None, username="python-django", password=None))
        self.assertEqual(self.velocity(), 1)

    def test_refused_logins_never_reach_the_password(self):
        away = velocityd.Client("http://127.0.0.1:2", on_error="deny")
        with unittest.mock.patch("django.contrib.auth.backends.ModelBackend.authenticate") as inner:
            self.assertEqual(self.post("full", "horse").status_code, 429)
            self.assertEqual(self.post("a\0b", "horse").status_code, 401)
            with unittest.mock.patch("velocityd.django._client", lambda: away):
                answer = self.post("python-django", "horse")
                self.assertEqual((answer.status_code, answer["Retry-After"]), (503, "1"))
            with unittest.mock.patch("velocityd.django._client", lambda: velocityd.Client(URL, "vel_wrong")):
                self.assertEqual(self.post("python-django", "horse").status_code, 503)
            inner.assert_not_called()


if __name__ == "__main__":
    unittest.main()
