// charts: texts and lines take their colours from the page's variables
const config = {
  background: "transparent", font: "system-ui, sans-serif", view: {stroke: null},
  axis: {labelColor: "var(--muted)", titleColor: "var(--ink)", gridColor: "var(--line)", domainColor: "var(--grey)", tickColor: "var(--grey)", titleFontWeight: "normal"},
  legend: {labelColor: "var(--ink)", labelFontSize: 12}, title: {color: "var(--ink)", fontSize: 13, fontWeight: "normal"},
};
for (const place of document.querySelectorAll(".chart")) {
  const spec = JSON.parse(document.getElementById(place.dataset.spec).textContent);
  vegaEmbed(place, spec, {mode: "vega-lite", ast: true, actions: false, renderer: "svg", config, tooltip: {theme: "custom"}});
}
for (const table of document.querySelectorAll(".sortable")) {
  const heads = [...table.querySelectorAll("th")];
  heads.forEach((head, column) => head.querySelector("button")?.addEventListener("click", () => {
    const down = head.getAttribute("aria-sort") !== "descending" ? -1 : 1;
    heads.forEach(each => each.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down < 0 ? "descending" : "ascending");
    const key = row => row.cells[column].dataset.key, body = table.tBodies[0];
    const order = (a, b) => a === "" || b === "" ? (a === "") - (b === "") : down * (isNaN(a) || isNaN(b) ? a.localeCompare(b) : a - b);
    body.append(...[...body.rows].sort((a, b) => order(key(a), key(b))));
  }));
}
for (const section of document.querySelectorAll(".specs")) {
  const {keys, values} = JSON.parse(section.querySelector("script").textContent), selects = [...section.querySelectorAll("select")];
  const draw = () => {
    const [a, b] = selects.map(select => select.value), table = section.querySelector(".difference");
    table.replaceChildren();
    const add = (tag, cells) => cells.forEach((text, i) => Object.assign((i ? table.rows[table.rows.length - 1] : table.insertRow()).appendChild(document.createElement(tag)), {textContent: text}));
    add("th", ["key", a, b]);
    keys.forEach((key, i) => values[a][i] !== values[b][i] && add("td", [key, values[a][i], values[b][i]]));
    if (table.rows.length === 1) add("td", ["nothing", "", ""]);
  };
  selects.forEach(select => select.addEventListener("change", draw));
  draw();
}
// what is folded is printed too
const folded = [...document.querySelectorAll("details:not([open])")];
addEventListener("beforeprint", () => folded.forEach(each => each.open = true));
addEventListener("afterprint", () => folded.forEach(each => each.open = false));
