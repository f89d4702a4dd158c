// @ts-check
// The console's one script. Every page works without it; it adds parts that renew themselves, swaps of a region in place of
// a whole page, countdowns, charts, and keys. What it shows comes from the server as HTML, where all text is escaped.

/** @type {{createHTML: (text: string) => any}} */
const policy = /** @type {any} */ (globalThis).trustedTypes?.createPolicy('velocityd', { createHTML: same }) ?? { createHTML: same };

/** Pages come from the server, which escapes all text. @param {string} text */
function same(text) { return text; }

/** @param {string} text @returns {Document} */
const parse = (text) => new DOMParser().parseFromString(policy.createHTML(text), 'text/html');

/** Says a sentence to those who listen to the page. @param {string} sentence */
function say(sentence) {
  const place = document.getElementById('said');
  if (place) place.textContent = sentence;
}

// ---- Swaps: a link or a form with data-swap="#id" replaces that region, and the address of the page.

/**
 * Fetches a page and puts its region in the place of ours.
 * @param {string} address @param {string} selector @param {RequestInit} [options] @returns {Promise<Response>}
 */
async function swap(address, selector, options) {
  const answer = await fetch(address, { credentials: 'same-origin', ...options });
  const page = parse(await answer.text());
  const fresh = page.querySelector(selector), old = document.querySelector(selector);
  if (!fresh || !old) {
    location.assign(answer.url); // another page, such as the log-in
    return answer;
  }
  old.replaceWith(fresh);
  enliven(fresh);
  return answer;
}

/** @param {Element} from @returns {string | null} */
const target = (from) => from.closest('[data-swap]')?.getAttribute('data-swap') ?? null;

document.addEventListener('click', async (event) => {
  const link = event.target instanceof Element ? event.target.closest('a[data-swap]') : null;
  if (!(link instanceof HTMLAnchorElement) || event.ctrlKey || event.metaKey || event.shiftKey || event.button !== 0) return;
  event.preventDefault();
  await visit(link.href, target(link) ?? 'main');
});

document.addEventListener('submit', async (event) => {
  const form = event.target;
  if (!(form instanceof HTMLFormElement) || form.method !== 'get' || !target(form)) return;
  event.preventDefault();
  const query = new URLSearchParams();
  for (const [name, value] of new FormData(form)) if (value !== '') query.append(name, String(value));
  await visit(`${(form.getAttribute('action') ?? location.pathname).split('?')[0]}?${query}`, target(form) ?? 'main');
});

document.addEventListener('change', (event) => {
  const field = event.target;
  const asks = 'form[data-swap] select, form[data-swap] input[type=checkbox]';
  if (field instanceof Element && field.matches(asks)) field.closest('form')?.requestSubmit();
});

let asked = new AbortController(); // the last swap that a reader has asked for
let shown = location.pathname + location.search;

/** Swaps a region and moves to it. @param {string} address @param {string} selector */
async function visit(address, selector) {
  asked.abort(); // an answer that comes late must not take the place of a later one
  asked = new AbortController();
  const { signal } = asked;
  const field = document.activeElement?.closest('form [name]')?.getAttribute('name');
  const late = setTimeout(() => {
    document.querySelector(selector)?.setAttribute('aria-busy', 'true');
    say('Loading …');
  }, 200);
  let answer;
  try {
    answer = await swap(address, selector, { signal });
  } catch {
    if (!signal.aborted) location.assign(address); // the browser says why there is no answer
    return;
  } finally {
    clearTimeout(late);
  }
  history.pushState({ selector }, '', answer.url);
  shown = location.pathname + location.search;
  const region = document.querySelector(selector);
  const again = field && region?.querySelector(`form [name="${CSS.escape(field)}"]`);
  if (again instanceof HTMLElement) again.focus({ preventScroll: true }); // the swap has put a new field in the place of the reader's
  const heading = region?.querySelector('h2, h1');
  const rows = region?.querySelectorAll('tbody tr').length ?? 0;
  if (heading instanceof HTMLElement && !document.activeElement?.closest('form')) { // a reader who chooses stays at his field
    heading.tabIndex = -1;
    heading.focus({ preventScroll: true });
  }
  say(`${rows} ${rows === 1 ? 'row' : 'rows'}`);
}

addEventListener('popstate', () => { // a link to a place of this page causes one, too
  if (location.pathname + location.search !== shown) location.reload();
});

// ---- Live parts: a region with data-live="5" is renewed every five seconds, until it is paused or nobody looks.

let isPaused = false;

/** @param {Element} region @returns {boolean} whether the reader is at work in it */
const isInUse = (region) =>
  region.contains(document.activeElement) && document.activeElement !== document.body || !!region.querySelector('details[open]');

/** @param {Element} region */
async function renew(region) {
  const seconds = Number(region.getAttribute('data-live'));
  await new Promise((after) => setTimeout(after, seconds * 1000));
  if (!region.isConnected) return;
  if (isPaused || document.hidden || isInUse(region)) return renew(region);
  try {
    const options = { headers: { 'X-Live': region.id }, signal: AbortSignal.timeout(20_000) };
    const answer = await fetch(location.href, { credentials: 'same-origin', ...options });
    if (answer.status === 401) return endSession();
    const fresh = parse(await answer.text()).getElementById(region.id);
    if (!answer.ok && !fresh) throw new Error(String(answer.status));
    if (!fresh && region.id === 'away') return location.reload(); // the service is ready again
    if (!fresh || isPaused || isInUse(region)) return renew(region);
    region.replaceWith(fresh);
    enliven(fresh);
    document.body.classList.remove('stale');
  } catch {
    document.body.classList.add('stale'); // the page says that its numbers are old
    return renew(region);
  }
}

/** Says, in sight, that the session has ended. The log-in leads back to this page; beside a form that is being filled, it opens in another tab. */
function endSession() {
  if (document.querySelector('.session-end')) return;
  document.body.classList.remove('stale');
  const notice = document.createElement('p'), link = document.createElement('a');
  const fields = /** @type {NodeListOf<HTMLInputElement>} */ (document.querySelectorAll('main form[method=post] input, main textarea'));
  if ([...fields].some((field) => field.value !== field.defaultValue)) link.target = '_blank';
  link.href = location.href;
  link.textContent = 'Log in again';
  notice.className = 'banner session-end';
  notice.setAttribute('role', 'alert');
  notice.append('Your session has ended, so this page stays as it is. ', link);
  document.querySelector('main')?.before(notice);
}

/** Asks whether the session goes on, once it may have ended: a form that is sent later would be lost. */
async function askSession() {
  const search = document.querySelector('form[role=search]');
  if (!(search instanceof HTMLFormElement)) return;
  const answer = await fetch(search.action, { method: 'HEAD', headers: { 'X-Live': '1' } }).catch(() => undefined);
  if (answer?.status === 401) return endSession();
  setTimeout(askSession, 60_000);
}

if (document.querySelector('form.leave')) setTimeout(askSession, 30 * 60_000 + 5_000);

/** @param {boolean} pause */
function setPaused(pause) {
  isPaused = pause;
  for (const button of document.querySelectorAll('[data-pause]')) {
    button.setAttribute('aria-pressed', String(pause));
    button.textContent = pause ? 'Paused – go on' : 'Live – pause';
  }
}

document.addEventListener('click', (event) => {
  if (!(event.target instanceof Element)) return;
  if (event.target.closest('[data-pause]')) setPaused(!isPaused);
  const copy = event.target.closest('[data-copy]');
  if (copy) {
    const text = document.querySelector(copy.getAttribute('data-copy') ?? '')?.textContent ?? '';
    navigator.clipboard.writeText(text).then(() => say('Copied.'), () => say('The browser does not let this page copy.'));
  }
});

// ---- Countdowns: <time data-until datetime="…"> shows how long it is until then.

function count() {
  for (const place of document.querySelectorAll('time[data-until]')) {
    const left = Math.round((Date.parse(place.getAttribute('datetime') ?? '') - Date.now()) / 1000);
    place.textContent = left <= 0 ? 'over' : inWords(left);
  }
}

/** @param {number} seconds @returns {string} */
function inWords(seconds) {
  const [d, h, m, s] = [Math.floor(seconds / 86400), Math.floor(seconds / 3600) % 24, Math.floor(seconds / 60) % 60, seconds % 60];
  if (d) return `in ${d} d ${h} h`;
  if (h) return `in ${h} h ${m} min`;
  return m ? `in ${m} min ${s} s` : `in ${s} s`;
}

setInterval(count, 1000);

// ---- Local time: an instant shows the reader's own time, too.

/** @param {ParentNode} region */
function addLocalTimes(region) {
  for (const place of region.querySelectorAll('time[datetime][title]')) {
    const at = new Date(place.getAttribute('datetime') ?? '');
    const title = place.getAttribute('title') ?? '';
    if (!title.includes('\n')) place.setAttribute('title', `${title}\n${at.toLocaleString()} here`);
  }
}

// ---- Charts: <figure data-chart> with the numbers in a <script type="application/json">.

/** @param {ParentNode} region */
function drawCharts(region) {
  for (const figure of region.querySelectorAll('figure[data-chart]')) {
    const data = figure.querySelector('script[type="application/json"]'), place = figure.querySelector('.chart');
    if (!data || !(place instanceof HTMLElement) || !('uPlot' in globalThis)) continue;
    const { series, unit, values } = JSON.parse(data.textContent ?? '{}');
    const paint = resolve(place);
    const axis = { stroke: paint('--ink-3'), grid: { stroke: paint('--line'), width: 1 }, ticks: { show: false }, font: '11px sans-serif' };
    place.replaceChildren();
    const times = figure.getAttribute('data-times');
    const uPlot = /** @type {any} */ (globalThis).uPlot; // a script by itself
    const chart = new uPlot({
      width: place.clientWidth, height: Number(figure.getAttribute('data-height') ?? 180),
      tzDate: (/** @type {number} */ s) => uPlot.tzDate(new Date(s * 1000), 'UTC'),
      legend: { live: true }, cursor: { y: false },
      axes: [{ ...axis, ...(times && { values: times, size: 30 }) }, { ...axis, size: 48 }],
      series: [{ label: 'UTC' }, ...series.map((/** @type {any} */ s) => ({
        label: s.label, stroke: paint(s.colour), fill: s.fill ? paint(s.fill) : undefined, width: 1.5, dash: s.dash,
        points: { show: false },
        value: (/** @type {any} */ _, /** @type {number|null} */ v) =>
          v == null ? '–' : `${Math.round(v * 100) / 100}${unit ? ' ' + unit : ''}`,
      }))],
    }, values, place);
    new ResizeObserver(() => chart.setSize({ width: place.clientWidth, height: chart.height })).observe(place);
  }
}

/** Returns the painter of a place: the colour that a variable has there, which light-dark() decides. @param {HTMLElement} place */
function resolve(place) {
  return (/** @type {string} */ name) => {
    place.style.color = `var(${name})`;
    const found = getComputedStyle(place).color;
    place.style.color = '';
    return found;
  };
}

matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => drawCharts(document));

// ---- The slider of a preview: it shows one of the results that the page holds.

/** @param {ParentNode} region */
function wireSliders(region) {
  for (const slider of region.querySelectorAll('input[type=range][data-preview]')) {
    if (!(slider instanceof HTMLInputElement)) continue;
    const show = () => {
      for (const part of document.querySelectorAll('[data-choice]')) {
        part.toggleAttribute('hidden', part.getAttribute('data-choice') !== slider.value);
      }
      const text = document.querySelector(`[data-choice="${slider.value}"]`)?.getAttribute('data-label') ?? slider.value;
      slider.setAttribute('aria-valuetext', text);
    };
    slider.addEventListener('input', show);
    show();
  }
}

// ---- Zones: a field with data-zones proposes those whose names have the text that was typed.

document.addEventListener('input', async (event) => {
  const field = event.target;
  if (!(field instanceof HTMLInputElement) || !field.matches('[data-zones]') || event instanceof InputEvent === false) return;
  const text = field.value;
  await new Promise((after) => setTimeout(after, 200));
  if (text !== field.value || !text.trim()) return;
  const answer = await fetch(`/console/zones?name=${encodeURIComponent(text)}`, { credentials: 'same-origin', headers: { 'X-Live': '1' } });
  const fresh = answer.ok ? parse(await answer.text()).getElementById('zone-names') : null;
  if (!fresh || text !== field.value) return;
  document.getElementById('zone-names')?.remove();
  document.body.append(fresh);
  field.setAttribute('list', 'zone-names');
});

// ---- Selections: a box with data-all marks all boxes of its form.

document.addEventListener('change', (event) => {
  const all = event.target;
  if (!(all instanceof HTMLInputElement) || !all.matches('[data-all]')) return;
  for (const box of all.closest('form')?.querySelectorAll('input[type=checkbox][name]') ?? []) {
    if (box instanceof HTMLInputElement) box.checked = all.checked;
  }
});

// ---- Batches: a form with data-go-on sends itself, unless the reader leads the page elsewhere.

const goOn = document.querySelector('form[data-go-on]');
const soon = goOn instanceof HTMLFormElement ? setTimeout(() => goOn.requestSubmit(), 400) : 0;
addEventListener('click', () => clearTimeout(soon), true);

// ---- Keys.

document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const at = event.target;
  const isTyping = at instanceof HTMLElement && (at.isContentEditable || at.matches('input, textarea, select'));
  if (event.key === 'Escape') {
    document.querySelectorAll('details.change-form[open]').forEach((open) => {
      open.removeAttribute('open');
      if (open.contains(document.activeElement)) open.querySelector('summary')?.focus();
    });
  }
  if (isTyping) return;
  const search = document.querySelector('input.search');
  if (event.key === '/' && search instanceof HTMLInputElement) {
    event.preventDefault();
    search.focus();
    search.select();
  }
  if (event.key === 'p' && document.querySelector('[data-pause]')) setPaused(!isPaused);
});

/** Brings a region to life that has come into the page. @param {ParentNode} region */
function enliven(region) {
  for (const button of region.querySelectorAll('[data-pause], [data-all], [data-copy]')) button.removeAttribute('hidden');
  const lives = [...region.querySelectorAll('[data-live]')];
  if (region instanceof Element && region.matches('[data-live]')) lives.push(region);
  for (const live of lives) void renew(live);
  addLocalTimes(region);
  drawCharts(region);
  wireSliders(region);
  count();
  if (isPaused) setPaused(true);
}

enliven(document);
