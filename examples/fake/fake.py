# A service that behaves as the name of the user says: see docs/clients.md.
import http.server, json, sys, time

HOW = {  # status, code of the problem
    "busy": (503, "busy"), "busy-once": (503, "busy"), "undecided": (504, "undecided"), "broken": (500, "internal"),
    "invalid": (400, "invalid_request"), "no-token": (401, "unauthenticated"), "no-zone": (404, "not_found"),
}
seen = set()

class Fake(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        user = body["buckets"][0]["bucket_key"] if "buckets" in body else ""
        status, answer = 200, {"blocked": user == "blocked", "txn_id": "1", "retry_after": 0}
        if user in HOW and user not in seen:
            status, code = HOW[user]
            answer = {"type": "about:blank", "title": code, "status": status, "code": code}
        elif user == "degraded":
            answer = {"blocked": False, "degraded": True, "retry_after": 0}
        elif user == "slow":
            time.sleep(30)
        elif user == "cut":
            self.close_connection = True
            return
        if user.endswith("-once"):
            seen.add(user)
        text = b"<html>" if user == "nonsense" else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json" if status == 200 else "application/problem+json")
        self.send_header("Content-Length", str(len(text)))
        if status == 503:
            self.send_header("Retry-After", "1")
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass

http.server.ThreadingHTTPServer.daemon_threads = True
server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Fake)
print(f"http://127.0.0.1:{server.server_port}", flush=True)
server.serve_forever()
