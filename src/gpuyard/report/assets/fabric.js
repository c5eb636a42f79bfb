(() => {
const data = JSON.parse(document.getElementById("fabric-data").textContent);
const about = document.getElementById("about"), drawing = document.querySelector(".drawing");
const cables = [...drawing.querySelectorAll(".cable")];
const boxes = [...drawing.querySelectorAll(".device")];
let pinned = false;
function el(tag, text) {
  const e = document.createElement(tag); e.textContent = text; return e;
}
function rows(pairs) {
  const table = document.createElement("table");
  for (const cells of pairs) { const tr = document.createElement("tr");
    cells.forEach(cell => tr.append(el("td", cell ?? ""))); table.append(tr); }
  return table;
}
function light(match, names) {
  drawing.classList.add("dim");
  cables.forEach(w => w.classList.toggle("on", match(w)));
  boxes.forEach(b => b.classList.toggle("on", names.includes(b.dataset.name)));
}
function dark() {
  drawing.classList.remove("dim");
  [...cables, ...boxes].forEach(e => e.classList.remove("on"));
}
function device(name) {
  const d = data.devices[name]; if (!d) return;
  about.replaceChildren(el("h3", name), rows(d.facts));
  if (d.ports) {
    const shown = d.ports.slice(0, 200);
    const first = shown.length < d.ports.length ? ", the first 200:" : ":";
    about.append(el("p", d.ports.length + " ports" + first));
    about.append(rows(shown.map(p =>
      [p[0], "→ " + p[1] + " " + p[2], [p[3], p[4]].filter(Boolean).join(", ")])));
  } else about.append(el("p", "Not drawn: cabled like the ones of its kind that are."));
  light(w => w.dataset.a === name || w.dataset.b === name, [name]);
}
function link(w) {
  const a = w.dataset.a, b = w.dataset.b, from = data.devices[a], to = data.devices[b];
  const far = Object.fromEntries((to.ports || []).map(p => [p[0], p]));
  const ports = (from.ports || []).filter(p => p[1] === b);
  const count = ports.length + (ports.length > 1 ? " links" : " link");
  about.replaceChildren(el("h3", a + " – " + b), el("p", count));
  about.append(rows(ports.slice(0, 200).map(p => {
    const near = [p[0], p[3]], other = [p[2], (far[p[2]] || [])[3]];
    return [near.filter(Boolean).join(" "), "– " + other.filter(Boolean).join(" "), p[4]];
  })));
  light(x => x === w, [a, b]);
}
boxes.forEach(b => {
  b.addEventListener("mouseenter", () => { if (!pinned) device(b.dataset.name); });
  b.addEventListener("click", e => { pinned = true; device(b.dataset.name); e.stopPropagation(); });
});
cables.forEach(w => {
  w.addEventListener("mouseenter", () => { if (!pinned) link(w); });
  w.addEventListener("click", e => { pinned = true; link(w); e.stopPropagation(); });
});
drawing.addEventListener("mouseleave", () => { if (!pinned) dark(); });
drawing.addEventListener("click", () => { pinned = false; dark(); });
document.getElementById("find").addEventListener("input", e => {
  const plain = s => s.trim().toLowerCase().replace(/(^|[^0-9])0+(?=[0-9])/g, "$1");
  const word = plain(e.target.value); if (!word) return;
  const names = Object.keys(data.devices);
  const name = names.find(n => plain(n) === word) || names.find(n => plain(n).startsWith(word));
  if (name) { pinned = true; device(name); }
});
document.querySelectorAll("[data-device]").forEach(e => e.addEventListener("click", () => {
  pinned = true; device(e.dataset.device); drawing.scrollIntoView({behavior: "smooth"});
}));
})();
