// The planner: every change of the form, the file or a slider is checked and planned again.
"use strict";
const WAIT_MS = 350;
const planner = () => document.getElementById("planner");
let timer = 0;
let running = null;

function changed(event) {
  const target = event.target;
  if (target.name === "text") return "text";
  if (target.type === "range") {
    const output = target.parentElement.querySelector("output");
    output.textContent = "× " + Number((2 ** Number(target.value)).toPrecision(3));
    return "factor";
  }
  return "form";
}

async function plan(change) {
  const body = new URLSearchParams(new FormData(planner()));
  body.set("changed", change);
  running?.abort();
  running = new AbortController();
  state.textContent = "planning …";
  try {
    const answer = await fetch("/planner", {
      method: "POST", body, headers: { Accept: "application/json" }, signal: running.signal,
    });
    if (!answer.ok) throw new Error(`${answer.status} ${answer.statusText}`);
    show(await answer.json(), change);
    state.textContent = "";
  } catch (error) {
    if (error.name !== "AbortError") state.textContent = `not planned: ${error.message}`;
  }
}

function show(answer, change) {
  const task = planner().elements.task.value;
  for (const part of answer.fragments) {
    const fields = part.id === "form" && planner().dataset.task === answer.values.task;
    if (fields) continue; // the fields stay, so that nobody loses the place where they type
    const place = document.getElementById(part.id);
    place.innerHTML = part.html;
    place.dataset.mark = part.mark;
  }
  planner().dataset.task = answer.values.task;
  for (const [name, value] of Object.entries(answer.values)) {
    const input = planner().elements[name];
    const typing = input === document.activeElement && (change === "text") === (name === "text");
    if (input && !typing && input.value !== value) input.value = value;
  }
  if (task !== answer.values.task) planner().elements.task.focus();
  document.dispatchEvent(new Event("fragments"));
}

planner().dataset.task = planner().elements.task.value;
document.addEventListener("input", (event) => {
  if (event.target.form !== planner() || event.target.name === "option") return;
  const change = changed(event);
  clearTimeout(timer);
  timer = setTimeout(() => plan(change), event.target.tagName === "SELECT" ? 0 : WAIT_MS);
});
document.addEventListener("submit", (event) => {
  const button = event.submitter;
  if (event.target !== planner() || button?.hasAttribute("formaction")) return;
  event.preventDefault();
  plan(button?.value || "form");
});
document.addEventListener("click", (event) => {
  const line = Number(event.target.dataset?.line);
  if (!line) return;
  const text = planner().elements.text;
  const lines = text.value.split("\n");
  const start = lines.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
  text.focus();
  text.setSelectionRange(start, start + (lines[line - 1] ?? "").length);
});
if (document.getElementById("waiting")) plan("text");
