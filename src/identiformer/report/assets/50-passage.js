/* A text with its words shaded by their weights, and a plot of each word's numbers under it. */
(function (parts) {
  "use strict";

  const { h, readable, readableName, roving, characters, blank, nameOf, fixed } = parts;
  const SHOWN_UNREAD = 400; // characters beyond those that the model read
  const SHOWN_OF_ONE = 300; // characters of one word

  /* The places of a text in order: [{gap}], [{item, text}] with `item` a number, and what is left unread.

     A piece that stands where the one before it does (parts of one emoji, of one letter) is a chip of its own: it has
     a weight of its own. */
  function layOut(explanation, items, segment) {
    const source = characters(explanation, segment);
    const places = [];
    let position = 0;
    items.forEach((item, i) => {
      if (item.segment !== segment) return;
      if (item.special || blank(item)) {
        const name = item.text.trim() || item.special ? readableName(item.text) : item.text.includes("\n") ? "\u21b5" : "\u2423";
        places.push({ item: i, text: name, chip: true });
        return;
      }
      if (item.end <= position) {
        places.push({ item: i, text: "\u2026", chip: true });
        return;
      }
      const start = Math.max(item.start, position);
      if (start > position) places.push({ gap: source.slice(position, start).join("") });
      places.push({ item: i, text: source.slice(start, item.end).join("") });
      position = item.end;
    });
    const rest = source.slice(position);
    if (rest.length && explanation.truncated) {
      const shown = rest.slice(0, SHOWN_UNREAD).join("");
      places.push({ unread: rest.length > SHOWN_UNREAD ? `${shown}\u2026` : shown });
    } else if (rest.length) {
      places.push({ gap: rest.join("") });
    }
    return places;
  }

  /* A word that would fill the page, cut. */
  function shortened(text) {
    if (text.length <= SHOWN_OF_ONE) return text;
    const some = Array.from(text);
    const more = some.length - SHOWN_OF_ONE;
    return more > 0 ? `${some.slice(0, SHOWN_OF_ONE).join("")}\u2026 (${parts.count(more, "more character")})` : text;
  }

  /* A word keeps its plot at its side where directions mix: without a mark of the word's own direction after it, the
     plot would go where the text around it goes. */
  const RIGHT_TO_LEFT = /[\p{Script=Arabic}\p{Script=Hebrew}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}\p{Script=Adlam}]/u;

  function directionMark(text) {
    if (RIGHT_TO_LEFT.test(text)) return "\u200f";
    return /\p{L}/u.test(text) ? "\u200e" : "";
  }

  /* What is drawn of each item: its level (share of the greatest), its sign, its plot. */
  function drawing(shown) {
    if (shown.view === "effective") {
      const most = greatest(Array.from(shown.effective, Math.abs));
      return {
        scale: most,
        level: (i) => Math.abs(shown.effective[i]) / most,
        negative: (i) => shown.effective[i] < 0,
        plot: (i) => signedPlot(shown.effective[i] / most),
      };
    }
    const weights = shown.view === "alternative" ? shown.alternative : shown.weights;
    // Where both are shown, equal shades are equal weights.
    const most = greatest(shown.alternative ? [...shown.alternative, ...shown.weights] : weights);
    const scale = greatest([...weights, ...shown.weights, ...(shown.upper || [])]);
    return {
      scale,
      most,
      level: (i) => Math.max(weights[i], 0) / most,
      negative: () => false,
      plot: (i) => plot(shown, i, weights[i] / scale, scale),
    };
  }

  function greatest(numbers) {
    return numbers.reduce((most, number) => Math.max(most, number), 1e-12);
  }

  function plot(shown, i, at, scale) {
    const own = shown.weights[i] / scale;
    const marks = [];
    if (shown.upper && shown.upper[i] - shown.lower[i] > 5e-4) {
      marks.push(h("span", { class: "whisker", "--from": shown.lower[i] / scale, "--to": shown.upper[i] / scale }));
    }
    if (shown.view === "alternative") {
      marks.push(h("span", { class: "moved", "--from": Math.min(at, own), "--to": Math.max(at, own) }));
      marks.push(h("span", { class: "ring", "--at": own }));
    }
    marks.push(h("span", { class: "dot", "--at": at }));
    return h("span", { class: "plot", "aria-hidden": "true" }, marks);
  }

  function signedPlot(share) {
    const bar = h("span", { class: share < 0 ? "bar down" : "bar", "--at": Math.abs(share) });
    return h("span", { class: "plot signed", "aria-hidden": "true" }, bar);
  }

  /* The numbers of one item, as [name, text] each. */
  function numbersOf(shown, i) {
    const rows = [["weight", fixed(shown.weights[i])]];
    if (shown.view === "alternative") rows.push(["in the alternative", fixed(shown.alternative[i])]);
    if (shown.lower) rows.push(["from", fixed(shown.lower[i])], ["to", fixed(shown.upper[i])]);
    rows.push(["effective", fixed(shown.effective[i])]);
    return rows;
  }

  function said(explanation, shown, i) {
    const item = shown.items[i];
    const numbers = numbersOf(shown, i).map((row) => row.join(" "));
    const name = item.special ? `${item.text}, a token of the model's` : nameOf(explanation, i, shown.pieces);
    return [readableName(name), ...(item.unknown ? ["unknown to the model"] : []), ...numbers].join(", ");
  }

  /* The passages of a text, and of its pair.

     `choose(i)` is called for the item that is clicked; without it the passage is but shown. */
  function passages(explanation, shown, { choose = null, chosen = null, focus = null } = {}) {
    const drawn = drawing(shown);
    const buttons = [];
    const segments = typeof explanation.text_pair === "string" ? [0, 1] : [0];
    const blocks = segments.map((segment) => {
      const mixed = RIGHT_TO_LEFT.test(segment ? explanation.text_pair : explanation.text);
      const contents = layOut(explanation, shown.items, segment).map((place) => {
        if (place.gap !== undefined) return readable(place.gap);
        if (place.unread !== undefined) return h("span", { class: "unread", title: "not read by the model" }, readable(place.unread));
        const i = place.item;
        const item = shown.items[i];
        const classes = ["word"];
        if (item.unknown) classes.push("unknown");
        if (drawn.negative(i)) classes.push("negative");
        const word = h("span", { class: classes.join(" "), "--level": drawn.level(i).toFixed(4) }, readable(shortened(place.text)));
        if (shortened(place.text) !== place.text) word.title = readable(place.text);
        if (place.chip) {
          word.classList.add("chip");
          word.dir = "ltr"; // so that it has no say in the direction of the text
        }
        if (choose) {
          word.append(drawn.plot(i));
          if (mixed && !place.chip) word.append(directionMark(place.text));
          word.dataset.item = i;
          word.setAttribute("role", "button");
          word.setAttribute("aria-label", said(explanation, shown, i));
          word.setAttribute("aria-pressed", String(i === chosen));
          buttons.push(word);
        }
        return word;
      });
      const text = h("p", { class: "passage", dir: "auto" }, contents);
      return segments.length < 2 ? text : h("div", null, h("span", { class: "part-name" }, segment ? "Its pair" : "The text"), text);
    });
    if (choose) listen(buttons, choose, focus);
    return blocks;
  }

  function listen(buttons, choose, focus) {
    const current = Math.max(0, buttons.findIndex((button) => Number(button.dataset.item) === focus));
    roving(buttons, current, (key, i) => neighbour(buttons, key, i));
    for (const button of buttons) {
      const item = Number(button.dataset.item);
      button.addEventListener("click", () => choose(item));
      button.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        choose(item);
      });
    }
  }

  /* Where an arrow leads: along the text, or to the nearest word of the next line. */
  function neighbour(buttons, key, i) {
    if (key === "Home") return 0;
    if (key === "End") return buttons.length - 1;
    if (key === "ArrowLeft" || key === "ArrowRight") {
      const back = (key === "ArrowLeft") === (getComputedStyle(buttons[i]).direction === "ltr");
      return Math.min(Math.max(i + (back ? -1 : 1), 0), buttons.length - 1);
    }
    if (key !== "ArrowUp" && key !== "ArrowDown") return undefined;
    const step = key === "ArrowUp" ? -1 : 1;
    const here = buttons[i].getClientRects()[0];
    let best = i;
    let line = null;
    for (let j = i + step; buttons[j]; j += step) {
      const there = buttons[j].getClientRects()[0];
      if (Math.abs(there.top - here.top) < 8) continue;
      if (line === null) line = there.top;
      if (Math.abs(there.top - line) >= 8) break;
      const off = (rectangle) => Math.abs(rectangle.left + rectangle.width / 2 - here.left - here.width / 2);
      if (best === i || off(there) < off(buttons[best].getClientRects()[0])) best = j;
    }
    return best;
  }

  Object.assign(parts, { passages, drawing, numbersOf });
})(window.identiformer.parts);
