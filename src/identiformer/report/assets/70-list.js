/* The list of a page's texts: searched, filtered, gone through by the arrow keys. */
(function (parts) {
  "use strict";

  const { h, replace, readableName, mark, isWrong, isFree, worst, nameOfText } = parts;
  const STEP = 300; // texts in the list before one has to ask for more
  const BEFORE = 24; // characters before what was found, and in all
  const EXCERPT = 110;

  const SAYS = { none: "not unique", local: "unique nearby", global: "unique", unsaid: "nothing is said" };

  /* {element, update(state), search, move(step), matching()}; `open(index, level)` is called for a text, and for the
     level at which its head is to be not unique, or "". */
  function textList(explanations, open) {
    const searched = explanations.map(() => null);
    const filters = { query: "", wrong: false, free: "" };
    let matching = [];
    let limit = STEP;
    let current = 0;

    const wrong = explanations.filter(isWrong).length;
    const freeOf = (level) => explanations.filter((one) => isFree(one, level)).length;
    const search = h("input", { type: "search", id: "search-texts", autocomplete: "off", spellcheck: "false", placeholder: "Search in texts", oninput: () => change({ query: fold(search.value.trim()) }) });
    const onlyWrong = h("input", { type: "checkbox", id: "only-wrong", onchange: () => change({ wrong: onlyWrong.checked }) });
    const certificates = h(
      "select",
      { id: "only-free", onchange: () => change({ free: certificates.value }) },
      h("option", { value: "" }, "any certificate"),
      h("option", { value: "simplex" }, `not unique among distributions (${freeOf("simplex")})`),
      h("option", { value: "generatable" }, `not unique among what queries generate (${freeOf("generatable")})`),
    );
    const shown = h("p", { class: "quiet small", role: "status" });
    const box = h("ul", { class: "texts", role: "listbox", tabindex: "0", "aria-label": "Texts" });
    const more = h("button", { type: "button", class: "button", onclick: () => ((limit += STEP), fill()) }, "Show more");
    const element = h(
      "nav",
      { class: "list", "aria-label": "Texts" },
      h("label", { class: "unseen", for: "search-texts" }, "Search in texts"),
      search,
      explanations.some((one) => typeof one.label === "string" && typeof one.prediction === "string")
        ? h("div", { class: "check" }, onlyWrong, h("label", { for: "only-wrong" }, `only wrong predictions (${wrong})`))
        : null,
      h("label", { class: "unseen", for: "only-free" }, "Certificates"),
      certificates,
      shown,
      box,
      more,
    );

    function choose(i) {
      open(i, filters.free);
    }

    /* What is shown is one of those that are listed, if there are any. */
    function change(some) {
      Object.assign(filters, some);
      limit = STEP;
      box.scrollTop = 0;
      fill();
      choose(matching.includes(current) || !matching.length ? current : matching[0]);
    }

    function haystack(i) {
      const one = explanations[i];
      if (searched[i] === null) searched[i] = fold(typeof one.text_pair === "string" ? `${one.text}\n${one.text_pair}` : one.text);
      return searched[i];
    }

    function fits(one, i) {
      if (filters.wrong && !isWrong(one)) return false;
      if (filters.free && !isFree(one, filters.free)) return false;
      const { query } = filters;
      const isCalled = [one.label, one.prediction].some((label) => typeof label === "string" && fold(label) === query);
      return !query || haystack(i).includes(query) || query === `#${nameOfText(one, i)}` || isCalled;
    }

    function fill() {
      matching = explanations.map((_, i) => i).filter((i) => fits(explanations[i], i));
      replace(box, matching.slice(0, limit).map(option));
      const all = explanations.length.toLocaleString("en");
      shown.textContent = matching.length === explanations.length ? `${all} texts` : `${matching.length.toLocaleString("en")} of ${all} texts`;
      more.hidden = matching.length <= limit;
      select();
    }

    function option(i) {
      const one = explanations[i];
      const facts = [];
      if (typeof one.prediction === "string") facts.push(h("bdi", null, cut(one.prediction, 24)));
      if (isWrong(one)) facts.push(h("span", { class: "wrong" }, "\u2715 wrong"));
      const states = ["simplex", "generatable"].map((level) => worst(one, level));
      const says = `among distributions: ${SAYS[states[0]]}; among what queries generate: ${SAYS[states[1]]}`;
      return h(
        "li",
        { role: "option", id: `text-${i}`, "data-text": i, "aria-selected": "false" },
        h("span", { class: "excerpt" }, excerpt(i)),
        h("span", { class: "facts small" }, h("span", { class: "quiet" }, `#${nameOfText(one, i)}`), facts, h("span", { class: "state", title: `its least unique head ${says}` }, states.map(mark), h("span", { class: "unseen" }, says))),
      );
    }

    /* The beginning of a text, or what is around the words that were searched for. */
    function excerpt(i) {
      const one = explanations[i];
      const text = typeof one.text_pair === "string" ? `${one.text}\n${one.text_pair}` : one.text;
      const at = filters.query ? haystack(i).indexOf(filters.query) : -1;
      // Folding can change lengths (\u0130): then there is no telling where the match stands.
      if (at < 0 || haystack(i).length !== text.length) return h("bdi", null, cut(text, EXCERPT));
      const start = at > EXCERPT / 2 ? at - BEFORE : 0;
      const end = at + filters.query.length;
      return h("bdi", null, start ? "\u2026" : "", readableName(text.slice(start, at)), h("mark", null, readableName(text.slice(at, end))), cut(text.slice(end), EXCERPT - (at - start)));
    }

    function select() {
      for (const chosen of box.querySelectorAll("[aria-selected=true]")) chosen.setAttribute("aria-selected", "false");
      const chosen = document.getElementById(`text-${current}`);
      box.removeAttribute("aria-activedescendant");
      if (!chosen) return;
      chosen.setAttribute("aria-selected", "true");
      box.setAttribute("aria-activedescendant", chosen.id);
      keepInSight(box, chosen);
    }

    /* The next text of those that match, or the one before; where the current one does not match, the first. */
    function move(step) {
      const place = matching.indexOf(current);
      const next = place < 0 ? (step < 0 ? matching.length - 1 : 0) : Math.min(Math.max(place + step, 0), matching.length - 1);
      if (matching.length === 0 || matching[next] === current) return;
      if (next >= limit) {
        limit = next + STEP;
        current = matching[next];
        fill();
      }
      choose(matching[next]);
    }

    box.addEventListener("click", (event) => {
      const chosen = event.target.closest("[data-text]");
      if (chosen) choose(Number(chosen.dataset.text));
    });
    box.addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity }[event.key];
      if (step === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      move(step);
    });
    search.addEventListener("keydown", (event) => {
      if (event.key !== "ArrowDown" && event.key !== "Enter") return;
      event.preventDefault();
      box.focus();
      if (!matching.includes(current)) move(1);
    });

    function update(state) {
      current = state.text;
      select();
    }

    fill();
    return { element, update, move, search, matching: () => matching };
  }

  function keepInSight(box, element) {
    const top = element.offsetTop; // the box is its offset parent
    if (top < box.scrollTop) box.scrollTop = top;
    else if (top + element.offsetHeight > box.scrollTop + box.clientHeight) box.scrollTop = top + element.offsetHeight - box.clientHeight;
  }

  function fold(text) {
    return text.normalize("NFC").toLowerCase();
  }

  function cut(text, most) {
    const some = Array.from(text.slice(0, 2 * most + 2));
    return readableName(some.length > most ? `${some.slice(0, Math.max(most, 0)).join("")}\u2026` : text);
  }

  Object.assign(parts, { textList });
})(window.identiformer.parts);
