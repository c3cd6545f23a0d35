// Fetches the page again when something changed, and replaces the parts that differ. Without this
// script everything works, by loading the page again.
'use strict';

const live = document.getElementById('live');
// The same text is not set again: a screen reader would read it again.
const say = (text) => { if (live.textContent !== text) live.textContent = text; };

// Replaces an element. Whoever opened something in it, or is about to press a button, stays there.
function swap(old, next) {
  for (const open of old.querySelectorAll('details[open][id]')) {
    const same = next.querySelector('#' + CSS.escape(open.id));
    if (same) same.open = true;
  }
  const focused = old.contains(document.activeElement) ? document.activeElement.id : '';
  old.replaceWith(document.importNode(next, true));
  const again = focused && document.getElementById(focused);
  if (again) again.focus();
}

// Updates a list card by card, so that the others keep what was scrolled and selected in them. A card
// that has ended stays in its place while others wait: the next one must not move under the pointer.
const MAX_ENDED = 20;
function updateList(list, next) {
  if (!next.children.length) { list.replaceChildren(); return; }
  const before = new Map([...list.children].map((child) => [child.id, child]));
  for (const child of next.children) {
    const old = before.get(child.id);
    before.delete(child.id);
    if (!old) list.append(document.importNode(child, true));
    else if (!old.isEqualNode(child)) swap(old, child);
  }
  for (const gone of before.values()) {
    gone.classList.add('ended');
    for (const button of gone.querySelectorAll('button')) button.disabled = true;
  }
  while (list.lastElementChild.matches('.ended')) list.lastElementChild.remove();
  const ended = [...list.querySelectorAll('.ended')];
  for (const gone of ended.slice(0, -MAX_ENDED)) gone.remove();
}

// Where each button was, and since when it is there.
let places = new Map();
const SETTLED_MS = 700;
function notePlaces(now) {
  const before = places;
  places = new Map();
  for (const button of document.querySelectorAll('[data-live] button[id]')) {
    const { left, top } = button.getBoundingClientRect();
    const place = Math.round(left + scrollX) + ',' + Math.round(top + scrollY);
    const known = before.get(button.id);
    places.set(button.id, known && known.place === place ? known : { place, since: now });
  }
}
const isSettled = (button) => {
  const known = button && places.get(button.id);
  return !known || performance.now() - known.since >= SETTLED_MS;
};

function replaceParts(fresh) {
  for (const part of document.querySelectorAll('[data-part]')) {
    const next = fresh.getElementById(part.id);
    if (!next || next.isEqualNode(part)) continue;
    if (part.matches('[data-list]')) updateList(part, next);
    else swap(part, next);
  }
  notePlaces(performance.now());
  if (document.title !== fresh.title) {
    document.title = fresh.title;
    // Read out, since what waits has changed.
    document.getElementById('news').textContent = document.querySelector('h1').textContent;
  }
}

// The browser parses the answer to a GET as a document of its own, in which no script runs.
function load(method, url, body) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open(method, url);
    request.responseType = body ? 'text' : 'document';
    request.timeout = 15000;
    const fail = () => reject({ status: request.status, text: body ? request.response : '' });
    request.onload = () => (request.status === 200 ? resolve(request.response) : fail());
    request.onerror = request.ontimeout = fail;
    if (body) request.setRequestHeader('content-type', 'application/x-www-form-urlencoded');
    request.send(body);
  });
}

function explain({ status, text }) {
  if (status === 0) return 'the gateway does not answer';
  if (status === 401) return 'logged out: load the page again';
  if (status === 404) return 'no longer shown here: look among the recent requests, or in the audit log';
  return (text || '').trim() || 'the gateway answered with status ' + status;
}

// Why the last form failed; shown until one succeeds.
let failure = '';
const sayLive = () => say(failure || 'live');

let isLoading = false;
let isStale = false;
async function refresh() {
  if (isLoading) { isStale = true; return; }
  isLoading = true;
  try {
    do {
      isStale = false;
      replaceParts(await load('GET', location.pathname + location.search));
    } while (isStale);
    sayLive();
  } catch (fault) {
    say(explain(fault));
  }
  isLoading = false;
}

document.addEventListener('submit', async (event) => {
  const { target: form, submitter } = event;
  if (!form.matches('[data-live]')) return;
  event.preventDefault();
  if (!isSettled(submitter)) { say('the page has just changed here: look, and press again'); return; }
  say('sending');
  const body = new URLSearchParams(new FormData(form, submitter)).toString();
  for (const button of form.querySelectorAll('button')) button.disabled = true;
  try { await load('POST', form.getAttribute('action'), body); failure = ''; } catch (fault) { failure = explain(fault); }
  refresh();
});

notePlaces(-SETTLED_MS);
const events = new EventSource('/events');
events.onmessage = refresh;
events.onopen = sayLive;
// The browser connects again by itself, but not after a refusal: the page then finds out why.
events.onerror = () => (events.readyState === EventSource.CLOSED ? refresh() : say('the gateway does not answer'));
