// A velocityd dev on a private engine with a day of demo traffic, a velocityd serve beside it, and a browser that notes everything that a page must not do.
import { spawn, execFileSync } from 'node:child_process';
import { mkdtempSync, mkdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { chromium } from 'playwright-core';

const program = resolve(import.meta.dirname, '../../bin/velocityd');
/** Where pictures of all pages go, to be looked at. */
export const shots = resolve(import.meta.dirname, 'shots');

/**
 * Starts velocityd, and returns its process, its address and all that it has printed.
 * @param {string[]} args
 */
async function start(args) {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  let text = '';
  const url = await new Promise((found, failed) => {
    const read = (/** @type {Buffer} */ part) => {
      text += part;
      const line = text.match(/"msg":"listening","address":"([^"]+)"|msg=listening address=(\S+)/);
      if (line) found(`http://${line[1] ?? line[2]}`);
    };
    child.stdout.on('data', read);
    child.stderr.on('data', read);
    child.on('exit', (code) => failed(new Error(`velocityd ${args[0]} ended with ${code}: ${text}`)));
  });
  return {
    url,
    said: () => text,
    async stop() {
      const ended = new Promise((done) => child.removeAllListeners('exit').on('exit', done));
      child.kill('SIGTERM');
      await ended;
    },
  };
}

/**
 * Starts velocityd dev, with an engine of its own. It ends with stop.
 * @param {string[]} flags
 */
export async function serve(...flags) {
  const folder = mkdtempSync(join(tmpdir(), 'velocityd-e2e-'));
  const { url, said, stop } = await start(['dev', '--data', folder, '--listen', '127.0.0.1:0', ...flags]);
  return {
    url,
    folder,
    /** Starts velocityd serve on the same database. @param {string[]} more */
    async beside(...more) {
      const dsn = said().match(/^  DSN +(\S+)$/m)?.[1] ?? '';
      return start(['serve', '--dsn', dsn, '--listen', '127.0.0.1:0', ...more]);
    },
    /** Runs a command of velocityd on the service's database. @param {string[]} args */
    run: (...args) => execFileSync(program, [...args, '--data', folder], { encoding: 'utf8' }),
    /** Asks the HTTP interface. @param {string} path @param {unknown} body */
    async post(path, body) {
      const answer = await fetch(url + path, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
      if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
      return answer.json();
    },
    async stop() {
      await stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Starts the browser. */
export function launch() {
  mkdirSync(shots, { recursive: true });
  return chromium.launch({
    executablePath: process.env.CHROMIUM_PATH ?? '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update', '--disable-sync', '--no-first-run'],
  });
}

/**
 * Opens a page that notes each error of the console, each report of the content policy, and each request to another origin.
 * @param {import('playwright-core').Browser} browser @param {string} url @param {import('playwright-core').BrowserContextOptions} [options]
 */
export async function open(browser, url, options = {}) {
  const context = await browser.newContext({ reducedMotion: 'reduce', ...options });
  const page = await context.newPage();
  /** @type {string[]} */
  const faults = [];
  page.on('console', (message) => { if (message.type() === 'error' || message.type() === 'warning') faults.push(`console: ${message.text()}`); });
  page.on('pageerror', (error) => faults.push(`script: ${error.message}`));
  page.on('request', (request) => { if (!request.url().startsWith(url) && !request.url().startsWith('data:')) faults.push(`request to ${request.url()}`); });
  page.on('requestfailed', (request) => { if (request.failure()?.errorText !== 'net::ERR_ABORTED') faults.push(`request failed: ${request.url()}`); });
  if (options.javaScriptEnabled !== false) {
    await page.addInitScript(() => addEventListener('securitypolicyviolation', (event) => console.error(`policy: ${event.violatedDirective} ${event.blockedURI}`)));
  }
  return { context, page, faults };
}
