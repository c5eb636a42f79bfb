// Tables sort by a click on a heading; a filter shows the rows that hold its words; plots are saved.
"use strict";

function sortable() {
  for (const heading of document.querySelectorAll("th")) {
    if (heading.querySelector("button") || !heading.textContent.trim()) continue;
    const button = document.createElement("button");
    button.type = "button";
    button.className = "sort";
    button.textContent = heading.textContent;
    heading.replaceChildren(button);
  }
}

const SCALES = { n: 1e-9, "µ": 1e-6, m: 1e-3, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18 };
const TIMES = { ns: 1e-9, "µs": 1e-6, ms: 1e-3, s: 1, min: 60, h: 3600, d: 86400 };

function amount(text) { // "1.5TB" is 1.5e12; NaN where the text is no number
  const match = /^[±~$×]*(-?[\d,]*\.?\d+)\s*([^\d\s]*)/.exec(text.trim());
  if (!match) return NaN;
  const unit = match[2];
  const scale = TIMES[unit] ?? (unit.length ? SCALES[unit[0]] ?? 1 : 1);
  return Number(match[1].replaceAll(",", "")) * scale;
}

function sort(heading) {
  const rows = heading.closest("table").tBodies[0];
  const place = [...heading.parentElement.children].indexOf(heading);
  const down = heading.getAttribute("aria-sort") === "ascending";
  for (const other of heading.parentElement.children) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", down ? "descending" : "ascending");
  const cell = (row) => row.children[place]?.textContent ?? "";
  const compare = (a, b) => {
    const [x, y] = [amount(cell(a)), amount(cell(b))];
    if (Number.isNaN(x) || Number.isNaN(y)) {
      if (Number.isNaN(x) !== Number.isNaN(y)) return Number.isNaN(x) ? 1 : -1; // unknown last
      return cell(a).localeCompare(cell(b), undefined, { numeric: true }) * (down ? -1 : 1);
    }
    return (x - y) * (down ? -1 : 1);
  };
  rows.append(...[...rows.rows].sort(compare));
}

function filter(input) {
  const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const row of document.querySelectorAll("main tbody tr")) {
    const text = row.textContent.toLowerCase();
    row.hidden = !words.every((word) => text.includes(word));
    shown += row.hidden ? 0 : 1;
  }
  input.parentElement.querySelector("output").textContent = `${shown} rows`;
}

document.addEventListener("click", (event) => {
  const heading = event.target.closest?.("button.sort")?.parentElement;
  if (heading) sort(heading);
});
document.addEventListener("input", (event) => {
  if (event.target.matches("input[data-filter]")) filter(event.target);
});
document.addEventListener("fragments", sortable);
sortable();
