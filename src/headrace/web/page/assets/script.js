// Keeps the page up to date: fetches it again and changes only what differs, so that focus, scroll
// positions, selections and open details stay. Without this script the page reloads itself. Links that only
// change what is shown of a view, and its form, are followed in the same way; their URLs are in the history.
"use strict";
(() => {
  const EVERY_MS = 2000;
  const SLOWEST_MS = 15000;
  const PATIENCE_MS = 10000;
  const connection = document.getElementById("connection");
  const pause = document.getElementById("pause");
  let paused = false;
  let failures = 0;
  let asking = false;
  let timer = 0;

  function alike(have, want) {
    return have.nodeType === want.nodeType && have.nodeName === want.nodeName && (have.id || "") === (want.id || "");
  }

  function morph(have, want) {
    if (have.nodeType !== Node.ELEMENT_NODE) {
      if (have.nodeValue !== want.nodeValue) have.nodeValue = want.nodeValue;
      return;
    }
    const keep = (name) => name === "open" && have.nodeName === "DETAILS";
    for (const { name } of [...have.attributes]) {
      if (!want.hasAttribute(name) && !keep(name)) have.removeAttribute(name);
    }
    for (const { name, value } of want.attributes) {
      if (have.getAttribute(name) !== value && !keep(name)) have.setAttribute(name, value);
    }
    let at = have.firstChild;
    for (const child of [...want.childNodes]) {
      let match = at && alike(at, child) ? at : null;
      if (!match && child.id) {
        match = [...have.children].find((one) => alike(one, child)) || null;
        if (match) have.insertBefore(match, at);
      }
      if (match) {
        morph(match, child);
        at = match.nextSibling;
      } else {
        have.insertBefore(document.importNode(child, true), at);
      }
    }
    while (at) {
      const next = at.nextSibling;
      at.remove();
      at = next;
    }
  }

  function say(text, link) {
    connection.textContent = text;
    if (link) {
      const anchor = document.createElement("a");
      anchor.href = link;
      anchor.textContent = "Sign in";
      connection.append(" ", anchor);
    }
    document.documentElement.classList.toggle("lost", Boolean(text));
  }

  async function fetchPage(url) {
    const reply = await fetch(url, {
      cache: "no-store",
      redirect: "manual",
      headers: { accept: "text/html" },
      signal: AbortSignal.timeout(PATIENCE_MS),
    });
    if (reply.type === "opaqueredirect" || reply.status === 401) return null;
    if (!(reply.headers.get("content-type") || "").startsWith("text/html")) throw new Error(`status ${reply.status}`);
    return new DOMParser().parseFromString(await reply.text(), "text/html");
  }

  function show(page) {
    if (page.body.dataset.build !== document.body.dataset.build) {
      location.reload();
      return;
    }
    document.title = page.title;
    document.body.dataset.at = page.body.dataset.at || document.body.dataset.at;
    for (const part of ["live", "badge"]) morph(document.getElementById(part), page.getElementById(part));
  }

  async function update(moved = false) {
    if (asking || (!moved && (paused || document.hidden))) return;
    asking = true;
    clearTimeout(timer);
    const url = location.href;
    try {
      const page = await fetchPage(url);
      if (page === null) {
        say("Signed out.", "/login");
        asking = false;
        return;
      }
      if (url === location.href && (moved || !paused)) show(page);
      if (moved) for (const form of document.forms) form.reset(); // its fields show what the URL asks for
      failures = 0;
      say("");
    } catch (error) {
      failures += 1;
      say(`Connection lost, numbers from ${document.body.dataset.at}. Trying again.`);
    }
    asking = false;
    if (url !== location.href) update(true);
    else plan();
  }

  function move(url) {
    history.pushState(null, "", url);
    update(true);
  }

  function plan() {
    clearTimeout(timer);
    if (paused || document.hidden) return;
    timer = setTimeout(update, Math.min(EVERY_MS * 2 ** Math.min(failures, 3), SLOWEST_MS));
  }

  pause.hidden = false;
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
    pause.textContent = paused ? "Resume" : "Pause";
    if (paused) clearTimeout(timer);
    else update();
  });
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-stay]");
    if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    move(link.href);
  });
  document.addEventListener("submit", (event) => {
    if (event.target.method !== "get") return;
    event.preventDefault();
    const fields = [...new FormData(event.target)].filter(([, text]) => text);
    const url = new URL(event.target.action);
    url.search = new URLSearchParams(fields);
    move(url);
  });
  document.addEventListener("change", (event) => {
    if (event.target.nodeName === "SELECT") event.target.form.requestSubmit();
  });
  addEventListener("popstate", () => update(true));
  document.addEventListener("visibilitychange", () => (document.hidden ? clearTimeout(timer) : update()));
  plan();
})();
