// The OpenAPI document as a page.
const made = (kind, attributes = {}, ...inside) => { const one = document.createElement(kind); for (const [name, value] of Object.entries(attributes)) one[name] = value; one.append(...inside); return one; };
const json = (value) => made("pre", {}, JSON.stringify(value, null, 2));

const api = await (await fetch("/openapi.json")).json();
document.getElementById("title").textContent = `${api.info.title} ${api.info.version}`;
document.getElementById("about").textContent = api.info.description;
for (const [path, item] of Object.entries(api.paths)) {
  for (const [verb, operation] of Object.entries(item)) {
    if (verb === "parameters") continue;
    const rows = Object.entries(operation.responses).map(([status, one]) => made("tr", {}, made("td", {}, status), made("td", {}, one.description)));
    const box = made("details", {}, made("summary", {}, made("span", { className: `verb ${verb}` }, verb), made("code", {}, path), made("span", { className: "about" }, operation.summary)));
    if (operation.requestBody) box.append(made("p", {}, "Body"), json(operation.requestBody.content["application/json"].schema));
    box.append(made("table", {}, ...rows));
    document.getElementById("operations").append(box);
  }
}
for (const [name, schema] of Object.entries(api.components.schemas)) document.getElementById("schemas").append(made("details", {}, made("summary", {}, made("code", {}, name)), json(schema)));
