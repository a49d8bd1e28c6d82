/* How numbers and certificates are said. The terminal says them in the same words (cli/token_view.py). */
(function (parts) {
  "use strict";

  const { readable, readableName } = parts;

  const LEVELS = [
    { name: "free", title: "any weights", means: "out of all vectors, negative ones included" },
    { name: "simplex", title: "any distribution", means: "out of all weights that are not negative and sum to 1" },
    { name: "generatable", title: "what a query can generate", means: "out of all that some query makes of these keys" },
  ];

  function fixed(number, digits = 3) {
    const text = Math.abs(number).toFixed(digits);
    return number < 0 && Number(text) !== 0 ? `\u2212${text}` : text; // no -0.000
  }

  function small(number) {
    return number === 0 ? "0" : number.toExponential(1).replace("-", "\u2212");
  }

  function percent(share) {
    const value = 100 * share;
    return `${value < 0.05 ? "less than 0.1" : value < 9.95 ? value.toFixed(1) : value.toFixed(0)}%`;
  }

  function count(number, one, many = `${one}s`) {
    return `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
  }

  /* "unique", "unique nearby", "not unique: 14 directions of freedom"; null where nothing is said. */
  function verdict(level) {
    if (!level) return { state: "unsaid", text: "nothing is said", margin: null };
    if (level.verdict === "none") {
      return {
        state: "none",
        text: `not unique: ${count(level.nullity, "direction")} of freedom`,
        margin: null,
      };
    }
    const state = level.verdict === "global" ? "global" : "local";
    return {
      state,
      text: state === "global" ? "unique" : "unique nearby",
      margin: `margin ${small(level.margin)}`,
    };
  }

  function blank(item) {
    return !item.special && (item.start === item.end || !item.text.trim());
  }

  /* What a word or piece is called where it does not stand in the text; `##` goes on with a word. */
  function nameOf(explanation, i, pieces) {
    const item = (pieces ? explanation.tokens : explanation.words)[i];
    const name = readableName(item.text);
    if (blank(item)) return name.trim() ? name : `\u201c${name}\u201d`;
    const inside = pieces && explanation.words[parts.wordOfToken(explanation, i)].tokens[0] !== i;
    return inside ? `##${name}` : name;
  }

  /* "row of [CLS]", "row of ##ing in waiting", "row 3 of the decoder" */
  function rowName(explanation, head, pieces) {
    if (head.kind === "cross") return `${head.row} of the decoder`;
    const word = parts.wordOfToken(explanation, head.row);
    if (word === undefined) return String(head.row);
    if (pieces || explanation.words[word].tokens.length === 1) return `of ${nameOf(explanation, head.row, true)}`;
    return `of ${readableName(explanation.tokens[head.row].text)} in ${nameOf(explanation, word, false)}`;
  }

  /* The command that computes what this page does not have. */
  function command(data, explanation, head) {
    const quoted = (text) =>
      /^\w[\w./-]*$/.test(text) ? text : `'${text.replace(/'/g, "'\\''")}'`;
    // What cannot be pasted, or is seen by nobody, is for the reader to fill in.
    const whole = (text) => (/\t/.test(text) || readable(text) !== text || explanation.truncated ? "'\u2026'" : quoted(text));
    const pair = typeof explanation.text_pair === "string" ? ` --text-pair ${whole(explanation.text_pair)}` : "";
    return (
      `identiformer explain ${quoted(data.model)} --text ${whole(explanation.text)}${pair}` +
      ` --layers ${head.layer} --heads ${head.head} --row ${head.row} --html explanation.html`
    );
  }

  Object.assign(parts, { LEVELS, fixed, small, percent, count, verdict, blank, nameOf, rowName, command });
})(window.identiformer.parts);
