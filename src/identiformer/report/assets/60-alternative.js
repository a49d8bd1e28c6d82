/* "Same answer, different explanation": other weights of a head that give the same output, why there are none, or how
   to get them. */
(function (parts) {
  "use strict";

  const { h, quote, readableName, fixed, small, percent, nameOf, alternativeValues, command } = parts;
  const SET = { simplex: "any distribution", generatable: "what a query can generate" };

  /* What was asked of the page that serves it: answers by head, and the questions that are under way. */
  const answers = new WeakMap();
  const waiting = new WeakMap();

  function known(head) {
    return [...(head.alternatives || []), ...(answers.get(head) || [])];
  }

  /* The alternative for a goal and a word: one that was found, if any. */
  function find(head, goal, word) {
    const some = known(head).filter((one) => one.goal === goal && one.word === word);
    return some.find((one) => one.status === "found") || some[0] || null;
  }

  /* The one to begin with: the farthest, or any that was found. */
  function first(head) {
    const farthest = find(head, "farthest", null);
    if (farthest && farthest.status === "found") return farthest;
    return known(head).find((one) => one.status === "found") || farthest;
  }

  function wanted(head, state) {
    return state.word === null ? first(head) : find(head, state.goal, state.word);
  }

  /* Whether it is certain, without asking, that there is none: what is so on the simplex is so for every word. */
  function isUnique(head) {
    const certified = head.levels.simplex && head.levels.simplex.verdict === "global";
    return Boolean(certified) || known(head).some((one) => one.goal === "farthest" && one.level === "simplex" && one.status === "unique");
  }

  /* Whether the bounds of a word, where they are known, leave no room; so it is with words that the row does not see. */
  function isAtBound(explanation, head, goal, word) {
    if (word === null) return false;
    const { weights, lower, upper } = parts.valuesOf(explanation, head, false);
    if (!lower) return false;
    return (goal === "favour" ? upper[word] - weights[word] : weights[word] - lower[word]) < 1e-9;
  }

  /* Ask the server for what is not in the data; `done` is called when there is an answer, or none will come. */
  function ask(explanation, head, goal, word, done) {
    const serve = window.identiformer.askAlternative;
    if (typeof serve !== "function") return null;
    const key = `${goal} ${word}`;
    if (!waiting.has(head)) waiting.set(head, new Map());
    const asked = waiting.get(head);
    if (!asked.has(key)) {
      asked.set(key, { state: "waiting", problem: "" });
      Promise.resolve()
        .then(() => serve(explanation, head, word, goal))
        .then((answer) => {
          answers.set(head, [...(answers.get(head) || []), answer]);
          asked.delete(key);
        })
        .catch((problem) => asked.set(key, { state: "failed", problem: String((problem && problem.message) || problem) }))
        .then(done);
    }
    return { ...asked.get(key), again: () => asked.delete(key) };
  }

  function goalTitle(explanation, goal, word) {
    if (word === null) return "The farthest that was found";
    const name = nameOf(explanation, word, false);
    const times = explanation.words.filter((one) => one.text === explanation.words[word].text).length;
    const which = times > 1 ? ` (word ${word + 1})` : "";
    return `${goal === "favour" ? "More" : "Less"} weight on \u201c${quote(name, 30).textContent}\u201d${which}`;
  }

  /* What is said below the text. `context`: {data, explanation, head, state, set, render}. */
  function alternativePanel(context) {
    const { explanation, head, state, set } = context;
    const goal = state.word === null ? "farthest" : state.goal;
    const one = wanted(head, state);
    return [
      h("h3", null, "Same answer, different explanation"),
      state.word === null ? null : goals(context),
      answer(context, one, goal),
      others(explanation, head, one, set),
    ];
  }

  /* Two buttons: more or less weight on the word that was chosen. */
  function goals({ explanation, state, set }) {
    const button = (goal, title) =>
      h(
        "button",
        { type: "button", class: "button", "aria-pressed": String(state.goal === goal), "data-goal": goal, onclick: () => set({ goal }) },
        `${title} \u201c`,
        quote(nameOf(explanation, state.word, false), 24),
        "\u201d",
      );
    return h("div", { class: "goals", role: "group", "aria-label": "What the alternative is to do" }, button("favour", "More weight on"), button("avoid", "Less weight on"));
  }

  function answer(context, one, goal) {
    const { explanation, head, state } = context;
    if (one && one.status === "found") return found(explanation, head, one);
    if (one) {
      const what = one.status === "unique" ? "There is none, and that is certain" : "None was found, which does not say that there is none";
      return h("p", null, `${what}: ${readableName(one.reason)}.`);
    }
    if (isUnique(head)) {
      return h("p", null, "There is none: this head\u2019s output fixes its weights among all distributions.");
    }
    if (isAtBound(explanation, head, goal, state.word)) {
      return h("p", null, `There is none: no distribution with the same output gives this word ${goal === "favour" ? "more" : "less"} weight.`);
    }
    const asked = ask(explanation, head, goal, state.word, context.render);
    if (asked === null) return notComputed(context);
    if (asked.state === "waiting") return h("p", { class: "quiet", role: "status" }, "Searching\u2026");
    const again = () => {
      asked.again();
      context.render();
    };
    return [
      h("p", null, `It could not be computed: ${readableName(asked.problem)}`),
      h("button", { type: "button", class: "button", onclick: again }, "Try again"),
    ];
  }

  function notComputed({ data, explanation, head, state }) {
    const what = state.word === null ? "Alternatives were" : "An alternative for this word was";
    return [
      h("p", null, `${what} not computed for this page. This does it:`),
      h("pre", { class: "command", tabindex: "0", "aria-label": "command" }, h("code", null, command(data, explanation, head))),
    ];
  }

  function found(explanation, head, one) {
    const before = parts.valuesOf(explanation, head, false).weights;
    const after = alternativeValues(explanation, one, false);
    const facts = [];
    const fact = (title, text) => facts.push(h("div", null, h("dt", null, title), h("dd", null, text)));
    if (typeof one.distance === "number") fact("Weight that moved", percent(one.distance));
    fact("Most attended", [quote(nameOf(explanation, top(before), false), 24), " \u2192 ", quote(nameOf(explanation, top(after), false), 24)]);
    if (one.word !== null) fact("Weight of the word", `${fixed(before[one.word])} \u2192 ${fixed(after[one.word])}`);
    if (typeof one.residual === "number") fact("Change of the head\u2019s output", change(one.residual, "of its length"));
    fact("Change of the model\u2019s output", typeof one.output_change === "number" ? change(one.output_change, "of its largest number") : "the model was not run with them");
    return [
      h("p", null, sentence(explanation, one)),
      h("dl", { class: "facts" }, facts),
      one.probabilities ? probabilities(explanation, one) : null,
      one.reason ? h("p", { class: "quiet small" }, `${SET[one.level] || readableName(one.level)}: ${readableName(one.reason)}.`) : null,
    ];
  }

  function change(number, what) {
    return number === 0 ? "none" : `${small(number)} ${what}`;
  }

  function sentence(explanation, one) {
    const weights = one.level === "generatable" ? "Some query makes these weights of the head\u2019s keys" : "These weights are a distribution, as the head\u2019s own are";
    const start = `${weights}, and the head\u2019s output with them is the same`;
    if (!one.probabilities) return `${start}.`;
    const best = Object.entries(one.probabilities).reduce((a, b) => (b[1] > a[1] ? b : a));
    const same = best[0] === explanation.prediction;
    return [`${start}. The model, run with them, `, same ? "still says " : "says ", h("strong", null, quote(best[0])), "."];
  }

  function probabilities(explanation, one) {
    const labels = Object.keys(one.probabilities).sort((a, b) => one.probabilities[b] - one.probabilities[a]).slice(0, 5);
    const own = explanation.probabilities || {};
    return h(
      "table",
      { class: "compared" },
      h("thead", null, h("tr", null, h("th", { scope: "col" }, "label"), ["as it is", "with these weights"].map((name) => h("th", { scope: "col", class: "number" }, name)))),
      h(
        "tbody",
        null,
        labels.map((label) =>
          h("tr", null, h("th", { scope: "row" }, quote(label)), h("td", { class: "number" }, typeof own[label] === "number" ? fixed(own[label], 4) : ""), h("td", { class: "number" }, fixed(one.probabilities[label], 4))),
        ),
      ),
    );
  }

  function top(weights) {
    return weights.reduce((best, weight, i) => (weight > weights[best] ? i : best), 0);
  }

  /* All that were found for this head, to choose from. */
  function others(explanation, head, current, set) {
    const some = known(head).filter((one) => one.status === "found");
    const titles = new Map();
    for (const one of some) {
      const key = one.word === null ? "farthest" : `${one.goal} ${one.word}`;
      if (!titles.has(key)) titles.set(key, one);
    }
    if (titles.size < 2) return null;
    const select = h(
      "select",
      {
        id: "choose-alternative",
        onchange: () => {
          const one = titles.get(select.value);
          if (one) set({ goal: one.word === null ? null : one.goal, word: one.word });
        },
      },
      [...titles].map(([key, one]) => h("option", { value: key }, goalTitle(explanation, one.goal, one.word))),
    );
    const key = current && (current.word === null ? "farthest" : `${current.goal} ${current.word}`);
    if (titles.has(key)) select.value = key;
    else select.prepend(h("option", { value: "", selected: true }, "choose one"));
    return h("div", { class: "field" }, h("label", { for: "choose-alternative" }, "Alternatives of this head"), select);
  }

  Object.assign(parts, { alternativePanel, wantedAlternative: wanted, isUnique });
})(window.identiformer.parts);
