// Keeps the page fresh: the server sends parts of it that have changed, as HTML that it made and escaped itself.
"use strict";
const state = document.getElementById("state");
const waiting = new Map(); // parts that changed while somebody was using them

function put(part) {
  const place = document.getElementById(part.id);
  if (!place || place.dataset.mark === part.mark) return;
  const active = place.contains(document.activeElement) ? document.activeElement : null;
  if (active && active.matches("select, input, textarea, button")) { // nothing moves under the fingers
    waiting.set(part.id, part);
    return;
  }
  const open = [...place.querySelectorAll("details")].map((each) => each.open);
  const moved = [...place.querySelectorAll(".scroll, pre")].map((each) => [each.scrollLeft, each.scrollTop]);
  place.innerHTML = part.html;
  place.dataset.mark = part.mark;
  place.querySelectorAll("details").forEach((each, at) => { if (at < open.length) each.open = open[at]; });
  place.querySelectorAll(".scroll, pre").forEach((each, at) => {
    if (at < moved.length) [each.scrollLeft, each.scrollTop] = moved[at];
  });
  const again = active && [...place.querySelectorAll("a, summary")].find((each) =>
    each.getAttribute("href") === active.getAttribute("href") && each.textContent === active.textContent);
  if (again) again.focus({ preventScroll: true });
  document.dispatchEvent(new Event("fragments"));
}

if ("live" in document.body.dataset) {
  const source = new EventSource("/events?path=" + encodeURIComponent(location.pathname));
  source.addEventListener("open", () => { state.textContent = "live"; });
  source.addEventListener("error", () => { state.textContent = "not connected"; });
  source.addEventListener("fragment", (event) => put(JSON.parse(event.data)));
  addEventListener("pagehide", () => source.close());
  addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
  addEventListener("focusout", () => setTimeout(() => {
    for (const [id, part] of [...waiting]) { waiting.delete(id); put(part); }
  }));
}

addEventListener("keydown", (event) => {
  if (event.altKey || event.ctrlKey || event.metaKey || event.target.matches("input, select, textarea")) return;
  const links = [...document.querySelectorAll("nav a")];
  const number = Number(event.key);
  if (Number.isInteger(number) && number >= 1 && number <= links.length) location.href = links[number - 1].href;
});
