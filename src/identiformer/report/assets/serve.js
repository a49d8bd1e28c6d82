/* The form of the page that `serve` gives: asks for explanations, and for alternatives when a word is clicked. */
(function (page) {
  "use strict";

  const KEPT = "identiformer.ask"; // what was typed, until the tab is closed

  /* Send a question; gives the answer, or fails with a sentence to show. */
  async function ask(path, question, signal) {
    let response;
    try {
      response = await fetch(path, {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify(question),
        signal,
      });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Error("The server does not answer: is it still running?");
    }
    let answer = null;
    try {
      answer = await response.json();
    } catch (error) {
      if (error.name === "AbortError") throw error;
    }
    if (response.ok && answer !== null) return answer;
    throw new Error((answer && answer.error) || `The server answered with status ${response.status}.`);
  }

  function start() {
    const form = document.getElementById("ask");
    if (!form) return;
    const field = (name) => form.elements.namedItem(name);
    const button = document.getElementById("ask-button");
    const state = document.getElementById("ask-state");
    const fault = document.getElementById("ask-error");
    const view = document.getElementById("token-view");
    let running = null; // the question under way
    let shown = null; // the text and its pair that the view shows

    function typed() {
      const values = {};
      for (const name of ["text", "text_pair", "layers", "heads", "rows"]) {
        if (field(name)) values[name] = field(name).value;
      }
      values.intervals = field("intervals").checked;
      return values;
    }

    function question() {
      const values = typed();
      const asked = { text: values.text, rows: values.rows, intervals: values.intervals };
      if (/^\d+$/.test(values.rows)) asked.rows = Number(values.rows);
      if (values.text_pair || (field("text_pair") && "needed" in field("text_pair").dataset)) {
        asked.text_pair = values.text_pair;
      }
      if (values.layers) asked.layers = values.layers === "all" ? "all" : [Number(values.layers)];
      if (values.heads) asked.heads = [Number(values.heads)];
      return asked;
    }

    function tell(error) {
      fault.textContent = error === null ? "" : error.message;
      fault.hidden = error === null;
    }

    function busy(is) {
      view.setAttribute("aria-busy", String(is));
      button.textContent = is ? "Explaining\u2026" : "Explain";
      state.textContent = is ? "The text is being explained." : "";
    }

    async function explain() {
      if (running) running.abort(); // the server stops what nobody waits for
      const mine = (running = new AbortController());
      keep(typed());
      tell(null);
      busy(true);
      try {
        const explanation = await ask("/api/explain", question(), mine.signal);
        if (mine !== running) return;
        const given = JSON.stringify([explanation.text, explanation.text_pair]);
        if (shown !== null && shown !== given) forgetWord();
        shown = given;
        page.show({
          kind: "live",
          model: form.dataset.model,
          labels: Object.keys(explanation.probabilities),
          sampled: null,
          explanations: [explanation],
        });
      } catch (error) {
        if (mine === running && error.name !== "AbortError") tell(error);
      } finally {
        if (mine === running) {
          running = null;
          busy(false);
        }
      }
    }

    form.addEventListener("submit", (event) => {
      event.preventDefault();
      explain();
    });
    form.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !event.isComposing) {
        event.preventDefault();
        explain();
      }
    });

    const before = kept();
    if (typeof before.intervals === "boolean") field("intervals").checked = before.intervals;
    for (const name of Object.keys(before)) {
      const element = field(name);
      if (!element || typeof before[name] !== "string") continue;
      const fits = !element.options || Array.from(element.options).some((option) => option.value === before[name]);
      if (fits) element.value = before[name];
    }
    if (field("text").value) explain();
    else field("text").focus();
  }

  /* The address says which word of the text before was clicked; the head that was looked at is kept. */
  function forgetWord() {
    const asked = new URLSearchParams(location.hash.slice(1));
    for (const name of ["favour", "avoid"]) asked.delete(name);
    if (asked.get("view") === "alternative") asked.delete("view");
    history.replaceState(null, "", `#${asked}`);
  }

  /* What was typed survives a reload; where nothing may be stored, it does not. */
  function keep(values) {
    try {
      sessionStorage.setItem(KEPT, JSON.stringify(values));
    } catch {
      return;
    }
  }

  function kept() {
    try {
      return JSON.parse(sessionStorage.getItem(KEPT)) || {};
    } catch {
      return {};
    }
  }

  /* What the token view calls when a word is clicked: `word` is a number, or null for the goal "farthest". */
  page.askAlternative = function (explanation, head, word, goal) {
    const of = typeof head === "number" ? explanation.heads[head] : head;
    const asked = { text: explanation.text, layer: of.layer, head: of.head, row: of.row, goal, word };
    if (typeof explanation.text_pair === "string") asked.text_pair = explanation.text_pair;
    return ask("/api/alternative", asked);
  };

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})((window.identiformer = window.identiformer || {}));
