// A program that uses the installed package. The tests compile it, and a line that must not compile says so.
import express from "express";
import { Client, InvalidRequestError, type Decision } from "velocityd";
import { limitLogin, setOutcome } from "velocityd/express";

const velocity = new Client("http://127.0.0.1:8080", { onError: "deny", log: (error) => console.error(error.code) });
const decision: Decision | InvalidRequestError = await velocity.check([[1, "ann"]]).catch((error) => error as InvalidRequestError);
if (decision instanceof InvalidRequestError) throw decision;
await decision.report("success");
// @ts-expect-error an outcome that is none
await decision.report("sucess");
// @ts-expect-error a policy that is none
new Client("http://127.0.0.1:8080", { onError: "open" });

express().post("/login", express.json(), limitLogin(velocity, {
  buckets: (request: express.Request) => [[1, request.body.user], [2, request.ip ?? ""]],
  outcome: (status) => status === 204 ? "success" : undefined,
}), (_request, response) => {
  setOutcome(response, "failure");
  response.sendStatus(401);
});
