/* What the shades and the plots under the words stand for. */
(function (parts) {
  "use strict";

  const { h, drawing, fixed } = parts;

  function legend(shown) {
    const { scale, most } = drawing(shown);
    const item = (picture, text) => h("li", null, picture, h("span", null, text));
    const plot = (...marks) => h("span", { class: "plot", "aria-hidden": "true" }, marks);
    const dot = (at) => h("span", { class: "dot", "--at": at });
    const whisker = h("span", { class: "whisker", "--from": 0.15, "--to": 0.9 });
    if (shown.view === "effective") {
      const bars = h("span", { class: "plot signed", "aria-hidden": "true" }, h("span", { class: "bar down", "--at": 0.8 }));
      return list(
        item(h("span", { class: "ramp signed", "aria-hidden": "true" }), `\u2212${scale.toFixed(3)} to ${scale.toFixed(3)}; hatched: negative`),
        item(bars, "up: positive, down: negative"),
        item(null, "The part of the weights that the output depends on. It is no distribution: entries can be negative."),
      );
    }
    const both = shown.view === "alternative" ? ", here and in the comparison" : "";
    const shades = item(h("span", { class: "ramp", "aria-hidden": "true" }), `weight: 0 to ${fixed(most)}${both}`);
    const unit = shown.pieces ? "piece" : "word";
    const bounds = shown.upper
      ? item(plot(whisker, dot(0.45)), `the ${unit}\u2019s weight, and how low and high it can be with the same output; a dot alone: it is certain. Plots go up to ${fixed(scale)}.`)
      : item(plot(dot(0.45)), `the ${unit}\u2019s weight; its bounds were not computed for this row. Plots go up to ${fixed(scale)}.`);
    if (shown.view !== "alternative") return list(shades, bounds);
    const moved = plot(h("span", { class: "moved", "--from": 0.2, "--to": 0.8 }), h("span", { class: "ring", "--at": 0.2 }), dot(0.8));
    return list(shades, item(moved, "from the head\u2019s own weight (ring) to that of the alternative (dot)"), shown.upper ? bounds : null);
  }

  function list(...items) {
    const hint = h("li", { class: "hint" }, "Click a word for weights that favour it, or avoid it.");
    return h("ul", { class: "legend" }, items, hint);
  }

  Object.assign(parts, { legend });
})(window.identiformer.parts);
