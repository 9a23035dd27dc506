/* Search over titles, headings and prose of the site's own pages. The index is loaded when somebody starts to type. */
(() => {
  "use strict";
  const { make, load, here } = globalThis.k3;
  const bar = document.querySelector(".md-header__inner");
  if (!bar) return;
  const root = here + "../../";
  const form = make("form", null, { className: "k3-search", autocomplete: "off" });
  form.setAttribute("role", "search");
  form.setAttribute("aria-label", "Report");
  const field = make("input", null, { type: "search", placeholder: "Search", spellcheck: false });
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

  const words = (text) => text.toLowerCase().normalize("NFKD").replace(/[\u0300-\u036f]/g, "").split(/[^\p{L}\p{N}]+/u).filter(Boolean);
  let entries = null;
  const prepare = () => {
    entries = (window.k3Search || []).map(([address, title, heading, prose]) => ({
      address, title, heading, prose, parts: [words(heading || title), words(title), words(prose)],
    }));
    show();
  };
  // All words must be found, as beginnings of words; a heading counts most, then the title, then prose.
  const score = (entry, wanted) => {
    let total = 0;
    for (const word of wanted) {
      const best = [9, 5, 1].map((weight, part) => (entry.parts[part].includes(word) ? weight + 1 : entry.parts[part].some((item) => item.startsWith(word)) ? weight : 0));
      const most = Math.max(...best);
      if (!most) return 0;
      total += most;
    }
    return total + (entry.heading ? 0 : 1);
  };
  const snippet = (entry, wanted) => {
    const low = entry.prose.toLowerCase(), at = wanted.map((word) => low.indexOf(word)).filter((index) => index >= 0).sort((a, b) => a - b)[0] || 0;
    const start = Math.max(0, low.lastIndexOf(" ", Math.max(0, at - 40)) + 1);
    return (start ? "… " : "") + entry.prose.slice(start, start + 130) + (entry.prose.length > start + 130 ? " …" : "");
  };
  const show = () => {
    const wanted = words(field.value);
    panel.hidden = !wanted.length;
    list.replaceChildren();
    if (!wanted.length) { said.textContent = ""; return; }
    if (!entries) { said.textContent = "Loading the index"; return; }
    const found = entries.map((entry) => [score(entry, wanted), entry]).filter(([points]) => points).sort((a, b) => b[0] - a[0]);
    said.textContent = found.length ? `${found.length} found` : "Nothing found";
    for (const [, entry] of found.slice(0, 12)) {
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
