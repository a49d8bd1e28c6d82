/* What is shown: which text, head and view; kept in the address after #, so that it can be linked to. */
(function (parts) {
  "use strict";

  const VIEWS = ["attention", "effective", "alternative"];
  const START = { text: 0, layer: null, head: null, row: null, view: "attention", unit: "words", goal: null, word: null };

  /* How a text is called in an address: by its row in the source where it has one. */
  function nameOfText(explanation, index) {
    return typeof explanation.id === "number" ? explanation.id : index + 1;
  }

  /* The state that an address asks for; whatever it gets wrong is left out. */
  function readHash(hash, explanations) {
    const given = new URLSearchParams(hash.replace(/^#/, ""));
    const number = (key) => (/^\d{1,9}$/.test(given.get(key) || "") ? Number(given.get(key)) : null);
    const asked = {};
    if (number("text") !== null) {
      const index = explanations.findIndex((one, i) => nameOfText(one, i) === number("text"));
      if (index >= 0) asked.text = index;
    }
    for (const key of ["layer", "head", "row"]) if (number(key) !== null) asked[key] = number(key);
    if (VIEWS.includes(given.get("view"))) asked.view = given.get("view");
    if (["words", "pieces"].includes(given.get("unit"))) asked.unit = given.get("unit");
    for (const goal of ["favour", "avoid"]) {
      if (number(goal) !== null) Object.assign(asked, { goal, word: number(goal) });
    }
    return asked;
  }

  function writeHash(state, explanations) {
    const entries = [["text", nameOfText(explanations[state.text], state.text)]];
    for (const key of ["layer", "head", "row"]) if (state[key] !== null) entries.push([key, state[key]]);
    if (state.view !== "attention") entries.push(["view", state.view]);
    if (state.unit !== "words") entries.push(["unit", state.unit]);
    if (state.view === "alternative" && state.word !== null) entries.push([state.goal, state.word]);
    return `#${entries.map((entry) => entry.join("=")).join("&")}`;
  }

  /* The head that is shown: the one asked for, or the nearest there is of that text. */
  function chooseHead(explanation, state) {
    const fits = (head, names) => names.every((name) => state[name] === null || head[name] === state[name]);
    for (const names of [["layer", "head", "row"], ["layer", "head"], ["layer", "row"], ["layer"]]) {
      const found = explanation.heads.find((head) => fits(head, names));
      if (found) return found;
    }
    return explanation.heads[0];
  }

  /* The same state with everything in it that exists. */
  function settled(state, explanations) {
    const text = Math.min(Math.max(state.text, 0), explanations.length - 1);
    const explanation = explanations[text];
    const head = chooseHead(explanation, state) || { layer: null, head: null, row: null };
    const word = state.word !== null && state.word < explanation.words.length ? state.word : null;
    return {
      ...state,
      text,
      layer: head.layer,
      head: head.head,
      row: head.row,
      word,
      goal: word === null ? null : state.goal,
    };
  }

  Object.assign(parts, { START, readHash, writeHash, chooseHead, settled, nameOfText });
})(window.identiformer.parts);
