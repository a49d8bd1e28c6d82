/* What a page shows, read lazily: packed numbers are decoded when a head is shown, and never twice.

   The data is described in packing.py. Everything of the token view hangs on window.identiformer.parts. */
window.identiformer = window.identiformer || {};
window.identiformer.parts = {};

(function (parts) {
  "use strict";

  const decoded = new WeakMap();

  /* An array of numbers: of a list, or of {"u16" or "u32", "low", "high"}. */
  function numbers(given) {
    if (given === null || given === undefined) return null;
    if (Array.isArray(given)) return given;
    if (!decoded.has(given)) decoded.set(given, unpack(given));
    return decoded.get(given);
  }

  function unpack(packed) {
    const short = packed.u16 !== undefined;
    const bytes = Uint8Array.from(atob(short ? packed.u16 : packed.u32), (character) => character.charCodeAt(0));
    const view = new DataView(bytes.buffer);
    const size = short ? 2 : 4;
    const step = (packed.high - packed.low) / (2 ** (8 * size) - 1);
    const read = (i) => (short ? view.getUint16(size * i, true) : view.getUint32(size * i, true));
    return Float64Array.from({ length: bytes.length / size }, (_, i) => packed.low + step * read(i));
  }

  /* The numbers of a head, by word or by piece. Bounds and tops are null where they were not computed. */
  function valuesOf(explanation, head, pieces) {
    const own = pieces || !head.words ? head : head.words;
    const items = pieces ? explanation.tokens : explanation.words;
    return {
      items,
      weights: numbers(own.weights),
      effective: numbers(own.effective),
      lower: own.intervals ? numbers(own.intervals.lower) : null,
      upper: own.intervals ? numbers(own.intervals.upper) : null,
      tops: own.possible_tops || null,
    };
  }

  /* The weights of an alternative, which come by token; those of a word are the sums over its tokens. */
  function alternativeValues(explanation, alternative, pieces) {
    const weights = numbers(alternative.weights);
    if (pieces || weights === null) return weights;
    return explanation.words.map((word) => word.tokens.reduce((sum, token) => sum + weights[token], 0));
  }

  /* Places count characters as Python does: a character beyond U+FFFF is one of them, but two for JavaScript. */
  const split = new WeakMap();
  function characters(explanation, segment) {
    if (!split.has(explanation)) split.set(explanation, []);
    const known = split.get(explanation);
    const source = segment ? explanation.text_pair : explanation.text;
    if (known[segment] === undefined) known[segment] = Array.from(source || "");
    return known[segment];
  }

  /* Which word each piece belongs to. */
  const homes = new WeakMap();
  function wordOfToken(explanation, token) {
    if (!homes.has(explanation)) {
      const home = [];
      explanation.words.forEach((word, number) => word.tokens.forEach((i) => (home[i] = number)));
      homes.set(explanation, home);
    }
    return homes.get(explanation)[token];
  }

  function isWrong(explanation) {
    const { label, prediction } = explanation;
    return typeof label === "string" && typeof prediction === "string" && label !== prediction;
  }

  /* Whether one of its heads is not unique at a level; where a level says nothing of a head, it does not count. */
  function isFree(explanation, level) {
    return explanation.heads.some((head) => head.levels[level] && head.levels[level].verdict === "none");
  }

  /* What a level says of all heads: of the one that is least unique. */
  function worst(explanation, level) {
    const order = ["none", "local", "global"];
    const places = explanation.heads.filter((head) => head.levels[level]).map((head) => order.indexOf(head.levels[level].verdict));
    return places.length ? order[Math.min(...places)] : "unsaid";
  }

  Object.assign(parts, { numbers, valuesOf, alternativeValues, characters, wordOfToken, isWrong, isFree, worst });
})(window.identiformer.parts);
