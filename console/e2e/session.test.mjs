// Sessions in a real browser: a link of another site, the end of a session, two ports of a host, a path of another site.
import assert from 'node:assert/strict';
import { createServer, request } from 'node:http';
import { after, before, test } from 'node:test';
import { join } from 'node:path';
import { launch, open, serve, shots } from './place.mjs';

/** @type {Awaited<ReturnType<typeof serve>>} */ let place;
/** @type {Awaited<ReturnType<typeof place.beside>>} */ let service;
/** @type {import('playwright-core').Browser} */ let browser;
let token = '';

before(async () => {
  [place, browser] = await Promise.all([serve('--demo', '--require-auth'), launch()]);
  token = place.run('token', 'create', 'carol', '--preset', 'admin').match(/\b[A-Za-z0-9_-]{40,}\b/)?.[0] ?? '';
  service = await place.beside('--require-auth');
});
after(async () => {
  await browser?.close();
  await service?.stop();
  await place?.stop();
});

/** Logs in on the page that is open. @param {import('playwright-core').Page} page */
async function logIn(page) {
  await page.fill('#token', token);
  await page.click('button.main');
  await page.waitForSelector('form.leave');
}

/** Starts a server on this machine. @param {import('node:http').RequestListener} answer */
async function listen(answer) {
  const server = createServer(answer);
  await new Promise((done) => server.listen(0, '127.0.0.1', () => done(undefined)));
  const address = server.address();
  assert.ok(address && typeof address === 'object');
  return { port: address.port, stop: () => { server.closeAllConnections(); server.close(); } };
}

for (const javaScriptEnabled of [true, false]) {
  test(`a link of another site leads to its page, ${javaScriptEnabled ? 'with' : 'without'} JavaScript`, async () => {
    const other = await listen((_, w) => w.setHeader('Content-Type', 'text/html').end(`<a href="${service.url}/console/zones/1?x=y">zone 1</a>`));
    const { context, page } = await open(browser, service.url, { javaScriptEnabled });
    await page.goto(`${service.url}/console/`);
    await logIn(page);
    /** @type {string[]} */ const sites = [];
    page.on('request', async (r) => { if (r.isNavigationRequest()) sites.push((await r.allHeaders())['sec-fetch-site']); });
    await page.goto(`http://localhost:${other.port}/`); // localhost and 127.0.0.1 are two sites
    await page.click('a');
    await page.waitForURL(`${service.url}/console/zones/1?x=y`);
    assert.ok(sites.includes('cross-site'), `${sites}`);
    assert.match(await page.locator('h1').innerText(), /login|zone 1/i);
    await context.clearCookies();
    await page.goto(`http://localhost:${other.port}/`);
    await page.click('a');
    await page.waitForSelector('#token');
    await logIn(page);
    assert.equal(page.url(), `${service.url}/console/zones/1?x=y`);
    await context.close();
    other.stop();
  });
}

test('the end of a session is seen, and the log-in leads back', async () => {
  const { context, page } = await open(browser, service.url);
  await page.clock.install();
  await page.goto(`${service.url}/console/history?live=on`);
  await logIn(page);
  const cookies = await context.cookies();
  await context.clearCookies();
  await page.locator('h1').click();
  await page.clock.runFor(6_000);
  await page.waitForSelector('.session-end');
  await page.screenshot({ path: join(shots, 'session-ended.png') });
  assert.ok((await page.locator('.session-end').boundingBox())?.height);
  assert.equal(await page.locator('.session-end').innerText(), 'Your session has ended, so this page stays as it is. Log in again');
  await page.click('.session-end a');
  await logIn(page);
  assert.equal(page.url(), `${service.url}/console/history?live=on`);
  await context.addCookies(cookies.map((c) => ({ ...c, value: `${c.value}x` })));
  await page.reload();
  assert.match(await page.locator('main').innerText(), /Your session has ended\. /);
  await page.screenshot({ path: join(shots, 'session-over.png') });
  await context.close();
});

test('a form that is filled is told of the end, and stays', async () => {
  const { context, page } = await open(browser, service.url);
  await page.clock.install();
  await page.goto(`${service.url}/console/zones/1/edit`);
  await logIn(page);
  await page.fill('input[name=rate]', '77');
  await context.clearCookies();
  await page.clock.runFor(31 * 60_000);
  await page.waitForSelector('.session-end');
  const [again] = await Promise.all([context.waitForEvent('page'), page.click('.session-end a')]);
  await logIn(again);
  assert.equal(again.url(), page.url());
  assert.equal(await page.inputValue('input[name=rate]'), '77');
  await context.close();
});

test('two ports of a host have sessions of their own', async () => {
  const { context, page } = await open(browser, service.url);
  for (const url of [service.url, place.url]) {
    await page.goto(`${url}/console/`);
    await logIn(page);
  }
  await page.click('form.leave button');
  await page.waitForSelector('#token');
  await page.goto(`${service.url}/console/zones`);
  assert.equal(await page.locator('form.leave').count(), 1);
  await context.close();
});

test('below a path of another site the console says what it needs', async () => {
  const proxy = await listen((r, w) => {
    if (!r.url?.startsWith('/velocity/')) return void w.writeHeader(404).end('another site');
    r.pipe(request(service.url + r.url.slice('/velocity'.length), { method: r.method, headers: r.headers }, (answer) => {
      w.writeHead(answer.statusCode ?? 500, answer.headers);
      answer.pipe(w);
    }));
  });
  const { context, page } = await open(browser, `http://127.0.0.1:${proxy.port}`);
  await page.goto(`http://127.0.0.1:${proxy.port}/velocity/console/zones/1`);
  assert.equal(await page.locator('.bare').isVisible(), true);
  assert.match(await page.locator('.bare').innerText(), /a name of its own[^]*server_name/);
  await page.screenshot({ path: join(shots, 'path-prefix.png') });
  await page.goto(`${service.url}/console/`);
  assert.equal(await page.locator('.bare').isVisible(), false);
  await context.close();
  proxy.stop();
});

test('look-alikes are marked, and what is copied is the name', async () => {
  const names = ['a b', 'a  b', 'mallory', 'mallory ', ' mallory', '\u0430dmin', '\u0441\u043e\u0441\u043e', 'carol.johanna.smith-lindqvist@accounts.mail.example.com'];
  place.run('zone', 'set', '3', '--rate', '9', '--window', '60'); // keys stay as they are
  for (const key of names) {
    const headers = { Authorization: `Bearer ${token}`, 'Content-Type': 'application/json' };
    const answer = await fetch(`${service.url}/v1/check`, { method: 'POST', headers, body: JSON.stringify({ zone_id: 3, bucket_key: key }) });
    assert.ok(answer.ok, key);
  }
  const { context, page, faults } = await open(browser, service.url, { viewport: { width: 390, height: 844 } });
  await page.goto(`${service.url}/console/history?zone=3`);
  await logIn(page);
  const copied = await page.locator('#rows .names .key').evaluateAll((keys) => keys.map((key) => {
    getSelection()?.selectAllChildren(key);
    return getSelection()?.toString();
  }));
  assert.deepEqual(copied.reverse(), names);
  const marks = await page.locator('#rows .names .key').evaluateAll((keys) => keys.map((key) => [...key.querySelectorAll('span')].map((mark) => mark.getClientRects()[0].width > 2 ? mark.className : '')));
  assert.deepEqual(marks.reverse(), [[], ['blank', 'blank'], [], ['blank'], ['blank'], ['alike'], Array(4).fill('alike'), []]);
  await page.screenshot({ path: join(shots, 'look-alikes.png'), fullPage: true });
  assert.deepEqual(faults, []);
  await context.close();
});
