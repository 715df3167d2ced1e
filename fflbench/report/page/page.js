"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const rows = [...document.querySelectorAll("article tbody tr")];
const newElement = (name, text, attributes = {}) => {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
};

// Sorting: figures by value, what has none last; a second time the other way round.
const sortValue = (row, column) => {
  const cell = row.children[column];
  if (column === 0) return cell.textContent.trim().toLowerCase();
  return cell.dataset.v === undefined ? null : Number(cell.dataset.v);
};
const sortByColumn = (head) => {
  const table = head.closest("table");
  const column = [...head.parentNode.children].indexOf(head);
  const up = head.getAttribute("aria-sort") !== "ascending";
  for (const other of head.parentNode.children) other.setAttribute("aria-sort", "none");
  head.setAttribute("aria-sort", up ? "ascending" : "descending");
  const body = table.tBodies[0];
  const keyed = [...body.rows].map((row) => [sortValue(row, column), row]);
  keyed.sort(([one], [other]) => {
    if (one === null || other === null) return (one === null) - (other === null);
    const order = typeof one === "string" ? one.localeCompare(other) : one - other;
    return up ? order : -order;
  });
  body.replaceChildren(...keyed.map(([, row]) => row));
};
for (const button of document.querySelectorAll(".sort")) button.addEventListener("click", () => sortByColumn(button.parentNode));

// Searching and filtering.
for (const form of document.forms) form.addEventListener("submit", (event) => event.preventDefault());
const search = document.getElementById("search");
const boxes = [...document.querySelectorAll("input[name=defense]")];
const texts = rows.map((row) => `${row.closest("article").querySelector("h3").textContent} ${row.textContent}`.toLowerCase());
const filterRows = () => {
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
  const count = shown ? `${shown} of ${rows.length} rows` : "No row matches.";
  document.getElementById("found").textContent = shown === rows.length ? "" : count;
};
search.addEventListener("input", filterRows);
for (const box of boxes) box.addEventListener("change", filterRows);
document.getElementById("all").addEventListener("click", () => {
  search.value = "";
  for (const box of boxes) box.checked = true;
  filterRows();
});

// Where a table is wider than its place.
const hints = [...document.querySelectorAll(".scroll")].map((box) => {
  const hint = newElement("p", "More columns to the right: scroll sideways.", { class: "notes" });
  box.before(hint);
  return () => { hint.hidden = box.scrollWidth <= box.clientWidth + 1; };
});
const updateScrollHints = () => hints.forEach((update) => update());
addEventListener("resize", updateScrollHints);
addEventListener("load", updateScrollHints);

// What a column means: beside its mark, wherever a table has been scrolled to.
for (const button of document.querySelectorAll(".about")) {
  const tip = button.nextElementSibling;
  const placeTooltip = () => {
    const mark = button.getBoundingClientRect();
    tip.style.left = `${Math.max(8, Math.min(mark.left, innerWidth - tip.offsetWidth - 8))}px`;
    tip.style.top = `${mark.bottom + 6}px`;
  };
  button.addEventListener("mouseenter", placeTooltip);
  button.addEventListener("focus", placeTooltip);
  button.addEventListener("keydown", (event) => { if (event.key === "Escape") button.blur(); });
}

addEventListener("scroll", () => { if (document.activeElement.matches(".about")) document.activeElement.blur(); }, true);

// What is behind a figure.
const dialog = document.getElementById("details");
const formatFigure = (figure) => (typeof figure === "number" ? String(Number(figure.toPrecision(6))) : JSON.stringify(figure));
const definitionList = (values) => {
  const made = newElement("dl");
  for (const [name, figure] of Object.entries(values)) made.append(newElement("dt", name), newElement("dd", formatFigure(figure)));
  return made;
};
const drawCurve = (points, title) => {
  const name = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(name, "svg");
  svg.setAttribute("viewBox", "0 0 100 40");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("class", "curve");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `${title}, from ${formatFigure(points[0])} to ${formatFigure(points.at(-1))}`);
  const low = Math.min(...points), high = Math.max(...points);
  const line = document.createElementNS(name, "polyline");
  const coordinates = (point, at) => `${(100 * at) / Math.max(points.length - 1, 1)},${38 - (36 * (point - low)) / (high - low || 1)}`;
  line.setAttribute("points", points.map(coordinates).join(" "));
  line.setAttribute("fill", "none");
  line.setAttribute("stroke", "currentColor");
  line.setAttribute("vector-effect", "non-scaling-stroke");
  svg.append(line);
  return svg;
};
const recordBox = (index, number) => {
  const record = data.records[index];
  const made = newElement("article"), box = newElement("details"), head = newElement("summary");
  head.append(newElement("h3", `${record.name}, seed ${record.seed}`), record.main ? `: ${record.main[0]} ${formatFigure(record.main[1])}` : "");
  box.append(head);
  box.open = number === 0;
  made.append(box);
  if (record.status) box.append(newElement("p", record.status));
  if (record.metrics) box.append(definitionList(record.metrics));
  if (record.points) box.append(newElement("p", `${record.what}, from ${formatFigure(record.points[0])} to ${formatFigure(record.points.at(-1))}`), drawCurve(record.points, record.what));
  if (record.configuration) {
    const more = newElement("details");
    more.append(newElement("summary", "Configuration and machine"), newElement("pre", JSON.stringify(record.configuration, null, 1)), definitionList(record.manifest));
    box.append(more);
  }
  box.append(newElement("p", "Run it again, from the project's folder:"), newElement("pre", `fflbench run leaderboards/${data.suite}/${record.id} --force${record.plugins ?? ""}`));
  box.append(newElement("p", "All of its record:"), newElement("pre", `fflbench show leaderboards/${data.suite}/${record.id}`));
  return made;
};
const openRecords = (button) => {
  const cell = button.parentNode, row = cell.parentNode, table = row.closest("table");
  const head = table.tHead.rows[0].children[[...row.children].indexOf(cell)].querySelector(".sort").textContent;
  const title = document.getElementById("details-title");
  title.textContent = `${row.children[0].textContent.trim()}: ${head}, ${button.textContent.trim().replace(/^= /, "")}`;
  const places = button.dataset.r.split(" ").map((place) => parseInt(place, 36));
  const body = document.getElementById("details-body");
  body.replaceChildren(newElement("p", `${table.closest("article").querySelector("h3").textContent}. Made from ${places.length} record${places.length > 1 ? "s" : ""}:`));
  body.append(...places.map(recordBox));
  dialog.showModal();
  title.focus();
};
for (const button of document.querySelectorAll(".cell")) button.addEventListener("click", () => openRecords(button));
document.getElementById("close").addEventListener("click", () => dialog.close());
dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });

// Two side by side.
const one = document.getElementById("one"), other = document.getElementById("other");
const compareDefenses = () => {
  const table = document.getElementById("compared");
  const head = newElement("tr");
  for (const name of ["figure", one.value, other.value, "difference"]) head.append(newElement("th", name, { scope: "col" }));
  table.tHead.replaceChildren(head);
  const lines = [];
  for (const panel of document.querySelectorAll("article.panel")) {
    const found = [one, other].map((chosen) => [...panel.querySelectorAll("tbody tr")].filter((row) => row.dataset.defense === chosen.value && !row.children[0].textContent.includes("(no attack)")));
    if (!found[0].length || !found[1].length) continue;
    const title = newElement("tr");
    title.append(newElement("th", panel.querySelector("h3").textContent, { scope: "rowgroup", colspan: "4" }));
    lines.push(title);
    panel.querySelectorAll("thead th").forEach((column, place) => {
      const sides = found.map((of) => of.map((row) => row.children[place]));
      if (place === 0 || !sides.flat().some((cell) => cell.textContent.trim())) return;
      const line = newElement("tr");
      line.append(newElement("th", column.querySelector(".sort").textContent, { scope: "row" }));
      // Of several rows none stands for the others.
      const values = sides.map((cells) => (cells.length > 1 || cells[0].dataset.v === undefined ? null : Number(cells[0].dataset.v)));
      const both = values[0] !== null && values[1] !== null;
      const spreads = sides.map((cells) => Number(cells[0].dataset.s ?? 0));
      const apart = both && Math.abs(values[0] - values[1]) > spreads[0] + spreads[1];
      const good = data.good[panel.id][place - 1];
      sides.forEach((cells, side) => {
        const texts = cells.map((cell) => {
          const text = cell.textContent.trim().replace(/^= /, "");
          return cells.length > 1 ? `${cell.parentNode.children[0].textContent.trim()}: ${text}` : text;
        });
        const made = newElement("td", texts.join("; "));
        if (apart && good && (values[side] - values[1 - side]) * good > 0) made.className = "better";
        line.append(made);
      });
      line.append(newElement("td", both ? (values[0] - values[1]).toFixed(data.digits[panel.id][place - 1]) : ""));
      lines.push(line);
    });
  }
  table.tBodies[0].replaceChildren(...lines);
  updateScrollHints();
};
one.addEventListener("change", compareDefenses);
other.addEventListener("change", compareDefenses);
compareDefenses();
