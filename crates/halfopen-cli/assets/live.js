// Keeps an open page current: the gateway sends the parts of it that changed, and they are put in place of the old ones.
//
// Without this file every page is whole; it is just as old as its last loading. There is one stream for each tab, and none
// while nobody sees it. A part is not replaced but changed where it differs, so that what a reader has opened, focused or
// marked stays as it is.

const where = document.body.dataset.live;
const root = document.documentElement;
const said = document.getElementById("said");
let stream = null;
let again = 0;

/** Returns whether one node can become the other. */
function kin(one, other) {
  return one.nodeType === other.nodeType && one.nodeName === other.nodeName && (one.id || "") === (other.id || "");
}

/** Changes `old` until it is like `fresh`. */
function become(old, fresh) {
  if (old.isEqualNode(fresh)) return;
  if (old.nodeType !== Node.ELEMENT_NODE) {
    old.nodeValue = fresh.nodeValue;
    return;
  }
  // What is unfolded is the reader's doing.
  const readers = (name) => name === "open" && old.nodeName === "DETAILS";
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && !readers(name)) old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value && !readers(name)) old.setAttribute(name, value);
  }
  let next = old.firstChild;
  for (const child of [...fresh.childNodes]) {
    // What has a name is found by it, wherever it has gone, so that a tick stays with its row.
    const named = child.id && [...old.children].find((known) => kin(known, child));
    if (named && named !== next) next = old.insertBefore(named, next);
    if (next && kin(next, child)) {
      const current = next;
      next = next.nextSibling;
      become(current, child);
    } else {
      old.insertBefore(child, next);
    }
  }
  while (next) {
    const gone = next;
    next = next.nextSibling;
    gone.remove();
  }
}

/** Puts a part in place. */
function put(name, html) {
  if (name === "said") {
    if (said.dataset.last !== undefined && said.dataset.last !== html) said.textContent = html;
    said.dataset.last = html;
    return;
  }
  const old = document.getElementById(`f-${name}`);
  if (!old) return;
  const template = document.createElement("template");
  template.innerHTML = html;
  const fresh = old.cloneNode(false);
  fresh.append(template.content);
  become(old, fresh);
}

function close() {
  clearTimeout(again);
  stream?.close();
  stream = null;
}

function open() {
  close();
  stream = new EventSource(where);
  stream.onopen = () => {
    root.dataset.link = "live";
  };
  stream.onerror = () => {
    root.dataset.link = "lost";
    // A browser comes back by itself, unless the answer was no.
    if (stream?.readyState === EventSource.CLOSED) again = setTimeout(open, 5000);
  };
  stream.addEventListener("parts", (event) => {
    for (const [name, html] of Object.entries(JSON.parse(event.data))) put(name, html);
  });
}

if (where) {
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  addEventListener("pagehide", close);
  addEventListener("pageshow", (event) => event.persisted && open());
  if (!document.hidden) open();
}
