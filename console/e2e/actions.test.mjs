// What people do with the console: log in, search and release by the keyboard alone, and read names that attackers have typed.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { join } from 'node:path';
import { launch, open, serve, shots } from './place.mjs';

/** @type {Awaited<ReturnType<typeof serve>>} */ let place;
/** The velocityd serve that people use. @type {Awaited<ReturnType<typeof place.beside>>} */ let service;
/** @type {import('playwright-core').Browser} */ let browser;
/** @type {Record<string, string>} */ const tokens = {};

before(async () => {
  [place, browser] = await Promise.all([serve('--demo', '--require-auth'), launch()]);
  for (const preset of ['analyst', 'helpdesk', 'admin']) {
    const text = place.run('token', 'create', preset, '--preset', preset);
    tokens[preset] = text.match(/vd[A-Za-z0-9_]*_[A-Za-z0-9_-]+|\b[A-Za-z0-9_-]{40,}\b/)?.[0] ?? '';
    assert.ok(tokens[preset], text);
  }
  service = await place.beside('--require-auth');
});
after(async () => {
  await browser?.close();
  await service?.stop();
  await place?.stop();
});

/** Logs in by the keyboard. @param {string} preset @param {string} [url] of an instance */
async function person(preset, url = service.url) {
  const opened = await open(browser, url);
  await opened.page.goto(`${url}/console/`);
  await opened.page.waitForSelector('#token:focus');
  await opened.page.keyboard.type(tokens[preset]);
  await opened.page.keyboard.press('Enter');
  await opened.page.waitForSelector('input.search');
  await opened.page.waitForLoadState(); // the script listens to keys by then
  return opened;
}

test('a token that does not hold is refused in words', async () => {
  const { context, page } = await open(browser, service.url);
  await page.goto(`${service.url}/console/`);
  await page.waitForSelector('#token:focus');
  await page.keyboard.type('nothing');
  await page.keyboard.press('Enter');
  await page.waitForSelector('.fault');
  await page.screenshot({ path: join(shots, 'login-refused.png') });
  assert.match(await page.locator('.fault').innerText(), /No live token/);
  await context.close();
});

test('the helpdesk finds a locked user and releases him by the keyboard alone', async () => {
  const { context, page, faults } = await person('helpdesk');
  await page.keyboard.press('/');
  await page.keyboard.type('ADMIN');
  await page.keyboard.press('Enter');
  await page.waitForURL('**/console/keys/**');
  assert.ok(!page.url().toLowerCase().includes('admin'), 'the name is in the address');
  await focus(page, 'details.change-form > summary:has-text("Release")');
  await page.keyboard.press('Enter');
  await page.keyboard.press('Tab');
  for (let i = 0; i < 4 && !(await page.evaluate(() => document.activeElement?.matches('input[name=reason], textarea[name=reason]'))); i++) await page.keyboard.press('Tab');
  await page.keyboard.type('The user called, and has proved who he is.');
  await page.keyboard.press('Enter');
  await page.waitForSelector('.notice');
  assert.match(await page.locator('.notice').innerText(), /released/i);
  assert.deepEqual(faults, []);
  await context.close();
});

/** Presses Tab until an element has the focus. @param {import('playwright-core').Page} page @param {string} selector */
async function focus(page, selector) {
  const wanted = await page.locator(selector).first().elementHandle();
  assert.ok(wanted, selector);
  for (let i = 0; i < 120; i++) {
    await page.keyboard.press('Tab');
    if (await wanted.evaluate((element) => element === document.activeElement)) return;
  }
  assert.fail(`Tab never reaches ${selector}`);
}

test('the analyst is shown no action that its credential does not allow', async () => {
  const { context, page } = await person('analyst');
  const menu = await page.locator('nav').innerText();
  assert.ok(!/Tokens|Overrides/.test(menu), menu);
  await page.goto(`${service.url}/console/locked`);
  assert.equal(await page.locator('summary:has-text("Release")').count(), 0);
  const answer = await page.goto(`${service.url}/console/tokens`);
  assert.equal(answer?.status(), 403);
  await context.close();
});

test('hostile names are shown as text', async () => {
  const hostile = ['<img src=x onerror=alert(1)>', '"><script>alert(1)</script>', 'a\u202eevil', 'zero\u200bwidth', '{{.}}', '😀'.repeat(63), "';--", 'javascript:alert(1)'];
  const admin = { Authorization: `Bearer ${tokens.admin}`, 'Content-Type': 'application/json' };
  place.run('zone', 'set', '3', '--rate', '9', '--window', '60'); // keys stay as they are
  for (const key of hostile) {
    const answer = await fetch(`${service.url}/v1/check`, { method: 'POST', headers: admin, body: JSON.stringify({ zone_id: 3, bucket_key: key }) });
    assert.ok(answer.ok || answer.status === 400, `${key}: ${answer.status}`);
  }
  const { context, page, faults } = await person('admin');
  page.on('dialog', (dialog) => faults.push(`dialog: ${dialog.message()}`));
  await page.goto(`${service.url}/console/history`);
  const text = await page.locator('main').innerText();
  assert.match(text, /<img src=x onerror=alert\(1\)>/);
  assert.match(text, /U\+202E/);
  assert.match(text, /U\+200B/);
  await page.screenshot({ path: join(shots, 'hostile.png'), fullPage: true });
  await page.locator('a[href*="/console/keys/"]').first().click();
  await page.waitForURL('**/console/keys/**');
  assert.deepEqual(faults, []);
  await context.close();
});

test('a reader who chooses a filter stays at it', async () => {
  const { context, page, faults } = await person('analyst');
  await page.goto(`${service.url}/console/attacks`);
  await page.focus('select[name=within]');
  await page.selectOption('select[name=within]', 'week');
  await page.waitForURL('**within=week*');
  await page.waitForFunction(() => document.activeElement?.getAttribute('name') === 'within');
  assert.deepEqual(faults, []);
  await context.close();
});

test('a wrong form keeps its texts and has the focus at its fault, without the script', async () => {
  const { context, page } = await open(browser, place.url, { javaScriptEnabled: false, extraHTTPHeaders: { Authorization: `Bearer ${tokens.admin}` } });
  await page.goto(`${place.url}/console/zones/1/edit`);
  await page.fill('[name=rate]', '0');
  await page.fill('[name=reason]', 'ticket 4711');
  await page.click('button[value=save]');
  await page.waitForSelector('section.odd:focus');
  assert.ok(await page.isVisible('section.odd button[value=anyway]'));
  assert.equal(await page.inputValue('[name=rate] >> visible=true'), '0');
  await page.goto(`${place.url}/console/overrides`);
  await page.click('summary:has-text("Add an override")');
  await page.fill('form.stack [name=bucket_key]', 'alice');
  await page.selectOption('[name=lasts]', 'until');
  await page.fill('[name=expires_at]', '2020-01-02T03:04');
  await page.fill('form.stack [name=reason]', 'ticket 4711');
  await page.click('button:has-text("Add the override")');
  await page.waitForSelector('[name=expires_at][aria-invalid]:focus');
  assert.equal(await page.inputValue('form.stack [name=bucket_key]'), 'alice');
  await context.close();
});

test('of many zones the names are proposed that have the typed text', async () => {
  for (let id = 100; id < 125; id++) place.run('zone', 'set', String(id), '--rate', '5', '--window', '60', '--description', `shop ${id}`);
  const { context, page, faults } = await person('admin');
  await page.goto(`${service.url}/console/history`);
  await page.focus('[name=zone]');
  await page.keyboard.type('shop 11');
  await page.waitForSelector('#zone-names option[value="117 · shop 117"]', { state: 'attached' });
  assert.equal(await page.locator('#zone-names option').count(), 10);
  await page.keyboard.type('7');
  await page.keyboard.press('Enter');
  await page.waitForURL('**zone=117');
  assert.deepEqual(faults, []);
  await context.close();
});

test('the link to the content moves there, and loads nothing again', async () => {
  const { context, page, faults } = await person('analyst');
  await page.evaluate(() => { document.title = 'not loaded again'; });
  await focus(page, 'a.skip');
  await page.keyboard.press('Enter');
  await page.waitForURL('**#main');
  await page.waitForLoadState('networkidle');
  assert.equal(await page.title(), 'not loaded again');
  assert.deepEqual(faults, []);
  await context.close();
});

test('a revoked token ends its sessions on every instance', async () => {
  const instances = [];
  for (const url of [service.url, place.url]) instances.push({ url, ...await person('analyst', url) });
  place.run('token', 'revoke', 'analyst', '--yes');
  for (const { url, page, context } of instances) {
    let title = '';
    for (const end = Date.now() + 60_000; title !== 'Log in' && Date.now() < end;) {
      await page.goto(`${url}/console/`);
      title = await page.locator('h1').innerText();
    }
    assert.equal(title, 'Log in', url);
    await context.close();
  }
});
