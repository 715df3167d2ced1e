"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const rows = [...document.querySelectorAll("article tbody tr")];
const make = (name, text, attributes = {}) => {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
};

// Sorting: figures by value, what has none last; a second time the other way round.
const value = (row, place) => {
  const cell = row.children[place];
  if (place === 0) return cell.textContent.trim().toLowerCase();
  return cell.dataset.v === undefined ? null : Number(cell.dataset.v);
};
const sort = (head) => {
  const table = head.closest("table");
  const place = [...head.parentNode.children].indexOf(head);
  const up = head.getAttribute("aria-sort") !== "ascending";
  for (const other of head.parentNode.children) other.setAttribute("aria-sort", "none");
  head.setAttribute("aria-sort", up ? "ascending" : "descending");
  const body = table.tBodies[0];
  const keyed = [...body.rows].map((row) => [value(row, place), row]);
  keyed.sort(([one], [other]) => {
    if (one === null || other === null) return (one === null) - (other === null);
    const order = typeof one === "string" ? one.localeCompare(other) : one - other;
    return up ? order : -order;
  });
  body.replaceChildren(...keyed.map(([, row]) => row));
};
for (const button of document.querySelectorAll(".sort")) button.addEventListener("click", () => sort(button.parentNode));

// Searching and filtering.
for (const form of document.forms) form.addEventListener("submit", (event) => event.preventDefault());
const search = document.getElementById("search");
const boxes = [...document.querySelectorAll("input[name=defense]")];
const texts = rows.map((row) => `${row.closest("article").querySelector("h3").textContent} ${row.textContent}`.toLowerCase());
const filter = () => {
  const words = search.value.toLowerCase().split(/[\s,]+/).filter(Boolean);
  const left = new Set(boxes.filter((box) => !box.checked).map((box) => box.value));
  let shown = 0;
  rows.forEach((row, place) => {
    row.hidden = left.has(row.dataset.defense) || !words.every((word) => texts[place].includes(word));
    shown += !row.hidden;
  });
  for (const panel of document.querySelectorAll("article.panel")) {
    panel.hidden = ![...panel.querySelectorAll("tbody tr")].some((row) => !row.hidden);
  }
  const told = shown ? `${shown} of ${rows.length} rows` : "No row matches.";
  document.getElementById("found").textContent = shown === rows.length ? "" : told;
};
search.addEventListener("input", filter);
for (const box of boxes) box.addEventListener("change", filter);
document.getElementById("all").addEventListener("click", () => {
  search.value = "";
  for (const box of boxes) box.checked = true;
  filter();
});

// Where a table is wider than its place.
const hints = [...document.querySelectorAll(".scroll")].map((box) => {
  const hint = make("p", "More columns to the right: scroll sideways.", { class: "notes" });
  box.before(hint);
  return () => { hint.hidden = box.scrollWidth <= box.clientWidth + 1; };
});
const hint = () => hints.forEach((update) => update());
addEventListener("resize", hint);
addEventListener("load", hint);

// What a column means: beside its mark, wherever a table has been scrolled to.
for (const button of document.querySelectorAll(".about")) {
  const tip = button.nextElementSibling;
  const place = () => {
    const mark = button.getBoundingClientRect();
    tip.style.left = `${Math.max(8, Math.min(mark.left, innerWidth - tip.offsetWidth - 8))}px`;
    tip.style.top = `${mark.bottom + 6}px`;
  };
  button.addEventListener("mouseenter", place);
  button.addEventListener("focus", place);
  button.addEventListener("keydown", (event) => { if (event.key === "Escape") button.blur(); });
}

addEventListener("scroll", () => { if (document.activeElement.matches(".about")) document.activeElement.blur(); }, true);

// What is behind a figure.
const dialog = document.getElementById("details");
const shown = (figure) => (typeof figure === "number" ? String(Number(figure.toPrecision(6))) : JSON.stringify(figure));
const list = (told) => {
  const made = make("dl");
  for (const [name, figure] of Object.entries(told)) made.append(make("dt", name), make("dd", shown(figure)));
  return made;
};
const curve = (points, what) => {
  const name = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(name, "svg");
  svg.setAttribute("viewBox", "0 0 100 40");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("class", "curve");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `${what}, from ${shown(points[0])} to ${shown(points.at(-1))}`);
  const low = Math.min(...points), high = Math.max(...points);
  const line = document.createElementNS(name, "polyline");
  const place = (point, at) => `${(100 * at) / Math.max(points.length - 1, 1)},${38 - (36 * (point - low)) / (high - low || 1)}`;
  line.setAttribute("points", points.map(place).join(" "));
  line.setAttribute("fill", "none");
  line.setAttribute("stroke", "currentColor");
  line.setAttribute("vector-effect", "non-scaling-stroke");
  svg.append(line);
  return svg;
};
const record = (place, number) => {
  const told = data.records[place];
  const made = make("article"), box = make("details"), head = make("summary");
  head.append(make("h3", `${told.name}, seed ${told.seed}`), told.main ? `: ${told.main[0]} ${shown(told.main[1])}` : "");
  box.append(head);
  box.open = number === 0;
  made.append(box);
  if (told.status) box.append(make("p", told.status));
  if (told.metrics) box.append(list(told.metrics));
  if (told.points) box.append(make("p", `${told.what}, from ${shown(told.points[0])} to ${shown(told.points.at(-1))}`), curve(told.points, told.what));
  if (told.configuration) {
    const more = make("details");
    more.append(make("summary", "Configuration and machine"), make("pre", JSON.stringify(told.configuration, null, 1)), list(told.manifest));
    box.append(more);
  }
  box.append(make("p", "Run it again, from the project's folder:"), make("pre", `fflbench run leaderboards/${data.suite}/${told.id} --force${told.plugins ?? ""}`));
  box.append(make("p", "All of its record:"), make("pre", `fflbench show leaderboards/${data.suite}/${told.id}`));
  return made;
};
const open = (button) => {
  const cell = button.parentNode, row = cell.parentNode, table = row.closest("table");
  const head = table.tHead.rows[0].children[[...row.children].indexOf(cell)].querySelector(".sort").textContent;
  const title = document.getElementById("details-title");
  title.textContent = `${row.children[0].textContent.trim()}: ${head}, ${button.textContent.trim().replace(/^= /, "")}`;
  const places = button.dataset.r.split(" ").map((place) => parseInt(place, 36));
  const body = document.getElementById("details-body");
  body.replaceChildren(make("p", `${table.closest("article").querySelector("h3").textContent}. Made from ${places.length} record${places.length > 1 ? "s" : ""}:`));
  body.append(...places.map(record));
  dialog.showModal();
  title.focus();
};
for (const button of document.querySelectorAll(".cell")) button.addEventListener("click", () => open(button));
document.getElementById("close").addEventListener("click", () => dialog.close());
dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });

// Two side by side.
const one = document.getElementById("one"), other = document.getElementById("other");
const compare = () => {
  const table = document.getElementById("compared");
  const head = make("tr");
  for (const name of ["figure", one.value, other.value, "difference"]) head.append(make("th", name, { scope: "col" }));
  table.tHead.replaceChildren(head);
  const lines = [];
  for (const panel of document.querySelectorAll("article.panel")) {
    const found = [one, other].map((chosen) => [...panel.querySelectorAll("tbody tr")].filter((row) => row.dataset.defense === chosen.value && !row.children[0].textContent.includes("(no attack)")));
    if (!found[0].length || !found[1].length) continue;
    const title = make("tr");
    title.append(make("th", panel.querySelector("h3").textContent, { scope: "rowgroup", colspan: "4" }));
    lines.push(title);
    panel.querySelectorAll("thead th").forEach((column, place) => {
      const sides = found.map((of) => of.map((row) => row.children[place]));
      if (place === 0 || !sides.flat().some((cell) => cell.textContent.trim())) return;
      const line = make("tr");
      line.append(make("th", column.querySelector(".sort").textContent, { scope: "row" }));
      // Of several rows none stands for the others.
      const values = sides.map((cells) => (cells.length > 1 || cells[0].dataset.v === undefined ? null : Number(cells[0].dataset.v)));
      const both = values[0] !== null && values[1] !== null;
      const spreads = sides.map((cells) => Number(cells[0].dataset.s ?? 0));
      const apart = both && Math.abs(values[0] - values[1]) > spreads[0] + spreads[1];
      const good = data.good[panel.id][place - 1];
      sides.forEach((cells, side) => {
        const told = cells.map((cell) => {
          const text = cell.textContent.trim().replace(/^= /, "");
          return cells.length > 1 ? `${cell.parentNode.children[0].textContent.trim()}: ${text}` : text;
        });
        const made = make("td", told.join("; "));
        if (apart && good && (values[side] - values[1 - side]) * good > 0) made.className = "better";
        line.append(made);
      });
      line.append(make("td", both ? (values[0] - values[1]).toFixed(data.digits[panel.id][place - 1]) : ""));
      lines.push(line);
    });
  }
  table.tBodies[0].replaceChildren(...lines);
  hint();
};
one.addEventListener("change", compare);
other.addEventListener("change", compare);
compare();
