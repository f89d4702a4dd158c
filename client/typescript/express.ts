/**
 * Middleware for Express, and for all that calls handlers as Express does: it asks before a login reaches its handler, refuses a
 * blocked one, and reports how an allowed one ended.
 *
 *     app.post("/login", express.urlencoded(), limitLogin(velocity, {
 *       buckets: (request) => [[1, request.body.user], [2, request.ip]],
 *       outcome: (status) => status === 303 ? "success" : status === 401 ? "failure" : undefined,
 *     }), handler);
 */
import { InvalidRequestError, VelocityError, type Bucket, type Client, type Outcome } from "./velocityd.js";

interface Response {
  statusCode: number;
  readonly headersSent: boolean;
  setHeader(name: string, value: string): unknown;
  end(text: string): unknown;
  once(event: "close", listener: () => void): unknown;
}

export interface LoginOptions<Request> {
  /** Returns the buckets of a login, and none for a request that is no login: that goes on unasked. */
  readonly buckets: (request: Request) => readonly Bucket[];
  /**
   * Tells by the status of an answer how the login ended, and returns undefined if that does not tell. What setOutcome has said wins.
   * Give none to a handler that answers a wrong password with 200: each guess would be reported as a success.
   */
  readonly outcome?: (status: number) => Outcome | undefined;
}

const said = new WeakMap<object, Outcome>();

/** Says how the login ended that a response answers. */
export function setOutcome(response: object, outcome: Outcome): void {
  said.set(response, outcome);
}

/** Returns the middleware. A blocked login gets 429, one that was not decided 503, and one that no account can have 400. */
export function limitLogin<Request>(client: Client, options: LoginOptions<Request>) {
  return async (request: Request, response: Response, next: (error?: unknown) => void): Promise<void> => {
    try {
      const buckets = options.buckets(request);
      if (buckets.length === 0) return next();
      const decision = await client.check(buckets);
      if (decision.isUndecided) return refuse(response, 503, 1);
      if (decision.blocked) return refuse(response, 429, decision.retryAfter);
      response.once("close", () => {
        const outcome = said.get(response) ?? (response.headersSent ? options.outcome?.(response.statusCode) : undefined);
        if (outcome) decision.report(outcome).catch(() => { /* it is logged, and the login has its answer */ });
      });
    } catch (error) {
      if (error instanceof InvalidRequestError) return refuse(response, 400, 0);
      return error instanceof VelocityError ? refuse(response, 503, 1) : next(error);
    }
    next();
  };
}

const texts: Readonly<Record<number, string>> = {
  400: "The login is malformed.\n", 429: "Too many attempts. Try again later.\n", 503: "Log-ins are not possible at the moment.\n",
};

function refuse(response: Response, status: number, retryAfter: number): void {
  response.statusCode = status;
  response.setHeader("Content-Type", "text/plain; charset=utf-8");
  if (retryAfter > 0) response.setHeader("Retry-After", String(retryAfter));
  response.end(texts[status]!);
}
