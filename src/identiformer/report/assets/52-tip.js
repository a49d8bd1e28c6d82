/* The numbers of the word under the pointer or the focus. Escape hides them; they say no more than its label does. */
(function (parts) {
  "use strict";

  const { h, replace, quote, nameOf, numbersOf } = parts;

  /* Follow the words inside `area`, of which `current()` gives {explanation, shown}. */
  function addTip(area, current) {
    const tip = h("div", { class: "tip", "aria-hidden": "true", hidden: true });
    area.append(tip);

    function show(word) {
      const { explanation, shown } = current();
      const i = Number(word.dataset.item);
      const item = shown.items[i];
      const tokens = item.tokens ? item.tokens.length : 1;
      const about = [item.special ? "a token of the model's" : "", item.unknown ? "unknown to the model" : ""];
      if (tokens > 1) about.push(`${tokens} pieces`);
      replace(
        tip,
        h("b", null, quote(nameOf(explanation, i, shown.pieces), 40)),
        about.filter(Boolean).length ? h("span", { class: "quiet" }, about.filter(Boolean).join(", ")) : null,
        h("dl", null, numbersOf(shown, i).map(([name, text]) => [h("dt", null, name), h("dd", null, text)])),
      );
      tip.hidden = false;
      const box = word.getClientRects()[0];
      const frame = area.getBoundingClientRect();
      const middle = box.left + Math.min(box.width, 80) / 2 - frame.left;
      const left = Math.min(Math.max(0, middle - tip.offsetWidth / 2), Math.max(0, area.clientWidth - tip.offsetWidth));
      // Below the word and its plot, so that nothing above the text is covered; above it where there is no room.
      const below = box.bottom + 40;
      const above = box.top - tip.offsetHeight - 8;
      const top = below + tip.offsetHeight <= window.innerHeight || above <= 0 ? below : above;
      tip.style.setProperty("left", `${left}px`);
      tip.style.setProperty("top", `${top - frame.top}px`);
    }

    const wordOf = (event) => (event.target.closest ? event.target.closest(".word[role=button]") : null);
    const hide = () => (tip.hidden = true);
    area.addEventListener("pointerover", (event) => (wordOf(event) ? show(wordOf(event)) : hide()));
    area.addEventListener("pointerleave", hide);
    area.addEventListener("focusin", (event) => {
      if (wordOf(event) && wordOf(event).matches(":focus-visible")) show(wordOf(event));
    });
    area.addEventListener("focusout", hide);
    area.addEventListener("keydown", (event) => event.key === "Escape" && hide());
    return hide;
  }

  Object.assign(parts, { addTip });
})(window.identiformer.parts);
