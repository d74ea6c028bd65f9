/* Search over the whole page ("/"), the section in view, and definitions of terms. */
{
  const dialog = document.getElementById("finder");
  const input = dialog.querySelector("input");
  const list = dialog.querySelector("ul");
  const said = dialog.querySelector("output");
  const MOST = 40;
  let index = null, at = -1;

  const collect = () => {
    const entries = [];
    const add = (kind, text, element) => {
      const name = text.replace(/\s+/g, " ").trim();
      if (name) entries.push({ kind, name, element, key: name.toLowerCase() });
    };
    for (const one of document.querySelectorAll("article.finding")) add(words.find_finding, one.querySelector("h3").firstChild.textContent + one.querySelector("h3").textContent.slice(one.querySelector("h3").firstChild.textContent.length).replace(/#$/, ""), one);
    for (const one of document.querySelectorAll("main h2, .block h3")) add(words.find_section, one.textContent, one);
    for (const one of document.querySelectorAll(".definitions dt")) add(words.find_term, one.textContent, one.parentElement);
    for (const table of document.querySelectorAll("main .grid table")) {
      const title = table.caption.textContent;
      for (const row of table.tBodies[0].rows) {
        const cell = row.querySelector("td.name") ?? row.cells[0];
        add(title, (cell.querySelector(".full") ?? cell).textContent, row);
      }
    }
    return entries;
  };

  const show = () => {
    index ??= collect();
    const sought = input.value.trim().toLowerCase();
    const hits = sought ? index.filter((entry) => entry.key.includes(sought)) : [];
    hits.sort((a, b) => (b.key.startsWith(sought) - a.key.startsWith(sought)));
    said.textContent = sought ? filled(words.found_all, { count: hits.length }) : "";
    at = hits.length ? 0 : -1;
    list.replaceChildren(...hits.slice(0, MOST).map((entry, number) => {
      const item = make("li");
      item.id = `finder-${number}`;
      item.setAttribute("role", "option");
      item.append(make("span", entry.name.length > 160 ? `${entry.name.slice(0, 160)}...` : entry.name), make("span", entry.kind, "say"));
      item.addEventListener("click", () => go(entry));
      item.entry = entry;
      return item;
    }));
    mark();
  };
  const mark = () => {
    [...list.children].forEach((item, number) => item.setAttribute("aria-selected", String(number === at)));
    if (at >= 0) {
      input.setAttribute("aria-activedescendant", `finder-${at}`);
      list.children[at].scrollIntoView({ block: "nearest" });
    } else input.removeAttribute("aria-activedescendant");
  };
  const go = ({ element }) => {
    dialog.close();
    for (let part = element; part; part = part.parentElement) if (part.tagName === "DETAILS") part.open = true;
    element.querySelector(":scope > details")?.setAttribute("open", "");
    element.hidden = false;
    if (!element.hasAttribute("tabindex")) element.tabIndex = -1;
    element.scrollIntoView({ behavior: "instant", block: element.tagName === "TR" ? "center" : "start" });
    element.focus({ preventScroll: true });
    element.classList.add("hit");
    setTimeout(() => element.classList.remove("hit"), 2400);
  };
  const open = () => { dialog.showModal(); input.select(); show(); };

  document.getElementById("find").addEventListener("click", open);
  addEventListener("keydown", (event) => {
    const isTyping = event.target.closest?.("input, textarea, select, [contenteditable]");
    if (event.key !== "/" || isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    open();
  });
  input.addEventListener("input", show);
  input.addEventListener("keydown", (event) => {
    const count = list.children.length;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (count) at = (at + (event.key === "ArrowDown" ? 1 : count - 1)) % count;
      mark();
    } else if (event.key === "Enter" && at >= 0) {
      event.preventDefault();
      go(list.children[at].entry);
    }
  });
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });

  /* The section in view is the last one that begins above the upper third of the window. */
  const links = new Map([...document.querySelectorAll(".contents a")].map((link) => [link.hash.slice(1), link]));
  const parts = [...links.keys()].map((id) => document.getElementById(id)).filter(Boolean);
  let waiting = false;
  const follow = () => {
    waiting = false;
    const isEnd = innerHeight + scrollY >= root.scrollHeight - 4;
    const begun = parts.filter((part) => part.getBoundingClientRect().top <= innerHeight / 3);
    const current = isEnd && scrollY > 0 ? parts.at(-1) : begun.at(-1) ?? parts[0];
    for (const [id, link] of links) {
      if (id === current?.id) link.setAttribute("aria-current", "true"); else link.removeAttribute("aria-current");
    }
  };
  addEventListener("scroll", () => { if (!waiting) { waiting = true; requestAnimationFrame(follow); } }, { passive: true });
  addEventListener("resize", follow);
  follow();

  /* Definitions appear over terms, with the mouse and the keyboard; without a script, the browser shows the title. */
  const meanings = new Map([...document.querySelectorAll(".definitions dt")].flatMap((term) =>
    term.textContent.split(/[,、，]\s*/).map((name) => [name.trim().toLowerCase(), term.nextElementSibling.textContent])));
  const tip = make("div", "", "term-tip");
  tip.id = "term-tip";
  tip.setAttribute("role", "tooltip");
  tip.hidden = true;
  document.body.append(tip);
  const over = (element) => {
    tip.textContent = element.meaning;
    tip.hidden = false;
    const box = element.getBoundingClientRect();
    tip.style.left = `${Math.max(6, Math.min(box.left, innerWidth - tip.offsetWidth - 6))}px`;
    tip.style.top = `${box.bottom + 4 + tip.offsetHeight > innerHeight ? box.top - tip.offsetHeight - 4 : box.bottom + 4}px`;
  };
  const away = () => { tip.hidden = true; };
  /* The browser scrolls to a term that gets the focus: its definition goes with it. */
  const follows = () => { if (!tip.hidden && document.activeElement.meaning) over(document.activeElement); else away(); };
  for (const label of document.querySelectorAll("main th[data-csv], main dt, .legend .label, .meters .label, [data-tip]")) {
    if (label.closest(".definitions")) continue;
    const meaning = label.dataset.tip ?? meanings.get(label.textContent.trim().toLowerCase());
    if (!meaning) continue;
    const target = label.querySelector("button") ?? label;
    target.meaning = meaning;
    if (!label.dataset.tip) target.classList.add("term");
    target.setAttribute("aria-describedby", "term-tip");
    if (target === label) target.tabIndex = 0;
    label.removeAttribute("title");
    for (const event of ["mouseenter", "focus"]) target.addEventListener(event, () => over(target));
    for (const event of ["mouseleave", "blur"]) target.addEventListener(event, away);
  }
  addEventListener("keydown", (event) => { if (event.key === "Escape") away(); });
  addEventListener("scroll", follows, { passive: true, capture: true });
}
