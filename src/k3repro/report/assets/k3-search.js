/* Search over the site's own pages: words, numbers in any notation, and the other names that the glossary gives. The index is loaded when somebody starts to type. */
(() => {
  "use strict";
  // Numbers meet in one notation: 35,000 and 35k, 1M and 1,000,000.
  const TIMES = { k: 1e3, m: 1e6, g: 1e9 };
  const number = (text) => {
    const [, digits, suffix] = /^([\d,]*\.?\d+)([kmg]?)$/i.exec(text) || [];
    return digits === undefined ? null : String(Number(digits.replaceAll(",", "")) * (TIMES[suffix.toLowerCase()] || 1));
  };
  const plain = (text) => text.toLowerCase().normalize("NFKD").replace(/[\u0300-\u036f]/g, "");
  // Words with their places in the text.
  const places = (text) => [...text.matchAll(/\d[\d,]*(?:\.\d+)?[kmg]?(?![\p{L}\p{N}])|[\p{L}\p{M}\p{N}]+/giu)].map((found) => {
    const word = plain(found[0]).replace(/,+$/, "");
    return { word: number(word) || word, at: found.index, end: found.index + found[0].length };
  });
  const words = (text) => places(text).map(({ word }) => word);
  // What a question is made of, and no page is about.
  const STOP = new Set("a an and are as at be been but by can could did do does for from get gets give had has have how i if in into is it its long many may me much my need needs of on one or our should so than that the their them there these they this those to us was we were what when where whether which who why will with would you your".split(" "));
  const asked = (list) => { const left = list.filter((word) => !STOP.has(word)); return left.length ? left : list; };
  // A longer word is also met by what it is made from: requests by request, serving by serve.
  const stem = (word) => word.replace(/^(\p{L}{3,}?)(?:ings?|ed|es|s)$/u, "$1");

  // Where each word stands: for every entry the most telling of heading, title and prose.
  const HEADED = [1, .6, .3], LED = [1, .6, .5], LISTED = [.6, .5, .3];
  const FIELDS = [LED, HEADED, LISTED, LISTED, HEADED, LED]; // page, section, table, claim, term, finding
  const read = (rows) => {
    const entries = rows.map(([kind, address, title, heading, prose]) => ({
      kind, address, title, heading, prose, parts: [words(heading || title), words(title), words(prose)],
    }));
    const index = new Map();
    for (const entry of entries) entry.parts.forEach((part, field) => {
      for (const word of part) {
        if (!index.has(word)) index.set(word, new Map());
        const held = index.get(word);
        if (!held.has(entry)) held.set(entry, FIELDS[entry.kind][field]);
      }
    });
    return Object.assign(entries, { index });
  };
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
  // Entries that hold a word, numbers whole, others as beginnings; and how rare the word is, from 0 to 1.
  const lookUp = (entries, word) => {
    const held = new Map(), begin = /^\d/.test(word) ? null : stem(word);
    for (const [item, holders] of entries.index) {
      const weight = item === word ? 1 : begin && item.startsWith(word) ? .85 : begin && begin !== word && item.startsWith(begin) ? .7 : 0;
      if (weight) for (const [entry, field] of holders) held.set(entry, Math.max(held.get(entry) || 0, weight * field));
    }
    return { word, held, rare: Math.log(1 + entries.length / (1 + held.size)) / Math.log(1 + entries.length) };
  };
  const KIND = [2.5, 1.2, .2, 0, -2, 3];
  // Chapters stand above single claims, above what is redrawn, and above the study beside this one.
  const ASIDE = [[/^claims\/(?!index|findings)|^notebooks\//, 2.6], [/^(?:figures|tables)\//, 1.2], [/^crossarch\//, 1]];
  // Matched words weigh by their rarity, those that no page holds little; an answer holds much of what was asked, and all its numbers.
  const answers = (entries, way, known) => {
    const wanted = asked(way).map((word) => known.get(word) || known.set(word, lookUp(entries, word)).get(word));
    const weigh = ({ word, held, rare }) => (/^\d/.test(word) ? 2 : held.size ? 1 : .4) * (.1 + rare);
    const all = wanted.reduce((sum, item) => sum + weigh(item), 0), found = new Map();
    for (const item of wanted) for (const [entry, weight] of item.held) {
      const sum = found.get(entry) || { matched: 0, points: 0, numbers: 0 };
      sum.matched += weigh(item) / all;
      sum.points += weight * weigh(item) / all;
      sum.numbers += /^\d/.test(item.word);
      found.set(entry, sum);
    }
    const numbers = wanted.filter(({ word }) => /^\d/.test(word)).length;
    const scores = new Map();
    for (const [entry, sum] of found) {
      if (sum.matched < .45 || sum.numbers < numbers) continue;
      const phrase = way.length > 1 && entry.parts.some((part) => within(part, way) >= 0) ? 2 : 0;
      const aside = ASIDE.find(([where]) => where.test(entry.address));
      scores.set(entry, 4 * sum.points + (sum.matched > .999 ? 3 : 6 * (sum.matched - 1)) + phrase + KIND[entry.kind] - (aside ? aside[1] : 0));
    }
    return scores;
  };
  const search = (entries, groups, text) => {
    const wanted = words(text);
    if (!wanted.length) return [];
    const best = new Map(), known = new Map();
    ways(wanted, groups).forEach((way, index) => {
      for (const [entry, points] of answers(entries, way, known)) best.set(entry, Math.max(best.has(entry) ? best.get(entry) : -99, points - (index ? .8 : 0)));
    });
    const seen = new Map();
    const few = ({ address }) => { const page = address.split("#")[0], count = (seen.get(page) || 0) + 1; seen.set(page, count); return count <= 3; };
    return [...best].sort((a, b) => b[1] - a[1] || a[0].kind - b[0].kind || (a[0].address < b[0].address ? -1 : 1)).map(([entry]) => entry).filter(few);
  };
  // The piece of the prose that holds most of what was asked, as [text, whether it was asked for].
  const excerpt = (entries, entry, text, most = 24) => {
    const wanted = asked(words(text)).map((word) => ({ word, begin: /^\d/.test(word) ? null : stem(word), rare: lookUp(entries, word).rare + .1 }));
    const hit = (item) => wanted.find(({ word, begin }) => item.word === word || (begin && item.word.startsWith(begin)));
    const list = places(entry.prose), hits = list.map(hit);
    // Words side by side as they were asked tell more than the same words apart.
    const beside = hits.map((one, at) => (one && hits[at + 1] && wanted.indexOf(hits[at + 1]) === wanted.indexOf(one) + 1 ? 1 : 0));
    let start = 0, value = -1;
    for (let at = 0; at < list.length; at += 1) {
      const sum = [...new Set(hits.slice(at, at + most))].reduce((total, one) => total + (one ? one.rare : 0), 0) + beside.slice(at, at + most - 1).reduce((total, one) => total + one, 0);
      if (sum > value + 1e-9) { value = sum; start = at; }
    }
    while (start > 0 && !hits[start]) start += 1;
    start = Math.max(0, start - (start ? 4 : 0)); // a few words before it
    const shown = list.slice(start, start + most);
    if (!shown.length) return [];
    const pieces = [];
    let from = start ? shown[0].at : 0;
    if (start) pieces.push(["… ", false]);
    for (const [at, item] of shown.entries()) if (hits[start + at]) {
      pieces.push([entry.prose.slice(from, item.at), false], [entry.prose.slice(item.at, item.end), true]);
      from = item.end;
    }
    const whole = start + most >= list.length;
    pieces.push([entry.prose.slice(from, whole ? undefined : shown.at(-1).end), false]);
    if (!whole) pieces.push([" …", false]);
    return pieces.filter(([piece]) => piece);
  };
  globalThis.k3Find = Object.freeze({ read, names, search, excerpt });
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
  const show = () => {
    const asking = field.value.trim();
    panel.hidden = !asking;
    list.replaceChildren();
    if (!asking) { said.textContent = ""; return; }
    if (!entries) { said.textContent = "Loading the index"; return; }
    const found = search(entries, groups, field.value);
    said.textContent = found.length ? `${found.length} found` : "Nothing found";
    for (const entry of found.slice(0, 12)) {
      const link = make("a", null, { href: root + entry.address });
      const piece = make("small");
      piece.append(...excerpt(entries, entry, asking).map(([text, hit]) => (hit ? make("mark", text) : text)));
      link.append(make("strong", entry.heading || entry.title), entry.heading ? make("span", entry.title) : "", piece);
      const item = make("li");
      item.append(link);
      list.append(item);
    }
  };
  let started = false;
  const start = () => { if (!started) { started = true; load("../../search/index.js", prepare); } };
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
