/* Single keys as shortcuts, which can be switched off; none of them works while something is typed or chosen. */
(function (parts) {
  "use strict";

  const { h } = parts;

  const KEYS = [
    [["n", "p"], "next text, previous text"],
    [["l", "L"], "next layer, previous layer"],
    [["h", "H"], "next head, previous head"],
    [["r", "R"], "next row, previous row"],
    [["a"], "attention"],
    [["e"], "effective attention"],
    [["s"], "same answer, different explanation"],
    [["w"], "words or pieces"],
    [["/"], "search in texts"],
    [["?"], "this list"],
  ];
  const WITHIN = [
    [["\u2190", "\u2192", "\u2191", "\u2193"], "from word to word, from head to head, from text to text: where the focus is"],
    [["Enter"], "in the text: an alternative that favours the word, or avoids it if it is the most attended one"],
    [["Esc"], "back to attention"],
  ];

  /* {element}; `act(key)` does what a key stands for. */
  function shortcuts(act, many) {
    const on = h("input", { type: "checkbox", id: "shortcuts-on", checked: true });
    const keys = KEYS.filter(([some]) => many || !["n", "/"].includes(some[0]));
    const lines = [...keys, ...WITHIN].map(([some, means]) => [h("dt", null, some.map((key) => [h("kbd", null, key), " "])), h("dd", null, means)]);
    const element = h(
      "details",
      { class: "shortcuts" },
      h("summary", null, "Keyboard shortcuts"),
      h("div", { class: "check" }, on, h("label", { for: "shortcuts-on" }, "single keys are shortcuts")),
      h("dl", null, lines),
    );

    function listener(event) {
      if (!element.isConnected || !on.checked || event.defaultPrevented) return;
      if (event.altKey || event.ctrlKey || event.metaKey) return;
      if (event.target.closest && event.target.closest("input:not([type=radio],[type=checkbox]), select, textarea, [contenteditable]")) return;
      if (event.key === "?") {
        element.open = true;
        element.firstChild.focus();
      } else if (!keys.some(([some]) => some.includes(event.key)) || act(event.key) === false) {
        return;
      }
      event.preventDefault();
    }
    document.addEventListener("keydown", listener);
    return { element, stop: () => document.removeEventListener("keydown", listener) };
  }

  Object.assign(parts, { shortcuts });
})(window.identiformer.parts);
