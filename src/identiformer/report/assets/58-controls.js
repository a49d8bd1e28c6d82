/* The controls above a text: layer, head, row, what is shown of them, and by which unit. They stay where they are, and
   so keep the focus, while what they show changes. */
(function (parts) {
  "use strict";

  const { h, replace, rowName, unique } = parts;

  const VIEWS = [
    ["attention", "Attention", "the weights of the head"],
    ["effective", "Effective attention", "the part of the weights that the output depends on"],
    ["alternative", "An alternative", "same answer, different explanation: other weights that give the same output"],
  ];
  const UNITS = [
    ["words", "Words"],
    ["pieces", "Pieces"],
  ];

  /* {element, update(explanation, head, state)}; `set` takes what is to change. */
  function controls(set, pick) {
    const selects = {};
    const fields = ["layer", "head", "row"].map((name) => {
      selects[name] = h("select", { id: `choose-${name}`, onchange: (event) => pick(name, Number(event.target.value)) });
      return h("div", { class: "field" }, h("label", { for: `choose-${name}` }, name[0].toUpperCase() + name.slice(1)), selects[name]);
    });
    const view = choice("view", "What is shown", VIEWS, (value) => set({ view: value }));
    const unit = choice("unit", "By", UNITS, (value) => set({ unit: value }));
    const element = h("div", { class: "controls" }, h("div", { class: "fields" }, fields, unit.element), view.element);

    function update(explanation, head, state) {
      const heads = explanation.heads;
      const ofLayer = heads.filter((one) => one.layer === head.layer);
      const ofHead = ofLayer.filter((one) => one.head === head.head);
      options(selects.layer, unique(heads.map((one) => one.layer)), head.layer, String);
      options(selects.head, unique(ofLayer.map((one) => one.head)), head.head, String);
      options(selects.row, ofHead.map((one) => one.row), head.row, (row, i) => rowTitle(explanation, ofHead[i], state.unit === "pieces"));
      unit.element.hidden = explanation.words.every((word) => word.tokens.length === 1);
      view.choose(state.view);
      unit.choose(state.unit);
    }

    return { element, update };
  }

  function rowTitle(explanation, head, pieces) {
    return head.kind === "cross" ? String(head.row) : `${head.row}: ${rowName(explanation, head, pieces).replace(/^of /, "")}`;
  }

  /* Radio buttons in a row. */
  function choice(name, legend, values, chosen) {
    const inputs = values.map(([value, , means]) =>
      h("input", { type: "radio", name, value, id: `${name}-${value}`, title: means, onchange: () => chosen(value) }),
    );
    const labels = values.map(([value, title, means], i) =>
      h("span", { class: "segment" }, inputs[i], h("label", { for: `${name}-${value}`, title: means }, title)),
    );
    const element = h("fieldset", { class: "choice" }, h("legend", null, legend), h("span", { class: "segments" }, labels));
    return { element, choose: (value) => inputs.forEach((input) => (input.checked = input.value === value)) };
  }

  /* Only what changed is written: an open list of choices would close. */
  function options(select, values, current, title) {
    const titles = values.map(title);
    const now = [...select.options].map((option) => option.textContent);
    if (now.length !== titles.length || titles.some((text, i) => text !== now[i] || String(values[i]) !== select.options[i].value)) {
      replace(select, values.map((value, i) => h("option", { value }, titles[i])));
    }
    select.value = String(current);
    select.disabled = values.length < 2;
  }

  Object.assign(parts, { controls });
})(window.identiformer.parts);
