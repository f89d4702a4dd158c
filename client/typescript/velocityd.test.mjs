// Holds the package against a real service, and against faults in front of it. docs/claims_test.go installs it, starts both and runs this.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { inspect } from "node:util";

import express from "express";

import {
  Client, Decision, InvalidRequestError, NotAllowedError, NotFoundError, UndecidedError, VelocityError,
} from "velocityd";
import { limitLogin, setOutcome } from "velocityd/express";

const { VELOCITY_URL: url, VELOCITY_FRONT: front, VELOCITY_TLS: tls, VELOCITY_TOKEN: token } = process.env;
const patience = 120_000; // the timeout of calls that have to succeed, in ms; machines may be slow
const zone = 3; // counts failures
const plain = new Client(url, { token, timeout: patience });
const away = "http://127.0.0.1:2";

// log returns the requests of a name that came to the front, each with its attempt_id, its time in seconds and the caller's address.
const log = async (name) => (await fetch(`${front}/${name}/log`)).json();

function behind(name, faults, options = {}) {
  return new Client(faults === "refused" ? "http://127.0.0.1:2" : `${front}/${name}/${faults}/`, { token, timeout: patience, log: () => {}, ...options });
}

async function told(act) {
  try {
    const answer = await act();
    if (!(answer instanceof Decision)) return [answer, String(answer)];
    const words = [answer.degraded ? "degraded" : "", answer.blocked ? "blocked" : "allowed", answer.error?.code];
    return [answer, words.filter(Boolean).join(" ")];
  } catch (error) {
    assert(error instanceof VelocityError, error);
    return [undefined, `error ${error.code}`];
  }
}

// atOnce does n things, so many of them at the same time.
async function atOnce(width, n, act) {
  let next = 0;
  await Promise.all(Array.from({ length: width }, async () => {
    while (next < n) await act(next++);
  }));
}

const claims = JSON.parse(readFileSync(process.env.VELOCITY_CLAIMS, "utf8"));
test("the claims of both languages", { concurrency: 8 }, async (t) => {
  await Promise.all(claims.map((claim, n) => t.test(claim.claim, async () => {
    const name = `typescript-${n}`, bucket = [claim.zone ?? zone, claim.key === "long" ? "x".repeat(256) : claim.key ?? name];
    const client = behind(name, claim.faults, {
      token: claim.token ?? token, timeout: claim.timeout ? 1000 * claim.timeout : patience, onError: claim.on_error ?? "raise",
    });
    const [decision, answer] = await told(() => client.check([bucket]));
    assert.equal(answer, claim.answer);
    if (claim.report) assert.equal((await told(() => decision.report(claim.report)))[1], claim.reported);
    const seen = await log(name);
    assert.equal(seen.length, claim.asked, "asked");
    if (claim.charged !== undefined) assert.equal((await plain.peek(...bucket)).velocity, claim.charged, "charged");
    const ids = new Set(seen.map((request) => request.attempt_id).filter(Boolean));
    assert(ids.size <= 1 && (!decision || ids.size === 0 || ids.has(decision.attemptId)), `attempt ids ${[...ids]}`);
    if (decision) assert.equal(decision.isUndecided, answer.startsWith("degraded blocked"));
    if (claim.waits) assert(seen[1].at - seen[0].at >= claim.waits, inspect(seen));
    if (decision && !decision.degraded) assert(BigInt(decision.txnId) > 2n ** 53n, `no id above 2^53: ${decision.txnId}`);
  })));
});

test("a service that is down is asked again a hundred times in a row and no more", async () => {
  const client = behind("typescript-storm", "cut", { onError: "allow" });
  await atOnce(16, 80, async (n) => {
    const { degraded, blocked } = await client.check([[zone, `typescript-storm-${n}`]]);
    assert(degraded && !blocked);
  });
  assert.equal((await log("typescript-storm")).length, 80 + 100);
});

test("tries that succeed give the budget back", async () => {
  const client = behind("typescript-spell", "cut-first");
  await atOnce(8, 120, (n) => client.check([[zone, `typescript-spell-${n}`]]));
  assert.equal((await log("typescript-spell")).length, 240);
});

test("a service is asked over TLS if its certificate is trusted and not otherwise", async () => {
  const ask = (to) => told(() => new Client(`${to}/typescript-tls/pass`, { token, timeout: patience }).check([[zone, "typescript-tls"]]));
  assert.equal((await ask(tls))[1], "allowed");
  assert.match((await ask(tls.replace("127.0.0.1", "localhost")))[1], /^error /); // another name
  assert.equal((await log("typescript-tls")).length, 1);
});

test("many checks are answered each by itself and charged once", async () => {
  const key = "typescript-many";
  const [allowed, missing, blocked] = await behind(key, "lost+pass").checkAll([[[zone, key]], [[99, key]], [[4, key]]]);
  assert.deepEqual([allowed.blocked, missing.code, blocked.blocked], [false, "not_found", true]);
  assert.equal((await plain.peek(zone, key)).velocity, 1);
  assert(await plain.report(allowed.txnId, "failure"));
  assert.equal((await plain.release(zone, key, "the test")).velocity, 0);
});

test("no text names a key or the token", async () => {
  const client = behind("typescript-quiet", "cut", { onError: "allow" });
  const decisions = [await client.check([[zone, "Mallory"]]), await plain.check([[zone, "Mallory"]])];
  assert.equal(decisions[1].buckets[0].bucket_key, "Mallory");
  const error = await behind("typescript-mallory", "pass").check([[zone, "Mallory\0"]]).catch((error) => error);
  for (const value of [...decisions, error, client]) {
    const text = inspect(value, { depth: 9 }) + JSON.stringify(value) + String(value);
    assert(!text.includes("Mallory") && !text.includes(token), text);
  }
});

test("what cannot be is refused at once", () => {
  for (const url of ["127.0.0.1:8080", "ftp://localhost", "http://", "http://me:secret@localhost", "http://localhost?x"]) {
    assert.throws(() => new Client(url), TypeError, url);
  }
  for (const options of [{ token: "vel_\n" }, { onError: "open" }]) assert.throws(() => new Client(url, options), TypeError);
});

test("Retry-After is read as a date, too", async (t) => {
  const retryAfter = async (text) => {
    const { mock } = t.mock.method(globalThis, "fetch", async () => new Response("", { status: 503, headers: { "Retry-After": text } }));
    const error = await new Client(url, { log() {} }).check([[zone, "x"]]).catch((error) => error);
    mock.restore();
    return error.after;
  };
  for (const [text, want] of [["7", 7000], ["Fri, 01 Jan 1971 00:00:00 GMT", 0], ["soon", 0], ["-1", 0]]) {
    assert.equal(await retryAfter(text), want, text);
  }
  assert(await retryAfter("Fri, 01 Jan 2100 00:00:00 GMT") > 1e9);
});

test("errors have a class and those of no user are logged", async () => {
  for (const [faults, key, options, kind] of [
    ["pass", "a\0b", {}, InvalidRequestError], ["pass", "x".repeat(256), {}, InvalidRequestError], ["pass", ["x"], {}, InvalidRequestError],
    ["conflict", "x", {}, InvalidRequestError], ["too-large", "x", {}, InvalidRequestError],
    ["pass", "x", { token: "vel_wrong" }, NotAllowedError], ["pass", "x", { zone: 99 }, NotFoundError],
    ["cut", "Mallory", {}, UndecidedError], ["html", "x", {}, UndecidedError], ["refused", "x", {}, UndecidedError],
  ]) {
    for (const onError of ["raise", "deny"]) {
      const logged = [];
      const client = behind(`typescript-class-${faults}-${onError}`, faults, { onError, log: (error) => logged.push(error), ...options });
      const error = await client.check([[options.zone ?? zone, key]]).then((decision) => decision.error, (error) => error);
      assert.equal(error.constructor, kind, `${faults} ${error}`);
      assert.deepEqual(logged, kind === InvalidRequestError ? [] : [error]);
      assert(!String(logged).includes("Mallory"));
    }
  }
});

test("without a hook the log is that of the console", async (t) => {
  const { mock } = t.mock.method(console, "warn", () => {});
  await new Client(away, { onError: "allow" }).check([[zone, "x"]]);
  assert.match(mock.calls[0].arguments[0], /^velocityd has not decided: busy/);
});

test("an outcome that is none is refused before it is sent", async () => {
  const decision = await plain.check([[zone, "typescript-sucess"]]);
  const degraded = await new Client(away, { onError: "allow", log() {} }).check([[zone, "x"]]);
  for (const report of [() => decision.report("sucess"), () => degraded.report("sucess"), () => plain.report("1", true)]) {
    await assert.rejects(report, InvalidRequestError);
  }
});

// serve returns a function that logs in to an Express application, and tells the status and Retry-After.
async function serve(t, client, options) {
  const app = express();
  const buckets = (request) => request.method === "POST" ? [[request.body.zone ?? zone, request.body.user]] : [];
  app.all("/login", express.json(), limitLogin(client, { buckets, ...options }), (request, response) => {
    if (request.body?.said) setOutcome(response, request.body.said);
    response.sendStatus(request.body?.password === "horse" ? 204 : 401);
  });
  const server = await new Promise((listening) => {
    const server = app.listen(0, "127.0.0.1", () => listening(server));
  });
  t.after(() => server.close());
  return async (body, method = "POST") => {
    const response = await fetch(`http://127.0.0.1:${server.address().port}/login`, {
      method, headers: { "Content-Type": "application/json", Connection: "close" }, ...body ? { body: JSON.stringify(body) } : {},
    });
    return [response.status, response.headers.get("Retry-After")];
  };
}

test("Express reports how a login ended", async (t) => {
  let noted;
  class Telling extends Client {
    async report(txnId, outcome) {
      return await super.report(txnId, outcome).finally(() => noted(outcome));
    }
  }
  const client = new Telling(url, { token, timeout: patience });
  const logIn = await serve(t, client, { outcome: (status) => ({ 204: "success", 401: "failure" })[status] });
  for (const [body, want] of [[{ password: "horse" }, "success"], [{}, "failure"], [{ password: "horse", said: "failure" }, "failure"]]) {
    const reported = new Promise((resolve) => { noted = resolve; });
    await logIn({ user: "typescript-express", ...body });
    assert.equal(await reported, want);
  }
  assert.equal((await plain.peek(zone, "typescript-express")).velocity, 2);
});

test("Express refuses with the status of the reason", async (t) => {
  const user = "typescript-refused", none = await serve(t, new Client(away, { log() {} }), {});
  const denied = await serve(t, new Client(away, { onError: "deny", log() {} }), {}), real = await serve(t, plain, {});
  assert.deepEqual(await none({ user }), [503, "1"]);
  assert.deepEqual(await denied({ user }), [503, "1"]);
  assert.equal((await real({ user, zone: 4 }))[0], 429);
  for (const wrong of ["", "a\0b", ["a"], 7, undefined]) assert.equal((await real({ user: wrong }))[0], 400, String(wrong));
  assert.equal((await none(undefined, "GET"))[0], 401, "no login is not asked about");
});
