import { isIP } from 'node:net';

const service = process.env.VELOCITY_URL ?? 'http://127.0.0.1:8080';
const policy = { failOpen: false, budget: 5000, each: 2000 }; // without a decision; ms for all tries of a call, and for one
const headers = { 'Content-Type': 'application/json' };
if (process.env.VELOCITY_TOKEN) headers.Authorization = `Bearer ${process.env.VELOCITY_TOKEN}`;

class Unknown extends Error {} // there was no answer in time
class Refused extends Unknown {} // the call or the answer is wrong, and will be until somebody mends it

async function call(path, body) {
  const deadline = Date.now() + policy.budget;
  for (;;) {
    let pause = 100;
    let failure;
    try {
      const answer = await fetch(service + path, {
        method: 'POST', body: JSON.stringify(body), headers, redirect: 'manual', // the token goes nowhere else
        signal: AbortSignal.timeout(Math.max(100, Math.min(policy.each, deadline - Date.now()))),
      });
      const text = await answer.text();
      if (answer.ok) return parse(text);
      failure = new Unknown(`status ${answer.status}`);
      if (![408, 500, 503, 504].includes(answer.status)) throw new Refused(`${failure.message}: ${text.slice(0, 1000)}`);
      const after = answer.headers.get('Retry-After') ?? '';
      if (/^\d+$/.test(after)) pause = 1000 * after;
    } catch (error) { // refused, reset, cut or too slow
      if (error instanceof Refused) throw error; // see the table of errors
      failure = error;
    }
    if (Date.now() + pause >= deadline) throw new Unknown(failure.message, { cause: failure });
    await new Promise((resume) => setTimeout(resume, pause));
  }
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    throw new Refused('the answer is no JSON');
  }
}

// Says whether an account can have this name. Set 64 to the width of your column of names, 85 at most.
function isName(user) {
  const bare = [...user.normalize('NFKC').trim()];
  return bare.length > 0 && bare.length <= 64 && [...user].length <= 255 && !/[\p{Cc}\p{Cs}]/u.test(user);
}

// Returns whether the login may go ahead, and the txn to report, if there is something to report.
async function mayTry(user, address) {
  if (!isName(user)) return { allowed: false }; // answer as to a wrong password
  const peer = address.replace(/%.*$/, '');
  if (!isIP(peer)) throw new TypeError('the peer has no address');
  try {
    const decision = await call('/v1/check', {
      attempt_id: crypto.randomUUID(), // the same for all tries
      buckets: [{ zone_id: 1, bucket_key: user }, { zone_id: 2, bucket_key: peer }],
    });
    if (typeof decision?.blocked !== 'boolean') throw new Refused('the answer is no decision');
    return { allowed: !decision.blocked, txn: decision.blocked ? undefined : decision.txn_id };
  } catch (error) {
    if (error instanceof Refused) console.error(`ALERT: velocityd refuses our calls, and will until somebody mends it: ${error.message}`);
    else if (error instanceof Unknown) console.error(`velocityd has not answered: ${error.message}`);
    else throw error;
    return { allowed: policy.failOpen };
  }
}

// Says how the login ended. The login goes on whatever becomes of the report.
async function report(txn, success) {
  if (txn === undefined) return;
  try {
    await call(`/v1/txns/${txn}/outcome`, { outcome: success ? 'success' : 'failure' });
  } catch (error) {
    console.error(`the outcome was not reported: ${error.message}`);
  }
}

// Use:
const { allowed, txn } = await mayTry('dave', '203.0.113.9');
console.log('allowed:', allowed);
if (allowed) await report(txn, true); // look at the password, then say how it ended
