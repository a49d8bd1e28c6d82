/* What stands above a text: which one it is, what the model says of it, and what is unusual. */
(function (parts) {
  "use strict";

  const { h, quote, readable, count, isWrong } = parts;
  const SHOWN_LABELS = 5;

  function prediction(explanation) {
    const { prediction: says, label } = explanation;
    if (says === null || says === undefined) {
      return [
        h("p", { class: "prediction" }, "No prediction: the model does not classify texts. Only its attention is shown."),
        labelled(label, false),
      ];
    }
    const ranked = Object.entries(explanation.probabilities || {}).sort((a, b) => b[1] - a[1]);
    const shown = ranked.filter(([name], i) => i < SHOWN_LABELS || name === label);
    const rest = ranked.length - shown.length;
    return [
      h("p", { class: "prediction" }, h("span", { class: "quiet" }, "Prediction "), h("strong", null, quote(says)), labelled(label, isWrong(explanation))),
      ranked.length
        ? h(
            "ul",
            { class: "probabilities", "aria-label": "Probabilities" },
            shown.map(([name, share]) =>
              h("li", { class: name === says ? "predicted" : null }, h("span", { class: "name" }, quote(name, 40)), h("span", { class: "share", "--share": share, "aria-hidden": "true" }), h("span", { class: "number" }, share.toFixed(3))),
            ),
            rest > 0 ? h("li", { class: "quiet more" }, `and ${count(rest, "more label", "more labels")}`) : null,
          )
        : null,
    ];
  }

  function labelled(label, wrong) {
    if (typeof label !== "string") return null;
    if (wrong) return h("span", { class: "wrong" }, h("span", { "aria-hidden": "true" }, "\u2715 "), "wrong: it is labelled ", h("strong", null, quote(label)));
    return h("span", { class: "quiet" }, " labelled ", quote(label));
  }

  /* Sentences on what the model did not read or know. */
  function remarks(explanation) {
    const words = explanation.words.filter((word) => !word.special);
    const unknown = words.filter((word) => word.unknown).length;
    const some = [];
    if (explanation.truncated) {
      some.push(`The text is longer than the model reads: it was cut after ${count(explanation.tokens.length, "token")}.`);
    }
    if (unknown) {
      some.push(`${unknown} of ${count(words.length, "word")} ${unknown === 1 ? "is" : "are"} unknown to the model, which takes every unknown word for the same (dotted underlines).`);
    }
    return some.length ? h("ul", { class: "remarks" }, some.map((text) => h("li", null, text))) : null;
  }

  /* Notes on layers, and heads that are left out: one line for each reason. */
  function leftOut(explanation) {
    const lines = [];
    const layers = gather(explanation.notes || [], (note) => note.note, (note) => String(note.layer));
    for (const [note, some] of layers) lines.push(`Layer${some.length > 1 ? "s" : ""} ${some.join(", ")}: ${note}`);
    const heads = gather(explanation.refused || [], (one) => one.reason, (one) => `${one.layer}.${one.head}`);
    for (const [reason, some] of heads) lines.push(`Left out, layer.head ${some.slice(0, 10).join(", ")}${some.length > 10 ? ", \u2026" : ""}: ${reason}`);
    return lines.length ? [h("h3", null, "Left out, or unusual"), h("ul", null, lines.map((line) => h("li", null, readable(line))))] : null;
  }

  function gather(list, key, value) {
    const groups = new Map();
    for (const one of list) groups.set(key(one), [...(groups.get(key(one)) || []), value(one)]);
    return groups;
  }

  Object.assign(parts, { prediction, remarks, leftOut });
})(window.identiformer.parts);
