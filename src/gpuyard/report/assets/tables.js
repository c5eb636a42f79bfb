(() => {
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
  input.closest(".filter").querySelector("output").textContent = `${shown} rows`;
}

// A plot is saved as PNG or SVG, a table as CSV: what is on the screen, in its colours.
const LEAST_ROWS = 4, LEAST_COLUMNS = 3; // of a table that is worth a file

function savable() {
  const plots = [...document.querySelectorAll(".plot, .drawing:not(:has(.plot))")].filter((item) => item.querySelector("svg"));
  const tables = [...document.querySelectorAll(".scroll")].filter((item) => {
    const rows = item.querySelector("table")?.rows ?? [];
    return rows.length > LEAST_ROWS && rows[0].cells.length >= LEAST_COLUMNS;
  });
  for (const plot of [...plots, ...tables]) {
    const whole = plot.closest(".fabric") ?? plot; // a drawing with its side panel
    if (whole.nextElementSibling?.classList.contains("save") || plot.closest(".legend")) continue;
    const kinds = plots.includes(plot) ? ["PNG", "SVG"] : ["CSV"];
    const bar = document.createElement("div");
    bar.className = "save";
    for (const kind of kinds) {
      const button = document.createElement("button");
      button.type = "button";
      button.dataset.save = kind;
      button.textContent = kind;
      button.setAttribute("aria-label", `Save as ${kind}`);
      bar.append(button);
    }
    whole.after(bar);
  }
}

function save(name, address) {
  const link = document.createElement("a");
  link.download = name;
  link.href = address;
  link.click();
}

function title(element) { // the heading above
  for (let place = element; place; place = place.previousElementSibling ?? place.parentElement) {
    if (/^H[1-4]$/.test(place.tagName)) return place.textContent.trim().toLowerCase().replace(/\W+/g, "-");
  }
  return "gpuyard";
}

function csv(table) {
  const rows = [...table.rows].filter((row) => !row.hidden);
  const cell = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  return rows.map((row) => [...row.cells].map((item) => cell(item.textContent.trim())).join(",")).join("\n");
}

// The legend is HTML below the plot; a saved picture has it inside.
function legend(plot, box) {
  const group = document.createElementNS("http://www.w3.org/2000/svg", "g");
  let [x, y] = [12, box.height + 8];
  const below = [];
  for (let next = (plot.closest(".drawing") ?? plot).nextElementSibling; next; next = next.nextElementSibling) {
    if (next.matches("ul.legend")) below.push(...next.children);
    else if (!next.matches(".save")) break;
  }
  for (const entry of below) {
    const width = 30 + 7 * entry.textContent.length;
    if (x + width > box.width) [x, y] = [12, y + 20];
    const mark = entry.querySelector("svg")?.cloneNode(true) ?? document.createElementNS("http://www.w3.org/2000/svg", "rect");
    const place = { x, y, width: 12, height: 12, ...(entry.querySelector("i") && { fill: entry.querySelector("i").style.background }) };
    for (const [name, value] of Object.entries(place)) mark.setAttribute(name, value);
    mark.removeAttribute("style");
    const text = document.createElementNS("http://www.w3.org/2000/svg", "text");
    for (const [name, value] of [["x", x + 18], ["y", y + 10], ["font-size", 12]]) text.setAttribute(name, value);
    text.textContent = entry.textContent;
    group.append(mark, text);
    x += width;
  }
  return [group, below.length ? y + 24 - box.height : 0];
}

function svg(plot) {
  const copy = plot.querySelector("svg").cloneNode(true);
  const box = plot.querySelector("svg").viewBox.baseVal;
  const [key, added] = legend(plot, box);
  copy.append(key);
  copy.setAttribute("viewBox", `0 0 ${box.width} ${box.height + added}`);
  copy.setAttribute("width", 2 * box.width);
  copy.setAttribute("height", 2 * (box.height + added));
  const style = getComputedStyle(plot);
  copy.setAttribute("style", `color:${style.color};font-family:${style.fontFamily}`);
  const back = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  back.setAttribute("width", "100%");
  back.setAttribute("height", "100%");
  back.setAttribute("fill", getComputedStyle(document.body).backgroundColor);
  copy.prepend(back);
  return "data:image/svg+xml;charset=utf-8," + encodeURIComponent(new XMLSerializer().serializeToString(copy));
}

function export_(button) {
  const target = button.parentElement.previousElementSibling; // what the bar follows
  const name = title(target);
  if (button.dataset.save === "CSV") {
    save(`${name}.csv`, "data:text/csv;charset=utf-8," + encodeURIComponent(csv(target.querySelector("table"))));
  } else if (button.dataset.save === "SVG") {
    save(`${name}.svg`, svg(target));
  } else {
    const image = new Image();
    image.onload = () => {
      const canvas = document.createElement("canvas");
      [canvas.width, canvas.height] = [image.width, image.height];
      canvas.getContext("2d").drawImage(image, 0, 0);
      save(`${name}.png`, canvas.toDataURL("image/png"));
    };
    image.src = svg(target);
  }
}

document.addEventListener("click", (event) => {
  if (event.target.dataset?.save) export_(event.target);
  const heading = event.target.closest?.("button.sort")?.parentElement;
  if (heading) sort(heading);
});
document.addEventListener("input", (event) => {
  if (event.target.matches("input[data-filter]")) filter(event.target);
});
// What scrolls can be focused, so that the arrow keys scroll it; what fits is no stop for Tab.
function scrollable() {
  for (const region of document.querySelectorAll(".scroll, .drawing, .heat")) {
    if (region.scrollWidth > region.clientWidth) {
      region.tabIndex = 0;
      region.setAttribute("role", "group");
      region.setAttribute("aria-label", title(region));
    } else if (region.getAttribute("role") === "group") {
      for (const name of ["tabindex", "role", "aria-label"]) region.removeAttribute(name);
    }
  }
}

function prepare() {
  sortable();
  savable();
  scrollable();
}
addEventListener("resize", scrollable);
document.addEventListener("fragments", prepare);
prepare();
})();
