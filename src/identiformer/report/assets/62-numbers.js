/* The numbers of a text as a table: what the shades and plots show, to be read, sorted and copied. */
(function (parts) {
  "use strict";

  const { h, fixed, quote, nameOf } = parts;

  /* `order` is {column, down}; `sort(column)` asks for another one. */
  function numbersTable(explanation, head, shown, order, sort) {
    const columns = columnsOf(explanation, shown);
    const chosen = columns.find((column) => column.name === order.column) || columns[0];
    const places = Array.from(shown.items, (_, i) => i);
    const sign = order.down ? -1 : 1;
    const key = chosen.key || ((i) => chosen.values[i]);
    places.sort((a, b) => sign * compare(key(a), key(b)) || a - b);
    return h(
      "table",
      { class: "numbers" },
      h("caption", null, `Layer ${head.layer}, head ${head.head}, row ${parts.rowName(explanation, head, shown.pieces)}. The heading of a column sorts by it.`),
      h("thead", null, h("tr", null, columns.map((column) => heading(column, chosen, order, sort)))),
      h(
        "tbody",
        null,
        places.map((i) => h("tr", null, columns.map((column) => cell(column, i)))),
        typeof head.sink === "number"
          ? h("tr", { class: "quiet" }, columns.map((column) => (column.key ? h("th", { scope: "row" }, "nothing (sink)") : h("td", { class: "number" }, column.name === "weight" ? fixed(head.sink) : ""))))
          : null,
      ),
    );
  }

  function columnsOf(explanation, shown) {
    const unit = shown.pieces ? "piece" : "word";
    const columns = [
      { name: unit, key: (i) => i, show: (i) => quote(nameOf(explanation, i, shown.pieces), 80) },
      { name: "weight", values: shown.weights },
    ];
    if (shown.lower) columns.push({ name: "from", values: shown.lower }, { name: "to", values: shown.upper });
    columns.push({ name: "effective", values: shown.effective });
    if (shown.alternative) columns.push({ name: "alternative", values: shown.alternative });
    return columns;
  }

  function compare(a, b) {
    return a < b ? -1 : a > b ? 1 : 0;
  }

  function heading(column, chosen, order, sort) {
    const sorted = column === chosen ? (order.down ? "descending" : "ascending") : null;
    const arrow = sorted ? (order.down ? " \u2193" : " \u2191") : "";
    const button = h("button", { type: "button", class: "sort", "data-column": column.name, onclick: () => sort(column.name) }, column.name, h("span", { "aria-hidden": "true" }, arrow));
    return h("th", { scope: "col", class: column.key ? null : "number", "aria-sort": sorted }, button);
  }

  function cell(column, i) {
    return column.key ? h("th", { scope: "row" }, column.show(i)) : h("td", { class: "number" }, fixed(column.values[i]));
  }

  Object.assign(parts, { numbersTable });
})(window.identiformer.parts);
