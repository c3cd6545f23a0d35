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

// The browser parses the answer as a document of its own, in which no script runs.
function load(method, url, body) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open(method, url);
    request.responseType = 'document';
    request.timeout = 15000;
    request.onload = () => (request.status === 200 ? resolve(request.responseXML) : reject(request.status));
    request.onerror = request.ontimeout = () => reject(0);
    if (body) request.setRequestHeader('content-type', 'application/x-www-form-urlencoded');
    request.send(body);
  });
}

let isLoading = false;
let isStale = false;
async function refresh() {
  if (isLoading) { isStale = true; return; }
  isLoading = true;
  try {
    do { isStale = false; replaceParts(await load('GET', location.pathname + location.search)); } while (isStale);
    say('live');
  } catch (status) {
    say(status === 401 ? 'logged out: load the page again' : 'the gateway does not answer');
  }
  isLoading = false;
}

document.addEventListener('submit', async (event) => {
  const { target: form, submitter } = event;
  if (!form.matches('[data-live]')) return;
  event.preventDefault();
  const body = new URLSearchParams(new FormData(form, submitter)).toString();
  for (const button of form.querySelectorAll('button')) button.disabled = true;
  try { await load('POST', form.getAttribute('action'), body); } catch { say('it has ended or was answered already'); }
  refresh();
});

const events = new EventSource('/events');
events.onmessage = refresh;
events.onopen = () => say('live');
events.onerror = () => say('the gateway does not answer');
