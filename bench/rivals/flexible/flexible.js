// rate-limiter-flexible's RateLimiterMySQL, asked in a closed loop in its own
// process, without HTTP. Reads an order as JSON from its standard input, as the
// load generator does, and prints the same summary.
'use strict';

const fs = require('node:fs');
const { performance } = require('node:perf_hooks');
const mysql = require('mysql2');
const { RateLimiterMySQL } = require('rate-limiter-flexible');

function open(order, pool, draw) {
  return new Promise((resolve, reject) => {
    const limiter = new RateLimiterMySQL({
      storeClient: pool,
      dbName: order.database,
      tableName: `zone_${draw.zone}`,
      points: draw.rate,
      duration: draw.window,
    }, (err) => (err ? reject(err) : resolve(limiter)));
  });
}

function keyOf(order, draw, caller, n) {
  if (draw.of === 0) {
    return `${draw.prefix}${order.seed}-${caller}-${n}`;
  }
  const hot = draw.hot > 0 && Math.random() < draw.hot;
  const number = hot ? 0 : Math.floor(Math.random() * draw.of);
  return draw.prefix + String(number).padStart(5, '0');
}

async function loop(order, limiters, caller, until, sum) {
  for (let n = 0; performance.now() < until; n++) {
    const asked = performance.now();
    try {
      for (let i = 0; i < limiters.length; i++) {
        await limiters[i].consume(keyOf(order, order.draws[i], caller, n));
      }
      sum.admitted++;
    } catch (refusal) {
      if (refusal instanceof Error) {
        sum.errors++;
        sum.first_error = sum.first_error || refusal.message;
        continue;
      }
      sum.blocked++;
    }
    sum.latencies.push(performance.now() - asked);
  }
}

function quantile(sorted, q) {
  return sorted.length ? Math.round(sorted[Math.min(Math.floor(q * sorted.length), sorted.length - 1)] * 1e6) : 0;
}

// connect opens the pool's connections before the clock starts.
async function connect(pool, callers) {
  const connections = await Promise.all(Array.from({ length: callers }, () => pool.promise().getConnection()));
  connections.forEach((connection) => connection.release());
}

async function main() {
  const order = JSON.parse(fs.readFileSync(0, 'utf8'));
  const pool = mysql.createPool({ socketPath: order.address, user: 'root', connectionLimit: order.callers });
  await connect(pool, order.callers);
  const limiters = await Promise.all(order.draws.map((draw) => open(order, pool, draw)));
  const sum = { admitted: 0, blocked: 0, errors: 0, first_error: '', latencies: [] };
  const began = performance.now();
  const until = began + order.seconds * 1000;
  await Promise.all(Array.from({ length: order.callers }, (_, i) => loop(order, limiters, i, until, sum)));
  const seconds = (performance.now() - began) / 1000;
  const sorted = Float64Array.from(sum.latencies).sort();
  process.stdout.write(`${JSON.stringify({
    admitted: sum.admitted, blocked: sum.blocked, errors: sum.errors, first_error: sum.first_error, seconds,
    p50: quantile(sorted, 0.5), p99: quantile(sorted, 0.99), max: quantile(sorted, 1),
  })}\n`);
  pool.end();
}

main().catch((err) => {
  process.stderr.write(`${err.stack}\n`);
  process.exit(1);
});
