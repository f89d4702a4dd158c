// Every page in light and dark, wide and narrow: no violation of WCAG 2.2 AA that axe finds, no error, no report of the content
// policy, no request to another origin, and nothing wider than the window.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { join } from 'node:path';
import AxeBuilder from '@axe-core/playwright';
import { launch, open, serve, shots } from './place.mjs';

/** @type {Awaited<ReturnType<typeof serve>>} */ let place;
/** @type {import('playwright-core').Browser} */ let browser;

before(async () => {
  [place, browser] = await Promise.all([serve('--demo'), launch()]);
});
after(async () => {
  await browser?.close();
  await place?.stop();
});

/**
 * Finds a link on a page. @param {import('playwright-core').Page} page @param {string} from @param {string} selector
 */
async function linked(page, from, selector) {
  await page.goto(`${place.url}/console/${from}`);
  const path = await page.locator(selector).first().getAttribute('href');
  assert.ok(path, `no ${selector} on ${from || 'the first page'}`);
  return path.replace('/console/', '');
}

/** Has a preview made of another rate, and moves its slider. @param {import('playwright-core').Page} page */
async function previewed(page) {
  await page.goto(`${place.url}/console/zones/1/edit`);
  await page.fill('input[name=rate]', '8');
  await page.click('button[value=preview]');
  const slider = page.locator('input[data-preview]');
  await slider.waitFor({ timeout: 120_000 });
  assert.equal(await page.locator('button[value="save:8"]').isVisible(), true);
  await slider.fill('2');
  assert.equal(await slider.getAttribute('aria-valuetext'), '3');
  assert.equal(await page.locator('button[value="save:8"]').isVisible(), false);
  assert.equal(await page.locator('button[value="save:3"]').isVisible(), true);
  assert.equal(await page.locator('svg g[data-choice="7"]').isVisible(), false);
  return page.url().replace(`${place.url}/console/`, '');
}

/** All pages, by the name of their picture. @param {import('playwright-core').Page} page */
async function paths(page) {
  return {
    now: '', history: 'history', beside: await linked(page, 'attacks', 'a[href*="/beside"]'), blocked: 'history?blocked=true', locked: 'locked', attacks: 'attacks', playbook: 'playbooks/a-customer-is-locked-out', zones: 'zones', zone: 'zones/1',
    edit: 'zones/1/edit', overrides: 'overrides', audit: 'audit', tokens: 'tokens', health: 'health', missing: 'nothing-here', search: 'search',
    decision: await linked(page, 'history?blocked=true', 'a[href*="/console/txns/"]'),
    allowed: await linked(page, 'history?blocked=false', 'a[href*="/console/txns/"]'),
    key: await linked(page, 'locked', 'a[href*="/console/keys/"]'),
    new: 'zones/new', versions: 'zones/1/versions', doctor: 'health/doctor', preview: await previewed(page),
  };
}

const views = [
  { name: 'light-wide', colorScheme: 'light', viewport: { width: 1280, height: 900 } },
  { name: 'dark-wide', colorScheme: 'dark', viewport: { width: 1280, height: 900 } },
  { name: 'light-narrow', colorScheme: 'light', viewport: { width: 390, height: 844 } },
  { name: 'dark-narrow', colorScheme: 'dark', viewport: { width: 390, height: 844 } },
];

test('every page reads well and keeps to itself', async (t) => {
  const finder = await open(browser, place.url);
  const all = await paths(finder.page);
  await finder.context.close();
  for (const view of views) {
    const { context, page, faults } = await open(browser, place.url, /** @type {any} */ (view));
    for (const [name, path] of Object.entries(all)) {
      await t.test(`${name}, ${view.name}`, async () => {
        faults.length = 0;
        const answer = await page.goto(`${place.url}/console/${path}`);
        assert.equal(answer?.status(), name === 'missing' ? 404 : 200);
        await page.waitForLoadState('networkidle');
        await page.screenshot({ path: join(shots, `${name}-${view.name}.png`), fullPage: true });
        const found = await new AxeBuilder({ page }).withTags(['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']).analyze();
        assert.deepEqual(found.violations.map((v) => `${v.id}: ${v.nodes.map((n) => n.target).join(' | ')}`), []);
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
        assert.equal(wide, 0, `the page is ${wide} px wider than the window`);
        if (name === 'missing') faults.splice(0); // the browser itself notes the status
        assert.deepEqual(faults, []);
      });
    }
    await context.close();
  }
});

test('the filters of the audit swap its rows and stand in the address', async () => {
  const { context, page, faults } = await open(browser, place.url);
  await page.goto(`${place.url}/console/audit`);
  await page.fill('input[name=by]', 'nobody of this name');
  await page.keyboard.press('Enter');
  await page.waitForURL('**/console/audit?by=nobody**');
  assert.match(await page.locator('#rows').innerText(), /Nothing was done/);
  assert.deepEqual(faults, []);
  await context.close();
});

test('a region that is late says that it loads', async () => {
  const { context, page, faults } = await open(browser, place.url);
  await page.goto(`${place.url}/console/audit`);
  let goOn = () => {};
  const held = new Promise((done) => { goOn = () => done(undefined); });
  await page.route('**/console/audit?by=*', async (route) => { await held; await route.continue(); });
  await page.fill('input[name=by]', 'nobody of this name');
  await page.keyboard.press('Enter');
  await page.waitForSelector('#rows[aria-busy=true]');
  assert.equal(await page.locator('#said').textContent(), 'Loading …');
  goOn();
  await page.waitForURL('**/console/audit?by=nobody**');
  assert.equal(await page.locator('[aria-busy]').count(), 0);
  assert.deepEqual(faults, []);
  await context.close();
});

test('the first page is at most 60 KB over the wire', async () => {
  const { context, page } = await open(browser, place.url);
  const session = await context.newCDPSession(page);
  await session.send('Network.enable');
  let bytes = 0;
  session.on('Network.loadingFinished', (event) => { bytes += event.encodedDataLength; });
  await page.goto(`${place.url}/console/`);
  await page.waitForLoadState('networkidle');
  assert.ok(bytes > 0 && bytes <= 60 * 1024, `${bytes} bytes`);
  console.log(`the first page has ${bytes} bytes`);
  await context.close();
});

test('every page works without JavaScript', async () => {
  const { context, page } = await open(browser, place.url, { javaScriptEnabled: false });
  for (const path of ['', 'history', 'locked', 'attacks', 'zones', 'zones/1', 'zones/1/edit', 'overrides', 'audit', 'tokens', 'health']) {
    const answer = await page.goto(`${place.url}/console/${path}`);
    assert.equal(answer?.status(), 200, path);
    assert.equal(await page.locator('h1').count(), 1, path);
  }
  await page.locator('input.search').fill('admin');
  await page.locator('input.search').press('Enter');
  assert.match(await page.locator('main').innerText(), /admin/);
  await context.close();
});
