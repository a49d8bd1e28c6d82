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

  // As the server has it: white space, and characters that nobody sees.
  const BLANK = /^[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Zs}]*$/u;
  const count = (number) => number.toLocaleString("en");
  // Characters and not UTF-16 units, as the server counts.
  const lengthOf = (text) => Array.from(text).length;

  function start() {
    const form = document.getElementById("ask");
    if (!form) return;
    const field = (name) => form.elements.namedItem(name);
    const button = document.getElementById("ask-button");
    const state = document.getElementById("ask-state");
    const fault = document.getElementById("ask-error");
    const view = document.getElementById("token-view");
    const earlier = document.getElementById("ask-earlier");
    const more = document.getElementById("ask-more");
    const most = Number(form.dataset.characters);
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

    /* What the server would refuse, in a sentence; null if there is nothing. A request that fails stands in the
       browser's console as an error, so none is sent that is known to fail. */
    function unfit(values) {
      for (const [name, called] of [["text", "the text"], ["text_pair", "the second text"]]) {
        const text = values[name];
        if (text === undefined) continue;
        const needed = name === "text" || "needed" in field(name).dataset;
        // A pair of blanks is none where the model does without, and is not sent.
        if (BLANK.test(text) && (needed || text !== "")) return { name, why: `${called} is blank: type at least one word` };
        if (lengthOf(text) > most) {
          const length = count(lengthOf(text));
          return { name, why: `${called} has ${length} characters: shorten it to ${count(most)} at most` };
        }
        if (/\p{Cs}/u.test(text)) return { name, why: `${called} has half a character in it: type it anew` };
      }
      return null;
    }

    /* Beside a text that is nearly, or more than, as long as it may be: how long it is. */
    function counted() {
      for (const name of ["text", "text_pair"]) {
        const area = field(name);
        if (!area) continue;
        const length = lengthOf(area.value);
        const line = area.nextElementSibling;
        const over = length > most ? `: ${count(length - most)} too many` : "";
        line.hidden = length < 0.9 * most;
        line.textContent = line.hidden ? "" : `${count(length)} of ${count(most)} characters${over}`;
        if (over) area.setAttribute("aria-invalid", "true");
        else area.removeAttribute("aria-invalid");
      }
    }

    /* Whether what is shown is of what stands in the form, said above it. */
    function mark() {
      const asked = question();
      const same = shown === JSON.stringify([asked.text, asked.text_pair]);
      const old = shown !== null && running === null && (!same || !fault.hidden);
      earlier.hidden = !old;
      view.classList.toggle("ask-of-before", old);
    }

    function tell(error) {
      const said = error === null ? "" : error.message;
      fault.textContent = said && said[0].toUpperCase() + said.slice(1);
      fault.hidden = error === null;
    }

    function busy(is, said = "") {
      view.setAttribute("aria-busy", String(is));
      button.textContent = is ? "Explaining\u2026" : "Explain";
      state.textContent = is ? "The text is being explained." : said;
    }

    /* Bring the answer to who asked for it, where it is out of sight. */
    function bring() {
      form.classList.add("ask-answered");
      if (matchMedia("(max-width: 40rem)").matches) more.open = false;
      const words = view.querySelector(".stage") || view;
      if (words.getBoundingClientRect().top < 0.8 * innerHeight) return;
      view.tabIndex = -1;
      view.focus({ preventScroll: true });
      view.scrollIntoView({ block: "start" });
    }

    async function explain(moves = true) {
      if (running) running.abort(); // the server stops what nobody waits for
      running = null;
      const wrong = unfit(typed());
      if (wrong !== null) {
        busy(false);
        tell(new Error(wrong.why));
        mark();
        if (moves) field(wrong.name).focus();
        return;
      }
      const mine = (running = new AbortController());
      const from = performance.now();
      let said = "";
      keep(typed());
      tell(null);
      mark();
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
        said = `Explained in ${count(Math.round(performance.now() - from))} ms.`;
        if (moves) bring();
      } catch (error) {
        if (mine === running && error.name !== "AbortError") tell(error);
      } finally {
        if (mine === running) {
          running = null;
          busy(false, said);
          mark();
        }
      }
    }

    form.addEventListener("input", () => {
      counted();
      mark();
    });
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
    counted();
    if (field("text").value) explain(false);
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
