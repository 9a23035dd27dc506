/* Search over the site's own pages: words, numbers in any notation, and the other names that the glossary gives. The index is loaded when somebody starts to type. */
(() => {
  "use strict";
  // Numbers meet in one notation: 35,000 and 35k, 1M and 1,000,000.
  const TIMES = { k: 1e3, m: 1e6, g: 1e9 };
  const number = (text) => {
    const [, digits, suffix] = /^([\d,]*\.?\d+)([kmg]?)$/i.exec(text) || [];
    return digits === undefined ? null : String(Number(digits.replaceAll(",", "")) * (TIMES[suffix.toLowerCase()] || 1));
  };
  const words = (text) => (text.toLowerCase().normalize("NFKD").replace(/[\u0300-\u036f]/g, "").match(/\d[\d,]*(?:\.\d+)?[kmg]?(?![\p{L}\p{N}])|[\p{L}\p{N}]+/gu) || []).map((word) => number(word.replace(/,+$/, "")) || word);
  const read = (rows) => rows.map(([kind, address, title, heading, prose]) => ({
    kind, address, title, heading, prose, parts: [words(heading || title), words(title), words(prose)],
  }));
  // Groups of names for one thing, from the glossary: a name, and what it is also called.
  const names = (entries) => entries.filter(({ kind }) => kind === 4).map(({ heading, prose }) => [heading, ...(/Also: (.*)\.$/.exec(prose) || ["", ""])[1].split("; ")].map(words).filter((name) => name.length));
  const within = (list, part) => list.findIndex((_, at) => part.every((word, index) => list[at + index] === word));
  // Every way to say what was asked: the words themselves first, then with each name in them exchanged.
  const ways = (wanted, groups) => {
    const found = [wanted];
    for (const group of groups) for (const name of group) {
      const at = within(wanted, name);
      if (at >= 0) for (const other of group) if (other !== name) found.push([...wanted.slice(0, at), ...other, ...wanted.slice(at + name.length)]);
    }
    return found.slice(0, 12);
  };
  const KIND = [6, 3, 1, 0, -4];
  // All words must be found, numbers whole, others as beginnings; a heading counts most, then the title, then prose.
  const score = (entry, wanted) => {
    let total = 0;
    for (const word of wanted) {
      const fits = (item) => item === word || (!/^\d/.test(word) && item.startsWith(word));
      const most = Math.max(...[9, 5, 2].map((weight, part) => (entry.parts[part].includes(word) ? weight + 1 : entry.parts[part].some(fits) ? weight : 0)));
      if (!most) return 0;
      total += most;
    }
    const phrase = wanted.length > 1 && entry.parts.some((part) => within(part, wanted) >= 0) ? 6 : 0;
    const aside = /^(?:claims\/[^/]+\/|notebooks\/)/.test(entry.address) ? 5 : /^(?:figures|tables)\//.test(entry.address) ? 2 : 0; // chapters stand above single claims, and above what is redrawn
    return Math.max(.1, total / wanted.length + phrase + KIND[entry.kind] - aside);
  };
  const search = (entries, groups, text) => {
    const wanted = words(text);
    if (!wanted.length) return [];
    const asked = ways(wanted, groups);
    const best = (entry) => Math.max(...asked.map((way, index) => { const points = score(entry, way); return points && points - (index ? 2.5 : 0); }));
    const seen = new Map();
    const few = ({ address }) => { const page = address.split("#")[0], count = (seen.get(page) || 0) + 1; seen.set(page, count); return count <= 3; };
    return entries.map((entry) => [best(entry), entry]).filter(([points]) => points > 0).sort((a, b) => b[0] - a[0] || a[1].kind - b[1].kind).map(([, entry]) => entry).filter(few);
  };
  globalThis.k3Find = Object.freeze({ read, names, search });
  if (typeof document === "undefined") return;

  const { make, load, here } = globalThis.k3;
  const bar = document.querySelector(".md-header__inner");
  if (!bar) return;
  const root = here + "../../";
  const form = make("form", null, { className: "k3-search", autocomplete: "off" });
  form.setAttribute("role", "search");
  form.setAttribute("aria-label", "Report");
  const field = make("input", null, { type: "search", placeholder: "Search: words or numbers", spellcheck: false });
  field.setAttribute("aria-label", "Search the report");
  field.setAttribute("aria-keyshortcuts", "/");
  const said = make("p", "", { className: "k3-search-said" });
  said.setAttribute("role", "status");
  const list = make("ol");
  list.setAttribute("aria-label", "Pages and sections found");
  const panel = make("div", null, { className: "k3-search-panel", hidden: true });
  panel.append(said, list);
  form.append(field, panel);
  bar.querySelector(".md-header__title").after(form);

  let entries = null, groups = [];
  const prepare = () => {
    entries = read(window.k3Search || []);
    groups = names(entries);
    show();
  };
  const snippet = (entry, wanted) => {
    const low = entry.prose.toLowerCase(), at = wanted.map((word) => low.indexOf(word)).filter((index) => index >= 0).sort((a, b) => a - b)[0] || 0;
    const start = Math.max(0, low.lastIndexOf(" ", Math.max(0, at - 40)) + 1);
    return (start ? "… " : "") + entry.prose.slice(start, start + 130) + (entry.prose.length > start + 130 ? " …" : "");
  };
  const show = () => {
    const wanted = field.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    panel.hidden = !wanted.length;
    list.replaceChildren();
    if (!wanted.length) { said.textContent = ""; return; }
    if (!entries) { said.textContent = "Loading the index"; return; }
    const found = search(entries, groups, field.value);
    said.textContent = found.length ? `${found.length} found` : "Nothing found";
    for (const entry of found.slice(0, 12)) {
      const link = make("a", null, { href: root + entry.address });
      link.append(make("strong", entry.heading || entry.title), entry.heading ? make("span", entry.title) : "", make("small", snippet(entry, wanted)));
      const item = make("li");
      item.append(link);
      list.append(item);
    }
  };
  let asked = false;
  const start = () => { if (!asked) { asked = true; load("../../search/index.js", prepare); } };
  field.addEventListener("focus", start);
  field.addEventListener("input", () => { start(); show(); });
  form.addEventListener("submit", (event) => { event.preventDefault(); const first = list.querySelector("a"); if (first) first.click(); });
  form.addEventListener("keydown", (event) => {
    const links = [...list.querySelectorAll("a")], at = links.indexOf(document.activeElement);
    if (event.key === "Escape") { field.value = ""; show(); field.focus(); }
    else if (event.key === "ArrowDown" && links.length) { event.preventDefault(); links[Math.min(at + 1, links.length - 1)].focus(); }
    else if (event.key === "ArrowUp" && at >= 0) { event.preventDefault(); (at ? links[at - 1] : field).focus(); }
  });
  list.addEventListener("click", () => { panel.hidden = true; });
  document.addEventListener("click", (event) => { if (!form.contains(event.target)) panel.hidden = true; });
  form.addEventListener("focusin", () => { if (field.value.trim()) panel.hidden = false; });
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest && event.target.closest("input, textarea, select, [contenteditable]");
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) { event.preventDefault(); field.focus(); }
  });
})();
