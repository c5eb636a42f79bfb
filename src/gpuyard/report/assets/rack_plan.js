(() => {
const data = JSON.parse(document.getElementById("rack-plan").textContent);
const hall = document.getElementById("hall"), crumbs = document.getElementById("crumbs");
const find = document.getElementById("find"), matches = document.getElementById("matches");
const [NAME, KIND, ROW, PLACE, UNITS, POWER] = [0, 1, 2, 3, 4, 5];          // of a rack
const [D_NAME, D_ROLE, D_MODEL, D_RACK, D_UNIT, D_UNITS, D_POWER] = [0, 1, 2, 3, 4, 5, 6];
const rows = new Map(), inRack = data.racks.map(() => []);
data.racks.forEach((rack, i) => (rows.get(rack[ROW]) ?? rows.set(rack[ROW], []).get(rack[ROW])).push(i));
data.devices.forEach((device, i) => inRack[device[D_RACK]].push(i));
const byName = new Map(data.devices.map((device, i) => [device[D_NAME], i]));
const hottest = Math.max(1, ...data.racks.map(rack => rack[POWER]));
let linksOf = null, path = [];

function el(tag, text, attributes = {}) {
  const e = document.createElement(tag);
  if (text !== undefined) e.textContent = text;
  for (const [key, value] of Object.entries(attributes))
    key === "onclick" ? e.addEventListener("click", value) : e.setAttribute(key, value);
  return e;
}
const kw = w => w ? (w / 1000).toFixed(1) + " kW" : "power not known";
const heat = w => w ? `hsl(${Math.round(210 - 190 * w / hottest)} 85% ${88 - 18 * w / hottest}%)` : "#f6f8fa";

function links(device) {                       // built at the first view of a device
  if (!linksOf) {
    linksOf = data.devices.map(() => []);
    for (let i = 0; i < data.links.a.length; i++) {
      linksOf[data.links.a[i]].push(i); linksOf[data.links.b[i]].push(i);
    }
  }
  return linksOf[device];
}
function end(link, device) {                   // own port, peer, port of the peer
  const l = data.links, here = l.a[link] === device;
  return here ? [data.ports[l.pa[link]], l.b[link], data.ports[l.pb[link]]]
              : [data.ports[l.pb[link]], l.a[link], data.ports[l.pa[link]]];
}
function place(device) {
  const d = data.devices[device];
  return data.racks[d[D_RACK]][NAME] + "-U" + String(d[D_UNIT] + d[D_UNITS] - 1).padStart(2, "0");
}

function showHall() {
  const view = el("div", undefined, {class: rows.size > 24 ? "many" : ""});
  for (const [row, racks] of rows) {
    const line = el("div", undefined, {class: "row"}), cells = el("div", undefined, {class: "cells"});
    line.append(el("button", "row " + row, {"data-nav": "", onclick: () => go(["row", row])}));
    for (const i of racks) {
      const rack = data.racks[i];
      const cell = el("button", rack[NAME], {class: "rack " + rack[KIND], "data-nav": "",
        title: `${rack[NAME]}: ${inRack[i].length} devices, ${rack[UNITS]} units, ${kw(rack[POWER])}`,
        onclick: () => go(["row", rack[ROW]], ["rack", i])});
      cell.style.background = heat(rack[POWER]); cells.append(cell);
    }
    line.append(cells); view.append(line);
  }
  const power = hottest > 0 ? "Colour: power of a rack, warmest " + kw(hottest) + ". " : "";
  view.append(el("p", power + "Blue edge: leaves; violet edge: spines and cores.", {class: "note"}));
  return view;
}
function front(rack, wide) {
  const box = el("div", undefined, {class: wide ? "front wide" : "front"});
  const pixels = wide ? 15 : 8, frame = el("div", undefined, {class: "frame"});
  frame.style.height = data.units * pixels + "px";
  for (const i of inRack[rack]) {
    const d = data.devices[i];
    const unit = el("div", (wide ? `U${d[D_UNIT]} ` : "") + d[D_NAME]
      + (wide && d[D_MODEL] ? ` · ${d[D_MODEL]}` : "") + (wide && d[D_POWER] ? ` · ${kw(d[D_POWER])}` : ""),
      {class: "unit " + d[D_ROLE], title: d[D_NAME], role: "button", tabindex: 0, "data-nav": "",
       onclick: () => open(i)});
    unit.style.bottom = (d[D_UNIT] - 1) * pixels + "px"; unit.style.height = d[D_UNITS] * pixels - 1 + "px";
    unit.style.lineHeight = Math.min(15, d[D_UNITS] * pixels - 2) + "px";
    frame.append(unit);
  }
  box.append(frame);
  return box;
}
function showRow(row) {
  const view = el("div", undefined, {class: "fronts"});
  for (const i of rows.get(row) ?? []) {
    const box = front(i, false), rack = data.racks[i], title = el("h4");
    title.append(el("button", rack[NAME], {"data-nav": "", onclick: () => go(["row", row], ["rack", i])}));
    box.prepend(title); box.append(el("span", `${rack[UNITS]} units, ${kw(rack[POWER])}`, {class: "note"}));
    view.append(box);
  }
  return view;
}
function showRack(i) {
  const view = el("div", undefined, {class: "split"}), rack = data.racks[i], side = el("div");
  view.append(front(i, true), side);
  side.append(el("h3", rack[NAME]));
  const table = el("table"), facts = [["row and place", rack[ROW] + ", " + rack[PLACE]],
    ["units", `${rack[UNITS]} of ${data.units}`], ["power", kw(rack[POWER])],
    ["heat", rack[POWER] ? Math.round(rack[POWER] * 3.412).toLocaleString() + " BTU/h" : "not known"],
    ["airflow", rack[POWER] ? (rack[POWER] / data.air).toFixed(2) + " m³/s at 15 K" : "not known"]];
  facts.forEach(([name, value]) => { const tr = el("tr"); tr.append(el("td", name), el("td", value)); table.append(tr); });
  side.append(table);
  return view;
}
function portTable(device, chosen) {
  const table = el("table"), box = el("div", undefined, {class: "ports"});
  const head = el("tr"); ["port", "to", "port", "in", "m", "medium"].forEach(t => head.append(el("th", t)));
  table.append(head);
  for (const link of links(device)) {
    const [port, peer, far] = end(link, device), tr = el("tr");
    if (link === chosen) tr.className = "on";
    const own = el("td"), to = el("td");
    own.append(el("button", port, {"data-nav": "", onclick: () => open(device, link)}));
    to.append(el("button", data.devices[peer][D_NAME], {onclick: () => open(peer, link)}));
    tr.append(own, to, el("td", far), el("td", place(peer)), el("td", data.links.m[link]),
              el("td", data.media[data.links.k[link]]));
    table.append(tr);
  }
  box.append(table);
  return box;
}
function showDevice(device, link) {
  const view = el("div", undefined, {class: "split"}), left = el("div"), d = data.devices[device];
  left.append(el("h3", d[D_NAME]), el("p", [d[D_ROLE], d[D_MODEL], place(device), d[D_UNITS] + " units",
    kw(d[D_POWER]), links(device).length + " cables"].filter(Boolean).join(", ")));
  if (link !== undefined) {
    const [port, peer, far] = end(link, device), l = data.links;
    const here = `${place(device)}/${d[D_NAME]}:${port}`, there = `${place(peer)}/${data.devices[peer][D_NAME]}:${far}`;
    left.append(el("h3", "cable " + (link + 1)), el("p", `${data.speeds[l.s[link]]}, ${data.media[l.k[link]]}, order ${l.m[link]} m`));
    left.append(el("div", here + " > " + there, {class: "label"}), el("div", there + " > " + here, {class: "label"}));
  } else left.append(front(d[D_RACK], true));
  view.append(left, portTable(device, link));
  return view;
}

function open(device, link) {
  const d = data.devices[device], steps = [["row", data.racks[d[D_RACK]][ROW]], ["rack", d[D_RACK]], ["device", device]];
  if (link !== undefined) steps.push(["port", link]);
  go(...steps);
}
function go(...steps) { location.hash = steps.map(step => step.join("=")).join("/"); if (!steps.length) show(); }
function show() {
  path = location.hash.slice(1).split("/").filter(Boolean).map(step => step.split("="))
    .map(([kind, value]) => [kind, Number(value)]).filter(([, value]) => Number.isInteger(value));
  const of = Object.fromEntries(path);
  const names = [["data centre", []]];
  path.forEach(([kind, value], i) => names.push([kind === "row" ? "row " + value
    : kind === "rack" ? data.racks[value]?.[NAME] : kind === "device" ? data.devices[value]?.[D_NAME]
    : data.devices[of.device] ? end(value, of.device)[0] : "", path.slice(0, i + 1)]));
  crumbs.replaceChildren();
  names.forEach(([name, steps], i) => crumbs.append(i ? " › " : "", i + 1 < names.length
    ? el("button", name, {onclick: () => go(...steps)}) : el("span", name)));
  hall.replaceChildren(of.device !== undefined && data.devices[of.device] ? showDevice(of.device, of.port)
    : of.rack !== undefined && data.racks[of.rack] ? showRack(of.rack)
    : of.row !== undefined ? showRow(of.row) : showHall());
}

const plain = text => text.trim().toLowerCase().replace(/(^|[^0-9])0+(?=[0-9])/g, "$1");
const searchable = data.devices.map(device => plain(device[D_NAME]));
function search() {
  const word = plain(find.value); matches.replaceChildren(); matches.hidden = !word;
  if (!word) return;
  const hits = [];
  for (let i = 0; i < searchable.length; i++)
    if (searchable[i].includes(word)) hits.push([searchable[i] === word ? 0 : searchable[i].startsWith(word) ? 1 : 2, i]);
  data.racks.forEach((rack, i) => { if (plain(rack[NAME]) === word) hits.push([0, -1 - i]); });
  hits.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  for (const [, i] of hits.slice(0, 40)) {
    const rack = data.racks[-1 - i];
    matches.append(i < 0 ? el("button", "rack " + rack[NAME], {onclick: () => choose(() => go(["row", rack[ROW]], ["rack", -1 - i]))})
      : el("button", `${data.devices[i][D_NAME]} — ${place(i)}`, {onclick: () => choose(() => open(i))}));
  }
  if (!hits.length) matches.append(el("button", "no device with this name", {disabled: ""}));
  else matches.firstChild.setAttribute("aria-selected", "true");
}
function choose(act) { matches.hidden = true; find.value = ""; find.blur(); act(); }
find.addEventListener("input", search);
find.addEventListener("keydown", event => {
  const all = [...matches.children], at = all.findIndex(e => e.getAttribute("aria-selected") === "true");
  if (event.key === "Enter" && all[at]) { all[at].click(); event.preventDefault(); }
  if (event.key === "Escape") choose(() => {});
  const step = {ArrowDown: 1, ArrowUp: -1}[event.key];
  if (step && all.length) {
    event.preventDefault(); all[at]?.removeAttribute("aria-selected");
    const next = all[(at + step + all.length) % all.length];
    next.setAttribute("aria-selected", "true"); next.scrollIntoView({block: "nearest"});
  }
});
document.addEventListener("keydown", event => {
  if (event.target === find || event.ctrlKey || event.metaKey || event.altKey) return;
  const all = [...hall.querySelectorAll("[data-nav]")], at = all.indexOf(document.activeElement);
  if (event.key === "/") { find.focus(); event.preventDefault(); }
  else if (event.key === "Escape" || event.key === "Backspace") { go(...path.slice(0, -1)); event.preventDefault(); }
  else if (event.key === "Enter" && at >= 0 && all[at].tagName !== "BUTTON") all[at].click();
  else if (event.key.startsWith("Arrow") && all.length) {
    event.preventDefault(); nearest(all, at, event.key)?.focus();
  }
});
function nearest(all, at, key) {               // the closest element in the direction of the arrow
  if (at < 0) return all[0];
  const box = e => { const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; };
  const [x, y] = box(all[at]), across = key === "ArrowLeft" || key === "ArrowRight";
  const sign = key === "ArrowRight" || key === "ArrowDown" ? 1 : -1;
  let best = null, least = Infinity;
  for (const e of all) {
    const [ex, ey] = box(e), along = sign * (across ? ex - x : ey - y), off = Math.abs(across ? ey - y : ex - x);
    if (along > 1 && along + 4 * off < least) { least = along + 4 * off; best = e; }
  }
  return best;
}
document.querySelectorAll("[data-device]").forEach(e =>
  e.addEventListener("click", () => byName.has(e.dataset.device) && open(byName.get(e.dataset.device))));
addEventListener("hashchange", show);
show();
})();
