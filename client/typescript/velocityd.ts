/**
 * Asks a velocityd, before a login, whether the attempt may go ahead, and reports afterwards how it ended.
 *
 *     const velocity = new Client("http://127.0.0.1:8080", { token, onError: "deny" });
 *     const decision = await velocity.check([[1, user], [2, address]]);
 *     if (decision.blocked) {
 *       // refuse the login, and do not look at the password
 *     } else {
 *       // look at the password
 *       await decision.report(passwordIsRight ? "success" : "failure");
 *     }
 *
 * It asks and asks again as the client in Go does, see docs/clients.md. It follows no redirects. Each error but an InvalidRequestError
 * is also logged, because somebody has to mend its cause. No line names a key.
 */

/** The zone's id, and the key: a user's name, an address. */
export type Bucket = readonly [zoneId: number, key: string];

export type Outcome = "success" | "failure";

/** The service's answer for one bucket. Its ids are strings, because numbers above 2^53 would be rounded. */
export interface Verdict {
  readonly zone_id: number;
  readonly bucket_key: string;
  readonly blocked: boolean;
  readonly would_block: boolean;
  readonly reason?: string;
  readonly override_id?: string;
  readonly txn_id?: string;
  readonly rate: number;
  readonly window: number;
  readonly velocity?: number;
  readonly remaining?: number;
  readonly retry_after: number;
  readonly reset_after?: number;
}

export interface Options {
  /** A token of `velocityd token create`. Give it over https, or to a service on the same machine. */
  readonly token?: string;
  /** Bounds each call, with all its tries, in milliseconds. 1000 without it. */
  readonly timeout?: number;
  /**
   * Says what becomes of a check that was not decided: "raise", which is the default, throws the VelocityError, "allow" lets the
   * attempt pass (fail open), and "deny" blocks it (fail closed); the decision's error then has the reason. Watch for it: a wrong
   * token also gives such answers. An InvalidRequestError is thrown in any case. It comes from the check itself, so a user who can
   * cause one, by a name that no account has, would pass without a limit.
   */
  readonly onError?: "raise" | "allow" | "deny";
  /** Is told of each error that is not the user's fault. Without it, that is a line of console.warn. */
  readonly log?: (error: VelocityError) => void;
}

const mostTries = 3; // of a call, the first included
const longestTry = 2000; // ms, so that an instance that hangs does not use up the time of a long call
const firstPause = 100, lastPause = 1000; // ms; the longest pause doubles from one to the other
const fullBudget = 500, retryPrice = 5, tryReward = 1; // those of the client in Go, and of the AWS SDKs
const longestAnswer = 8 << 20; // bytes, above the answer to a thousand checks
const longestKey = 255; // characters

const mayPass: readonly number[] = [408, 500, 502, 503, 504]; // statuses after which asking again may help
const uncounted: readonly string[] = ["busy", "no_keys", "not_ready", "too_many_streams"]; // codes of 503: nothing was counted
const unreached: readonly unknown[] = ["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH", "UND_ERR_CONNECT_TIMEOUT"];

/**
 * Says that a call has no answer. A blocked attempt is an answer, and never an error.
 *
 * Each is of one of the four classes below. code is the code of the service's problem, by the table in docs/auth-server.md, such as "invalid_request" or "unauthenticated". Three
 * codes also come from the client: "busy" if the service was not reached, "undecided" if its answer was lost, and "unexpected_answer"
 * if something answered that is no velocityd. status is the HTTP status, or 0 without an answer. mayBeCounted is true if the attempt
 * may have been counted, or the change made. The message does not name a bucket's key.
 */
export class VelocityError extends Error {
  readonly code: string;
  readonly status: number;
  readonly mayBeCounted: boolean;
  /** Whether asking again may help; the client has done so. */
  readonly again: boolean;
  /** The Retry-After of the answer, in ms, or 0. */
  readonly after: number;

  constructor(code: string, detail: string, status = 0, mayBeCounted = false, again = false, after = 0) {
    super(`${code}: ${detail}`);
    this.name = new.target.name;
    this.code = code;
    this.status = status;
    this.mayBeCounted = mayBeCounted;
    this.again = again;
    this.after = after;
  }
}

/** The question is wrong, as one about a name that no account can have: the user's fault. No policy answers it, and it is not logged. */
export class InvalidRequestError extends VelocityError {}

/** The token is wrong, or may not ask this: somebody has to mend it. */
export class NotAllowedError extends VelocityError {}

/** The zone or the attempt does not exist: somebody has to mend it. */
export class NotFoundError extends VelocityError {}

/** There is no answer: the service is away, busy or slow, or something else answers at its address. */
export class UndecidedError extends VelocityError {}

const kinds: Readonly<Record<string, typeof VelocityError>> = {
  invalid_request: InvalidRequestError, conflict: InvalidRequestError, payload_too_large: InvalidRequestError,
  unauthenticated: NotAllowedError, forbidden: NotAllowedError, missing_scope: NotAllowedError, not_found: NotFoundError,
};

function errorOf(code: string, detail: string, status = 0, mayBeCounted = false, again = false, after = 0): VelocityError {
  const kind = Object.hasOwn(kinds, code) ? kinds[code]! : status === 401 || status === 403 ? NotAllowedError : UndecidedError;
  return new kind(code, detail, status, mayBeCounted, again, after);
}

interface Answer {
  readonly blocked: boolean;
  readonly would_block: boolean;
  readonly retry_after: number;
  readonly txn_id?: string;
  readonly buckets: readonly Verdict[];
}

/** The answer to a check. */
export class Decision {
  /** The answer: refuse the login if it is true. */
  readonly blocked: boolean;
  /** The same, but true also if a zone in shadow mode had no room. */
  readonly wouldBlock: boolean;
  /** How many seconds later an attempt may pass, or 0 if this one did. */
  readonly retryAfter: number;
  readonly attemptId: string;
  /** A string, because numbers above 2^53 would be rounded. A degraded decision has none. */
  readonly txnId: string | undefined;
  /**
   * Whether the database was not asked: the service answered by the settings of its zones, or, if there is an error, the client by its
   * onError. Such an attempt has nothing to report.
   */
  readonly degraded: boolean;
  /** Why the client answered by its onError. */
  readonly error: VelocityError | undefined;
  readonly #buckets: readonly Verdict[];
  readonly #client: Client;

  constructor(answer: Answer, attemptId: string, client: Client, error?: VelocityError) {
    this.blocked = answer.blocked;
    this.wouldBlock = answer.would_block;
    this.retryAfter = answer.retry_after;
    this.attemptId = attemptId;
    this.txnId = answer.txn_id;
    this.degraded = answer.txn_id === undefined;
    this.error = error;
    this.#buckets = answer.buckets;
    this.#client = client;
  }

  /** The answer for each bucket. They name keys, so neither console.log nor JSON.stringify of the decision shows them. */
  get buckets(): readonly Verdict[] {
    return this.#buckets;
  }

  /**
   * Whether the attempt is blocked although no limit says so: onError or the zone's on_failure answered, because the service or its
   * database is away. To a user this is a failure, 503, and not too many attempts, 429.
   */
  get isUndecided(): boolean {
    return this.blocked && this.degraded && !this.#buckets.some((bucket) => bucket.reason);
  }

  /**
   * Reports how the login ended, and returns whether the service has noted it.
   *
   * It does nothing for a degraded decision. It asks again as check does; to repeat a report changes nothing. With onError "raise" it
   * throws every VelocityError. With a policy it returns false instead, so that no login fails because of its report. Another
   * outcome throws InvalidRequestError in any case. Code "conflict" is the answer for a blocked attempt, for another outcome than before, and for a success
   * after the zone's reserve_ttl.
   */
  async report(outcome: Outcome): Promise<boolean> {
    checkOutcome(outcome);
    return this.txnId !== undefined && await this.#client.report(this.txnId, outcome);
  }
}

interface Question {
  readonly buckets: readonly { readonly zone_id: number; readonly bucket_key: string }[];
  readonly attempt_id: string;
  readonly secret_hash?: string | undefined;
}

/**
 * Asks one service. A program should have one Client of it: its calls share a budget of tries.
 *
 * A call asks up to three times: after 408, 500, 502, 503, 504, a lost answer and a refused connection, under the same attempt id, so
 * that the attempt counts once. Between tries it waits for Retry-After, which the service writes in whole seconds, or for up to 100, then
 * 200 ms, at random. It does not ask again if that would end after the timeout, nor if a hundred tries in a row have failed lately.
 */
export class Client {
  readonly #url: string;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #timeout: number;
  readonly #onError: "raise" | "allow" | "deny";
  readonly #log: (error: VelocityError) => void;
  #spent = 0;

  /**
   * url is like "http://127.0.0.1:8080", and may end with a path. The constructor connects to nothing. It throws TypeError for an
   * address, a token or an onError that cannot be.
   */
  constructor(url: string, options: Options = {}) {
    const { protocol, username, search, hash } = new URL(url);
    if (!/^https?:$/.test(protocol) || username || search || hash) {
      throw new TypeError("the address of a service must be like http://127.0.0.1:8080");
    }
    this.#onError = options.onError ?? "raise";
    if (!["raise", "allow", "deny"].includes(this.#onError)) throw new TypeError('onError must be "raise", "allow" or "deny"');
    if (!/^[ -~]*$/.test(options.token ?? "")) throw new TypeError("the token must be printable ASCII");
    this.#log = options.log ?? ((error) => console.warn(`velocityd has not decided: ${error.message}`));
    this.#url = url.replace(/\/+$/, "");
    this.#timeout = options.timeout ?? 1000;
    this.#headers = {
      Accept: "application/json, application/problem+json", "Content-Type": "application/json", "User-Agent": "velocityd-typescript",
      ...options.token ? { Authorization: `Bearer ${options.token}` } : {},
    };
  }

  /**
   * Asks whether one attempt may go ahead in all these buckets, which records it.
   *
   * attemptId names the attempt, and must be 128 random bits of your server: the same check asked twice under one id counts once.
   * Without one the client makes it. secretHash is explained in docs/auth-server.md. Throws VelocityError.
   */
  async check(buckets: readonly Bucket[], options: { attemptId?: string; secretHash?: string } = {}): Promise<Decision> {
    const question = questionOf(buckets, options.attemptId, options.secretHash);
    try {
      return await this.#retry("POST", "/v1/check", question, (answer) => this.#decision(answer, question));
    } catch (error) {
      if (this.#isThrown(error) || error instanceof InvalidRequestError) throw error;
      const blocked = this.#onError === "deny";
      const answer = { blocked, would_block: blocked, retry_after: Number(blocked), buckets: [] };
      return new Decision(answer, question.attempt_id, this, error as VelocityError);
    }
  }

  /**
   * Asks up to a thousand checks in one call, in their order, and returns a Decision or a VelocityError for each. There is no policy: it
   * throws the error of the call as a whole.
   */
  async checkAll(checks: readonly (readonly Bucket[])[]): Promise<(Decision | VelocityError)[]> {
    const questions = checks.map((buckets) => questionOf(buckets));
    return await this.#retry("POST", "/v1/checks", { checks: questions }, (answer) => {
      const results = (answer as { results: { decision?: unknown; problem?: { status: number } }[] }).results;
      if (results.length !== questions.length) throw new TypeError("results");
      return questions.map((question, i) => {
        const { decision, problem } = results[i]!;
        return problem ? this.#logged(problemOf(problem, problem.status, null, true)) : this.#decision(decision, question);
      });
    });
  }

  /** Does what Decision.report does, for a program that has kept the txnId alone. */
  async report(txnId: string, outcome: Outcome): Promise<boolean> {
    checkOutcome(outcome);
    try {
      return await this.#retry("POST", `/v1/txns/${encodeURIComponent(txnId)}/outcome`, { outcome }, (answer) => {
        const receipt = answer as Record<string, unknown>;
        if (receipt["txn_id"] !== txnId || receipt["outcome"] !== outcome) throw new TypeError("another report");
        return true;
      });
    } catch (error) {
      if (this.#isThrown(error) || (error as VelocityError).code === "invalid_request") throw error;
      return false;
    }
  }

  /** Returns how a bucket stands, as the service writes it, without making an attempt. Throws VelocityError. */
  async peek(zoneId: number, key: string): Promise<Readonly<Record<string, unknown>>> {
    return await this.#retry("GET", bucketPath(zoneId, key), undefined, recordOf);
  }

  /** Empties a bucket and ends its lockout, as after a password reset, and returns how it stands. Throws VelocityError. */
  async release(zoneId: number, key: string, reason: string): Promise<Readonly<Record<string, unknown>>> {
    return await this.#retry("POST", `${bucketPath(zoneId, key)}/release`, { reason }, recordOf);
  }

  #isThrown(error: unknown): boolean {
    return !(error instanceof VelocityError) || this.#onError === "raise";
  }

  #logged(error: VelocityError): VelocityError {
    if (!(error instanceof InvalidRequestError)) this.#log(error);
    return error;
  }

  /** Asks until there is an answer, which read makes of the JSON, or until no try may follow. */
  async #retry<T>(method: string, path: string, question: unknown, read: (answer: unknown) => T): Promise<T> {
    const deadline = performance.now() + this.#timeout;
    let lost: VelocityError | undefined;
    let paid = 0;
    for (let tries = 1; ; tries++) {
      let failure: VelocityError;
      try {
        const answer = await this.#try(method, path, question, Math.min(deadline - performance.now(), longestTry), read);
        this.#spend(-Math.max(paid, tryReward));
        return answer;
      } catch (error) {
        if (!(error instanceof VelocityError)) throw error;
        failure = error;
      }
      if (failure.mayBeCounted) lost ??= failure;
      const pause = failure.after || Math.random() * Math.min(lastPause, firstPause * 2 ** (tries - 1));
      if (!failure.again || tries === mostTries || performance.now() + pause >= deadline || !this.#spend(retryPrice)) {
        // "busy" would say that nothing was counted, which an earlier try contradicts.
        throw this.#logged(lost && failure.code === "busy" ? lost : failure);
      }
      paid = retryPrice;
      await new Promise((resume) => setTimeout(resume, pause));
    }
  }

  /** Takes tokens from the budget, or gives them back; returns false if there are too few. */
  #spend(tokens: number): boolean {
    if (this.#spent + tokens > fullBudget) return false;
    this.#spent = Math.max(0, this.#spent + tokens);
    return true;
  }

  /** Asks once, for so many ms. Its errors say whether asking again may help. */
  async #try<T>(method: string, path: string, question: unknown, length: number, read: (answer: unknown) => T): Promise<T> {
    let response: Response, text: string;
    const changes = method !== "GET";
    try {
      const init: RequestInit = {
        method, headers: this.#headers, redirect: "manual", cache: "no-store", signal: AbortSignal.timeout(Math.max(0, Math.ceil(length))),
      };
      if (question !== undefined) init.body = JSON.stringify(question);
      response = await fetch(this.#url + path, init);
      text = await textOf(response);
    } catch (error) {
      const cause = (error as { cause?: { code?: unknown } }).cause?.code;
      const isReached = !unreached.includes(cause);
      const detail = isReached ? `no answer: ${(error as Error).name}` : `not reached: ${cause}`;
      throw errorOf(isReached && changes ? "undecided" : "busy", detail, 0, isReached && changes, true);
    }
    return readAnswer(response, text, changes, read);
  }

  /** Reads a decision, which must be about the buckets of the question. A decision that is not degraded names its txn. */
  #decision(answer: unknown, question: Question): Decision {
    const a = answer as Answer & { degraded?: boolean };
    const isFit = typeof a.blocked === "boolean" && typeof a.would_block === "boolean" && Number.isInteger(a.retry_after)
      && (a.degraded === true ? a.txn_id === undefined : typeof a.txn_id === "string" && /^[1-9]\d{0,19}$/.test(a.txn_id))
      && a.buckets.length === question.buckets.length && a.buckets.every((b, i) => b.zone_id === question.buckets[i]!.zone_id);
    if (!isFit) throw new TypeError("another check");
    return new Decision(a, question.attempt_id, this);
  }
}

function questionOf(buckets: readonly Bucket[], attemptId?: string, secretHash?: string): Question {
  for (const [, key] of buckets) { // a long key would take the time of the call
    if (typeof key !== "string" || key === "" || key.length > 2 * longestKey || [...key].length > longestKey) {
      throw errorOf("invalid_request", `a key must be a text of 1 to ${longestKey} characters`);
    }
  }
  const named = buckets.map(([zone_id, bucket_key]) => ({ zone_id, bucket_key }));
  return { buckets: named, attempt_id: attemptId ?? crypto.randomUUID(), secret_hash: secretHash };
}

function checkOutcome(outcome: string): void {
  if (outcome !== "success" && outcome !== "failure") throw errorOf("invalid_request", 'an outcome is "success" or "failure"');
}

function bucketPath(zoneId: number, key: string): string {
  return `/v1/zones/${zoneId}/buckets/${encodeURIComponent(key)}`;
}

function recordOf(answer: unknown): Readonly<Record<string, unknown>> {
  if (typeof answer !== "object" || answer === null) throw new TypeError("no object");
  return answer as Record<string, unknown>;
}

function readAnswer<T>(response: Response, text: string, changes: boolean, read: (answer: unknown) => T): T {
  const media = (response.headers.get("Content-Type") ?? "").split(";")[0]!.trim();
  let parsed: unknown;
  if (media === "application/json" || media === "application/problem+json") {
    try {
      parsed = JSON.parse(text);
      if (response.ok) return read(parsed);
    } catch { /* below */ }
  }
  if (response.ok) throw errorOf("unexpected_answer", "the answer is not what a velocityd writes", response.status, changes);
  const problem = media === "application/problem+json" ? parsed : undefined;
  throw problemOf(problem, response.status, response.headers.get("Retry-After"), changes);
}

/** Returns the error of an answer with this status. Without a problem in it, a proxy has answered, and the service may have acted. */
function problemOf(problem: unknown, status: number, retryAfter: string | null, changes: boolean): VelocityError {
  const { code: given, detail } = (problem ?? {}) as { code?: unknown; detail?: unknown };
  const code = String(given || (status >= 500 && changes ? "undecided" : "unexpected_answer"));
  return errorOf(code, String(detail || `unexpected answer ${status}: is there a velocityd at this address?`), status,
    changes && status >= 500 && !uncounted.includes(code), mayPass.includes(status), milliseconds(retryAfter ?? ""));
}

/** Reads Retry-After, as seconds or as a date. It is 0 if it cannot be read. */
function milliseconds(retryAfter: string): number {
  if (/^\d+$/.test(retryAfter)) return 1000 * Number(retryAfter);
  return Math.max(0, (Date.parse(retryAfter) || 0) - Date.now());
}

/** Reads a body to its end, or throws if it is too long. */
async function textOf(response: Response): Promise<string> {
  const reader = response.body?.getReader();
  const decoder = new TextDecoder();
  let text = "";
  for (let length = 0; reader;) {
    const { done, value } = await reader.read();
    if (done) break;
    length += value.length;
    if (length > longestAnswer) {
      await reader.cancel();
      break; // what was read is no JSON
    }
    text += decoder.decode(value, { stream: true });
  }
  return text + decoder.decode();
}
