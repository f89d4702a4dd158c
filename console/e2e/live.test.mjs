// The parts of pages that live: they renew themselves, pause together, and say when they are old. The clock of the page is the
// test's, so nothing here waits for the time of the machine.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { launch, open, serve } from './place.mjs';

/** @type {Awaited<ReturnType<typeof serve>>} */ let place;
/** @type {import('playwright-core').Browser} */ let browser;

before(async () => {
  [place, browser] = await Promise.all([serve('--demo'), launch()]);
});
after(async () => {
  await browser?.close();
  await place?.stop();
});

/** Opens a page whose clock moves when the test says so. @param {string} path @param {import('playwright-core').BrowserContextOptions} [options] */
async function look(path, options) {
  const opened = await open(browser, place.url, options);
  await opened.page.clock.install();
  /** @type {string[]} */ const renewals = [];
  opened.page.on('request', (request) => { if (request.headers()['x-live']) renewals.push(request.url()); });
  await opened.page.goto(`${place.url}/console/${path}`);
  return { ...opened, renewals };
}

/** Waits for the answer to the next renewal. @param {import('playwright-core').Page} page */
const renewed = (page) => page.waitForResponse((answer) => !!answer.request().headers()['x-live']);

test('one button pauses all live parts of a page, and goes on with them', async () => {
  const { context, page, renewals, faults } = await look('');
  const button = page.locator('[data-pause]');
  assert.equal(await button.innerText(), 'Live – pause');
  let next = renewed(page);
  await page.clock.runFor(11_000);
  await next;
  await page.keyboard.press('p');
  assert.equal(await button.getAttribute('aria-pressed'), 'true');
  const before = renewals.length;
  await page.clock.runFor(60_000);
  assert.equal(renewals.length, before, 'a paused page asks');
  await button.click();
  await page.locator('h1').click(); // a part in which the reader is at work is left alone
  next = renewed(page);
  await page.clock.runFor(11_000);
  await next;
  assert.deepEqual(faults, []);
  await context.close();
});

test('the live switch of the history shows attempts as they come', async () => {
  const { context, page, faults } = await look('history');
  await page.check('input[name=live]');
  await page.waitForSelector('#rows[data-live]');
  const { txn_id: id } = await place.post('/v1/check', { zone_id: 1, bucket_key: 'just-now' });
  assert.equal(await page.locator(`#rows a[href$="/console/txns/${id}"]`).count(), 0);
  await page.locator('h1').click();
  await page.clock.runFor(6_000);
  await page.waitForSelector(`#rows a[href$="/console/txns/${id}"]`);
  assert.deepEqual(faults, []);
  await context.close();
});

test('a countdown counts down', async () => {
  const { context, page, faults } = await look('locked');
  const left = page.locator('time[data-until]').first();
  const before = await left.innerText();
  await page.clock.runFor(61_000);
  assert.notEqual(await left.innerText(), before);
  assert.deepEqual(faults, []);
  await context.close();
});

test('numbers that cannot be renewed are said to be old, until they are renewed', async () => {
  const { context, page } = await look('');
  await page.route('**/console/', (route) => route.abort());
  await page.clock.runFor(11_000);
  await page.waitForSelector('body.stale');
  await page.unroute('**/console/');
  const next = renewed(page);
  await page.clock.runFor(11_000);
  await next;
  await page.waitForSelector('body:not(.stale)');
  await context.close();
});

test('a decision can be copied as JSON', async () => {
  const { context, page, faults } = await look('history', { permissions: ['clipboard-read', 'clipboard-write'] });
  await page.goto(new URL(await page.locator('#rows a[href*="/console/txns/"]').first().getAttribute('href') ?? '', place.url).href);
  await page.click('summary:has-text("As JSON")');
  await page.click('[data-copy]');
  await page.waitForFunction(() => document.getElementById('said')?.textContent === 'Copied.');
  const copied = JSON.parse(await page.evaluate(() => navigator.clipboard.readText()));
  assert.deepEqual(copied, JSON.parse(await page.locator('#json').innerText()));
  assert.deepEqual(faults, []);
  await context.close();
});
