/* The token view: puts its parts together, and shows what the page has.

   window.identiformer.show(data) replaces what is shown; a page that can compute more sets
   window.identiformer.askAlternative = (explanation, head, word, goal) => promise of an alternative. */
(function (parts) {
  "use strict";

  const { h, replace, valuesOf, alternativeValues, chooseHead, settled, unique } = parts;

  let stop = () => {};

  function show(data) {
    const root = document.getElementById("token-view");
    if (!root) return;
    stop();
    const explanations = data.explanations.filter((one) => one.heads.length);
    if (!explanations.length) {
      replace(root, h("p", { class: "quiet" }, "There is no explanation to show."));
      return;
    }
    stop = new TokenView(root, data, explanations).stop;
  }

  class TokenView {
    constructor(root, data, explanations) {
      this.data = data;
      this.explanations = explanations;
      this.state = settled({ ...parts.START, ...parts.readHash(location.hash, explanations) }, explanations);
      if (this.state.word !== null) this.state.view = "alternative";
      this.order = { column: "weight", down: true };
      this.focused = null;
      const many = explanations.length > 1;

      this.list = many ? parts.textList(explanations, (text, level) => this.set({ text, ...this.headFor(text, level) })) : null;
      this.controls = parts.controls((some) => this.set(some), (name, value) => this.pick(name, value));
      this.keys = parts.shortcuts((key) => this.act(key), many);
      this.build(root);
      this.hideTip = parts.addTip(this.stage, () => this.current());
      this.stage.addEventListener("keydown", (event) => {
        if (event.key === "Escape" && this.state.view === "alternative") this.set({ view: "attention" });
      });

      const onHash = () => this.follow(root);
      window.addEventListener("hashchange", onHash);
      this.stop = () => {
        window.removeEventListener("hashchange", onHash);
        this.keys.stop();
      };
      this.render();
    }

    build(root) {
      const part = (name, attributes) => (this[name] = h("div", { class: name, ...attributes }));
      this.title = h("h2", { id: "text-title" });
      const step = (by, title, sign) => h("button", { type: "button", class: "button", "aria-label": title, title, onclick: () => this.list.move(by) }, sign);
      const steps = this.list ? h("div", { class: "steps" }, step(-1, "previous text", "\u2190"), step(1, "next text", "\u2192")) : null;
      this.numbers = h("div", { class: "numbers-box scroll", tabindex: "0", role: "region", "aria-label": "Numbers" });
      this.stage = h("div", { class: "stage" }, part("passages", { role: "group", "aria-label": "The text, word by word: arrow keys go from word to word, Enter shows an alternative" }));
      const article = h(
        "article",
        { class: "explained", "aria-labelledby": "text-title" },
        h("div", { class: "title" }, this.title, steps),
        part("unlisted", { role: "status" }),
        part("says"),
        h("div", { class: "workbench" }, this.controls.element, part("map")),
        part("caption"),
        this.stage,
        part("legendBox"),
        part("comparison"),
        part("alternative", { "aria-live": "polite" }),
        part("certificateBox"),
        h("h3", null, "Numbers"),
        this.numbers,
        part("others"),
        this.keys.element,
      );
      replace(root, this.sampled(), h("div", { class: this.list ? "with-list" : "alone" }, this.list ? this.list.element : null, article));
      root.classList.add("ready");
    }

    /* What of the source the page shows, in words. */
    sampled() {
      const { sampled } = this.data;
      if (!sampled) return null;
      const number = (n) => n.toLocaleString("en");
      const part = sampled.shown < sampled.of ? `This page shows ${number(sampled.shown)} of ${parts.count(sampled.of, "text")}. ` : "";
      return h("p", { class: "sampled" }, part, parts.readable(sampled.detailed || ""));
    }

    /* The text, head and numbers that are shown. */
    current() {
      const explanation = this.explanations[this.state.text];
      const head = chooseHead(explanation, this.state);
      const pieces = this.state.unit === "pieces";
      const shown = { ...valuesOf(explanation, head, pieces), pieces, view: this.state.view, alternative: null };
      if (shown.view === "alternative") {
        const wanted = parts.wantedAlternative(head, this.state);
        if (wanted && wanted.status === "found") shown.alternative = alternativeValues(explanation, wanted, pieces);
        else shown.view = "attention";
      }
      return { explanation, head, shown };
    }

    /* Change what is shown. */
    set(some) {
      const leavesWord = ("view" in some || "text" in some) && !("word" in some);
      const before = this.state;
      this.state = settled({ ...before, ...(leavesWord ? { goal: null, word: null } : {}), ...some }, this.explanations);
      if (before.text !== this.state.text) this.focused = null;
      try {
        history.replaceState(null, "", parts.writeHash(this.state, this.explanations));
      } catch {
        // A page without an address of its own, as in a notebook, has nothing to link to.
      }
      this.render();
    }

    /* A head of a text that is not unique at a level, which the list was asked for: the one shown, or the next best. */
    headFor(text, level) {
      const explanation = this.explanations[text];
      const free = explanation.heads.filter((head) => head.levels[level] && head.levels[level].verdict === "none");
      if (!free.length || free.includes(chooseHead(explanation, this.state))) return {};
      const { layer, head, row } = chooseHead({ heads: free }, this.state);
      return { layer, head, row };
    }

    /* A layer, head or row out of a list. */
    pick(name, value) {
      this.set({ [name]: value });
    }

    /* A word that was clicked: more of it, or less if it has the most; once more, back to attention. */
    chooseItem(item) {
      const { explanation, head, shown } = this.current();
      const word = shown.pieces ? parts.wordOfToken(explanation, item) : item;
      this.focused = item;
      if (this.state.view === "alternative" && this.state.word === word) {
        this.set({ view: "attention" });
        return;
      }
      const { weights } = valuesOf(explanation, head, false);
      const most = weights.every((weight) => weight <= weights[word]);
      this.set({ view: "alternative", goal: most ? "avoid" : "favour", word });
    }

    /* What a shortcut stands for. */
    act(key) {
      const { explanation, head } = this.current();
      const step = (values, now, back) => values[(values.indexOf(now) + (back ? values.length - 1 : 1)) % values.length];
      const heads = explanation.heads;
      const back = key !== key.toLowerCase();
      const views = { a: "attention", e: "effective", s: "alternative" };
      if (key in views) return this.set({ view: views[key] });
      switch (key.toLowerCase()) {
        case "n":
        case "p":
          return this.list ? this.list.move(key === "n" ? 1 : -1) : false;
        case "l":
          return this.set({ layer: step(unique(heads.map((one) => one.layer)), head.layer, back) });
        case "h":
          return this.set({ head: step(unique(heads.filter((one) => one.layer === head.layer).map((one) => one.head)), head.head, back) });
        case "r":
          return this.set({ row: step(heads.filter((one) => one.layer === head.layer && one.head === head.head).map((one) => one.row), head.row, back) });
        case "w":
          return this.set({ unit: this.state.unit === "words" ? "pieces" : "words" });
        case "/":
          return this.list ? this.list.search.focus() : false;
        default:
          return false;
      }
    }

    /* A link to a text or head within the page was followed. */
    follow(root) {
      const asked = parts.readHash(location.hash, this.explanations);
      if (!Object.keys(asked).length) return;
      const view = asked.word !== undefined ? "alternative" : (asked.view || "attention");
      this.state = settled({ ...this.state, goal: null, word: null, ...asked, view }, this.explanations);
      this.render();
      root.scrollIntoView({ block: "start" });
    }

    render() {
      const { explanation, head, shown } = this.current();
      const { state } = this;
      const refocus = this.passages.contains(document.activeElement) ? document.activeElement.dataset.item : null;
      const inMap = this.map.contains(document.activeElement);
      const goal = this.alternative.contains(document.activeElement) ? document.activeElement : null;
      const number = parts.nameOfText(explanation, state.text);
      this.title.textContent = this.list ? `Text ${number}` : "The text";
      if (this.list) {
        this.list.update(state);
        const listed = this.list.matching();
        const said = listed.length ? "This text is not one of those listed." : "No text fits the search. This is the one that was shown before.";
        replace(this.unlisted, listed.includes(state.text) ? null : h("p", null, said));
      }
      replace(this.says, parts.prediction(explanation), parts.remarks(explanation));
      this.controls.update(explanation, head, state);
      const map = parts.headMap(explanation, head, (one) => this.set({ layer: one.layer, head: one.head, row: one.row }));
      replace(this.map, map, map && legendOfMap());
      replace(this.caption, caption(explanation, head, shown));
      if (this.hideTip) this.hideTip();
      const isChosen = state.view === "alternative" && state.word !== null;
      const chosen = !isChosen ? null : shown.pieces ? explanation.words[state.word].tokens[0] : state.word;
      const focus = refocus === null || refocus === undefined ? this.focused : Number(refocus);
      replace(this.passages, parts.passages(explanation, shown, { choose: (item) => this.chooseItem(item), chosen, focus }));
      replace(this.legendBox, parts.legend(shown));
      this.compare(explanation, shown);
      const asks = state.view === "alternative";
      replace(this.alternative, asks ? parts.alternativePanel({ data: this.data, explanation, head, state, set: (some) => this.set({ view: "alternative", goal: state.goal, word: state.word, ...some }), render: () => this.render() }) : null);
      this.alternative.hidden = !asks;
      replace(this.certificateBox, parts.certificate(explanation, head, shown, asks ? null : () => this.set({ view: "alternative" })));
      this.fillNumbers(explanation, head, shown);
      replace(this.others, parts.leftOut(explanation));
      if (refocus !== null && refocus !== undefined) focusOn(this.passages, `[data-item="${refocus}"]`);
      if (inMap) focusOn(this.map, "[aria-pressed=true]");
      if (goal) focusOn(this.alternative, goal.id ? `#${goal.id}` : `[data-goal="${goal.dataset.goal}"]`);
    }

    /* Beside an alternative the attention that it stands in for. */
    compare(explanation, shown) {
      const other = shown.view === "alternative";
      this.comparison.hidden = !other;
      replace(
        this.comparison,
        other ? [h("p", { class: "part-name" }, "For comparison, the head\u2019s own attention:"), h("div", { class: "passages plain" }, parts.passages(explanation, { ...shown, view: "attention" }))] : null,
      );
    }

    fillNumbers(explanation, head, shown) {
      const sort = (column) => {
        const same = this.order.column === column;
        this.order = { column, down: same ? !this.order.down : !["word", "piece"].includes(column) };
        this.fillNumbers(explanation, head, shown);
        focusOn(this.numbers, `[data-column="${column}"]`);
      };
      replace(this.numbers, parts.numbersTable(explanation, head, shown, this.order, sort));
    }
  }

  function caption(explanation, head, shown) {
    const where = `layer ${head.layer}, head ${head.head}, row ${parts.rowName(explanation, head, shown.pieces)}`;
    const what = { attention: "Attention", effective: "Effective attention", alternative: "Other weights with the same output" }[shown.view];
    return h("h3", null, what, h("span", { class: "quiet" }, " \u2014 ", h("bdi", null, where)));
  }

  function legendOfMap() {
    const states = [
      ["global", "unique"],
      ["local", "unique nearby"],
      ["none", "not unique"],
    ];
    return h(
      "p",
      { class: "quiet small map-legend" },
      states.map(([state, text]) => h("span", null, parts.mark(state), text)),
      h("span", null, "Left: among distributions; right: among what a query can generate."),
    );
  }

  function focusOn(element, selector) {
    const found = element.querySelector(selector);
    if (found) found.focus({ preventScroll: true });
  }

  function start() {
    const island = document.querySelector("script#data");
    if (island) show(JSON.parse(island.textContent));
  }

  window.identiformer.show = show;
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})(window.identiformer.parts);
