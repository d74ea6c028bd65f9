"use strict";
const words = JSON.parse(document.getElementById("words").textContent);
const root = document.documentElement;
root.classList.add("js");

const make = (tag, text, className) => {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (className) element.className = className;
  return element;
};
const filled = (pattern, values) => pattern.replace(/\{(\w+)\}/g, (whole, key) => String(values[key] ?? whole));

/* Storage and clipboard may be forbidden to a page that was opened as a file. */
const stored = (key, value) => {
  try {
    if (value === undefined) return localStorage.getItem(key);
    localStorage.setItem(key, value);
  } catch { /* the choice lasts for this page */ }
  return null;
};

const copy = async (text) => {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = make("textarea", text);
    area.setAttribute("aria-hidden", "true");
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
};

const confirmCopy = async (button, text) => {
  const label = button.dataset.label ?? (button.dataset.label = button.textContent);
  const focused = document.activeElement;
  button.textContent = (await copy(text)) ? words.copied : words.not_copied;
  focused?.focus();
  setTimeout(() => { button.textContent = label; }, 1600);
};

{
  const button = document.getElementById("theme");
  const isDark = () => root.dataset.theme
    ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  const say = () => { button.textContent = isDark() ? words.light : words.dark; };
  const saved = stored("traceanalyzer-theme");
  if (saved === "light" || saved === "dark") root.dataset.theme = saved;
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    stored("traceanalyzer-theme", root.dataset.theme);
    say();
    dispatchEvent(new Event("themechange"));
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    say();
    dispatchEvent(new Event("themechange"));
  });
  say();
}

for (const button of document.querySelectorAll(".copy")) {
  button.addEventListener("click", () => confirmCopy(button, button.parentElement.querySelector("ins").textContent));
}

/* A finding for a mail or an issue: what to do, its price, why, and a link. */
const asMarkdown = (card) => {
  const text = (selector) => card.querySelector(selector)?.textContent.replace(/\s+/g, " ").trim() ?? "";
  const title = text("h3").replace(/ ?#$/, ""), price = text(":scope > .saving .price-text"), lines = text(".lines");
  const said = [...card.querySelectorAll(":scope > p:not(.saving), :scope > details > p:not(.lines)")]
    .map((part) => part.textContent.replace(/\s+/g, " ").trim()).filter(Boolean);
  const code = card.querySelector(".code ins")?.textContent;
  const fence = code && (code.includes("```") ? "~~~" : "```");
  return [`### ${title}`, price && `**${price}**`, ...said, lines, code && `${fence}python\n${code.trimEnd()}\n${fence}`]
    .filter(Boolean).join("\n\n");
};
for (const button of document.querySelectorAll(".as-markdown")) {
  button.addEventListener("click", () => confirmCopy(button, asMarkdown(button.closest("article"))));
}

for (const button of document.querySelectorAll("[data-tree]")) {
  button.addEventListener("click", () => {
    for (const part of button.closest(".block").querySelectorAll(".tree details")) {
      part.open = button.dataset.tree === "open";
    }
  });
}

/* A link to something folded opens it. */
const reveal = () => {
  let name = location.hash.slice(1);
  try { name = decodeURIComponent(name); } catch { /* as it is */ }
  const target = name && document.getElementById(name);
  if (!target) return;
  for (let part = target; part; part = part.parentElement) if (part.tagName === "DETAILS") part.open = true;
  target.scrollIntoView({ behavior: "instant" });
  target.querySelector(":scope > details")?.setAttribute("open", "");
  if (target.tabIndex === -1 && target.hasAttribute("tabindex")) target.focus({ preventScroll: true });
};
addEventListener("hashchange", reveal);
reveal();

if (matchMedia("(max-width: 900px)").matches) document.querySelector(".contents details").open = false;

/* Paper shows what is folded on the screen. */
const opened = [];
addEventListener("beforeprint", () => {
  for (const part of document.querySelectorAll("main details:not([open]):not(.name)")) {
    part.open = true;
    opened.push(part);
  }
});
addEventListener("afterprint", () => { for (const part of opened.splice(0)) part.open = false; });
