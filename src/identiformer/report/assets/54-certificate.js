/* What the certificate says of a head: for each level in words, and which words could be the most attended one. */
(function (parts) {
  "use strict";

  const { h, quote, LEVELS, verdict, nameOf, fixed, count } = parts;
  const SHOWN_TOPS = 6;

  /* A sign for each state: told by its shape, not by its colour alone. */
  function mark(state) {
    return h("span", { class: `mark ${state}`, "aria-hidden": "true" });
  }

  /* `another` shows other weights, where there may be some. */
  function certificate(explanation, head, shown, another) {
    const rows = LEVELS.map((level) => {
      const says = verdict(head.levels[level.name]);
      return h(
        "div",
        { class: says.state, "data-level": level.name },
        h("dt", { title: level.means }, level.title, " ", h("span", { class: "level-name" }, level.name)),
        h("dd", null, mark(says.state), says.text),
        h("dd", { class: "quiet margin" }, says.margin),
      );
    });
    const unit = shown.pieces ? "piece" : "word";
    return [
      h("h3", null, "Could its attention have been another?"),
      h("p", { class: "headline" }, headline(head), another && !parts.isUnique(head) ? h("button", { type: "button", class: "button", onclick: another }, "Show one") : null),
      h("dl", { class: "certificate" }, rows),
      tops(explanation, shown, unit),
      head.tied_tokens
        ? h("p", null, `${count(head.tied_tokens, "token")} ${head.tied_tokens === 1 ? "has" : "have"} the same key and value as another: among distributions only their total is fixed.`)
        : null,
      typeof head.sink === "number"
        ? h("p", null, `${fixed(head.sink)} of the weight goes to no token at all: this model\u2019s heads have an attention sink.`)
        : null,
    ];
  }

  /* The answer in a sentence. */
  function headline(head) {
    const { simplex, generatable } = head.levels;
    if (simplex && simplex.verdict === "global") {
      return [mark("global"), "No. No other distribution over the words gives the same output of this head."];
    }
    if (generatable && generatable.verdict === "global") {
      return [mark("global"), "Only by weights that this head cannot make: other distributions over the words give the same output, but no query makes them."];
    }
    if (generatable && generatable.verdict === "local") {
      return [mark("local"), "Not by a small change of the query: that changes the output. But other distributions over the words give the same output."];
    }
    return [mark("none"), "Yes. Other weights give the same output, so what is shown is one explanation out of many."];
  }

  function tops(explanation, shown, unit) {
    if (shown.tops === null) {
      return h("p", { class: "quiet" }, `Which ${unit}s could be the most attended, and the bounds of the weights, were not computed for this row.`);
    }
    const counts = new Map();
    for (const i of [...shown.tops].sort((a, b) => shown.weights[b] - shown.weights[a])) {
      const name = nameOf(explanation, i, shown.pieces);
      counts.set(name, (counts.get(name) || 0) + 1);
    }
    const names = [...counts].map(([name, times]) => [h("strong", null, quote(name)), times > 1 ? ` (${times} times)` : ""]);
    if (names.length === 1) {
      const times = [...counts.values()][0];
      return h("p", null, "Most attended, for certain: ", names[0][0], times > 1 ? ` (one of ${times}).` : ".");
    }
    const listed = names.slice(0, SHOWN_TOPS).map((name, i) => [i ? ", " : "", ...name]);
    const rest = names.length > SHOWN_TOPS ? ` and ${names.length - SHOWN_TOPS} more` : "";
    return h("p", null, "Could be the most attended: ", listed, `${rest}.`);
  }

  Object.assign(parts, { certificate, mark });
})(window.identiformer.parts);
