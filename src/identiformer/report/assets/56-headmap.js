/* All heads at a glance: for each layer and head the state of its certificates. A click shows the head. */
(function (parts) {
  "use strict";

  const { h, mark, verdict, roving } = parts;

  /* The heads of the row that is shown; of those without it, their first row. */
  function headMap(explanation, head, choose) {
    const layers = unique(explanation.heads.map((one) => one.layer).concat(explanation.refused.map((one) => one.layer)));
    const columns = unique(explanation.heads.map((one) => one.head).concat(explanation.refused.map((one) => one.head)));
    if (layers.length * columns.length < 2) return null;
    const buttons = [];
    const places = [];
    const rows = layers.map((layer, y) =>
      h(
        "tr",
        null,
        h("th", { scope: "row" }, h("span", { class: "unseen" }, "layer "), layer),
        columns.map((column, x) => {
          const some = explanation.heads.filter((one) => one.layer === layer && one.head === column);
          const one = some.find((other) => other.row === head.row) || some[0];
          if (!one) return h("td", null, refusal(explanation, layer, column));
          const simplex = verdict(one.levels.simplex);
          const generatable = verdict(one.levels.generatable);
          const label = `layer ${layer}, head ${column}: any distribution: ${simplex.text}; what a query can generate: ${generatable.text}`;
          const button = h(
            "button",
            { type: "button", class: "cell", title: label, "aria-label": label, "aria-pressed": String(layer === head.layer && column === head.head) },
            mark(simplex.state),
            mark(generatable.state),
          );
          button.addEventListener("click", () => choose(one));
          buttons.push(button);
          places.push([y, x]);
          return h("td", null, button);
        }),
      ),
    );
    const current = buttons.findIndex((button) => button.getAttribute("aria-pressed") === "true");
    roving(buttons, Math.max(0, current), (key, i) => step(places, key, i));
    return h(
      "div",
      { class: "scroll" },
      h(
        "table",
        { class: "head-map" },
        h("caption", { class: "unseen" }, "Certificates of all heads; arrow keys go from head to head, Enter shows one"),
        h("thead", null, h("tr", null, h("td", { class: "corner" }, "layer \u2193 head \u2192"), columns.map((column) => h("th", { scope: "col" }, h("span", { class: "unseen" }, "head "), column)))),
        h("tbody", null, rows),
      ),
    );
  }

  function refusal(explanation, layer, column) {
    const refused = explanation.refused.find((one) => one.layer === layer && one.head === column);
    if (!refused) return null;
    return h("span", { class: "left-out", title: `left out: ${refused.reason}` }, "\u2013", h("span", { class: "unseen" }, "left out"));
  }

  /* The nearest head in the direction of an arrow. */
  function step(places, key, i) {
    const direction = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[key];
    if (key === "Home") return 0;
    if (key === "End") return places.length - 1;
    if (!direction) return undefined;
    const [down, right] = direction;
    const ahead = places
      .map(([y, x], j) => ({ j, y: y - places[i][0], x: x - places[i][1] }))
      .filter((place) => (down ? place.y * down > 0 : place.y === 0 && place.x * right > 0))
      .sort((a, b) => Math.abs(a.y) - Math.abs(b.y) || Math.abs(a.x) - Math.abs(b.x));
    return ahead.length ? ahead[0].j : i;
  }

  function unique(numbers) {
    return [...new Set(numbers)].sort((a, b) => a - b);
  }

  Object.assign(parts, { headMap, unique });
})(window.identiformer.parts);
