/* Elements, made without ever reading a text as HTML; and texts of anybody's made fit to be seen. */
(function (parts) {
  "use strict";

  /* An element: h("p", {class: "quiet", onclick: f}, "text", child, null). Strings become text nodes. */
  function h(name, attributes, ...children) {
    return fill(document.createElement(name), attributes, children);
  }

  function fill(element, attributes, children) {
    for (const [key, value] of Object.entries(attributes || {})) {
      if (value === null || value === undefined || value === false) continue;
      if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
      else if (key.startsWith("--")) element.style.setProperty(key, String(value));
      else element.setAttribute(key, value === true ? "" : String(value));
    }
    element.append(...children.flat(2).filter((child) => child !== null && child !== undefined && child !== false));
    return element;
  }

  function replace(element, ...children) {
    element.replaceChildren();
    return fill(element, null, children);
  }

  /* What nobody sees, or what turns the direction of a line: shown by its code. Joiners and tags of emoji stay. */
  const UNSEEN = /(?![\n\t\u200c\u200d\u{e0020}-\u{e007f}])[\p{Cc}\p{Cf}\p{Cn}\p{Co}\p{Cs}\p{Zl}\p{Zp}]/gu;

  function readable(text) {
    return text.replace(UNSEEN, escaped);
  }

  /* As Python writes it, which the terminal and the page without JavaScript show. */
  function escaped(character) {
    const code = character.codePointAt(0);
    if (character === "\r") return "\\r";
    const [letter, digits] = code < 0x100 ? ["x", 2] : code < 0x10000 ? ["u", 4] : ["U", 8];
    return `\\${letter}${code.toString(16).padStart(digits, "0")}`;
  }

  /* In a name line ends and tabs are to be seen as well. */
  function readableName(text) {
    return readable(text).replace(/\n/g, "\u21b5").replace(/\t/g, "\u21e5");
  }

  /* Somebody's text in a sentence of ours: its direction stays its own. */
  function quote(text, most = 60) {
    const long = Array.from(text);
    const shown = long.length > most ? `${long.slice(0, most).join("")}\u2026` : text;
    return h("bdi", null, readableName(shown));
  }

  /* One stop of the tab key for many buttons; arrows go on from there. `move(key, i)` gives the next place. */
  function roving(buttons, current, move) {
    buttons.forEach((button, i) => {
      button.tabIndex = i === current ? 0 : -1;
      button.addEventListener("focus", () => {
        buttons.forEach((other) => (other.tabIndex = -1));
        button.tabIndex = 0;
      });
      button.addEventListener("keydown", (event) => {
        if (event.altKey || event.ctrlKey || event.metaKey) return;
        const next = move(event.key, i);
        if (next === undefined || next === null) return;
        event.preventDefault();
        if (buttons[next]) buttons[next].focus();
      });
    });
  }

  Object.assign(parts, { h, replace, readable, readableName, quote, roving });
})(window.identiformer.parts);
