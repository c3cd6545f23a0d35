// Fetches the page again when something changed, and replaces the parts that differ. Without this
// script everything works, by loading the page again.
'use strict';

const live = document.getElementById('live');
const say = (text) => { if (live) live.textContent = text; };

function replaceParts(fresh) {
  for (const part of document.querySelectorAll('[data-part]')) {
    const next = fresh.getElementById(part.id);
    if (!next || next.isEqualNode(part)) continue;
    // Whoever opened a part or is about to press a button stays there.
    for (const open of part.querySelectorAll('details[open][id]')) {
      const same = next.querySelector('#' + CSS.escape(open.id));
      if (same) same.open = true;
    }
    const focused = part.contains(document.activeElement) ? document.activeElement.id : '';
    part.replaceWith(document.importNode(next, true));
    const again = focused && document.getElementById(focused);
    if (again) again.focus();
  }
  document.title = fresh.title;
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
    do { isStale = false; replaceParts(await load('GET', location.pathname + location.search)); } while (isStale);
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
  const body = new URLSearchParams(new FormData(form, submitter)).toString();
  for (const button of form.querySelectorAll('button')) button.disabled = true;
  try { await load('POST', form.getAttribute('action'), body); failure = ''; } catch (fault) { failure = explain(fault); }
  refresh();
});

const events = new EventSource('/events');
events.onmessage = refresh;
events.onopen = sayLive;
// The browser connects again by itself, but not after a refusal: the page then finds out why.
events.onerror = () => (events.readyState === EventSource.CLOSED ? refresh() : say('the gateway does not answer'));
