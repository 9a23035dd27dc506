/* k3repro: cards under numbers, tables to sort, search and unfold, charts. No network, no eval. Markup comes only from the page's own data file, which audits compare. */
(() => {
  "use strict";
  const make = (tag, text, properties) => {
    const element = Object.assign(document.createElement(tag), properties || {});
    if (text !== undefined && text !== null) element.textContent = text;
    return element;
  };
  const here = document.currentScript.src.replace(/k3\.js$/, "");
  const root = here + "../../";
  const load = (name, then) => {
    const element = make("script", null, { src: here + name, async: true });
    if (then) element.addEventListener("load", then);
    document.head.append(element);
    return element;
  };

  // What stands behind the page (SQL, artifacts, further rows) comes when somebody asks, also from disk.
  const NOTHING = { queries: {}, artifacts: {}, base: "", rows: {} };
  let asked = null;
  const behind = () => asked ||= new Promise((resolve) => {
    const at = new URL(root, location.href).pathname, path = location.pathname.startsWith(at) ? location.pathname.slice(at.length) : "";
    const page = (path === "" || path.endsWith("/") ? path + "index.html" : path).replace(/\.html$/, "");
    const script = load(`../../behind/${page}.js`, () => resolve(window.k3Behind || NOTHING));
    script.addEventListener("error", () => resolve(NOTHING));
  });

  const heads = (table) => [...table.tHead.rows].at(-1).cells;

  // An element's text without the marks and labels in it.
  const words = (element) => {
    const copy = element.cloneNode(true);
    for (const mark of copy.querySelectorAll(".k3-disputed, .k3-label")) mark.remove();
    return copy.textContent.trim();
  };
  // What the card shows: the element itself, or its cell, row and table.
  const facts = (element) => {
    if (element.matches("data")) return { ...element.dataset, value: element.value, shown: words(element), id: element.id };
    if (element.matches("output")) {
      const form = element.closest("form");
      return { ...element.dataset, value: element.textContent, shown: element.textContent, query: form.dataset.query, id: form.id, live: form.dataset.command || "" };
    }
    if (element.matches(".k3-cell")) {
      const list = element.closest("[data-query]");
      return { ...list.dataset, ...element.dataset, shown: words(element), id: (element.closest("[id]") || {}).id };
    }
    const table = element.closest("table");
    const head = heads(table)[element.cellIndex];
    const unit = head.querySelector(".k3-unit");
    // Cell, row or body: the nearest that cites says all there is; nothing is inherited past it.
    const cited = [element, element.closest("tr"), element.closest("tbody")].find((item) => item.dataset.artifacts);
    const measure = unit ? unit.textContent.replace(/[()]/g, "") : "";
    return {
      ...cited.dataset, ...element.dataset, query: table.dataset.query, column: head.dataset.column,
      unit: measure, shown: [words(element), measure].filter(Boolean).join(" "), about: head.title, id: (element.closest("[id]") || {}).id,
    };
  };

  const card = make("div", null, { id: "k3-card", hidden: true });
  card.setAttribute("role", "dialog");
  card.setAttribute("aria-label", "Where this number comes from");
  document.body.append(card);
  let owner = null, pinned = false, timer = 0;

  const row = (list, name, ...items) => {
    const value = make("dd");
    value.append(...items);
    list.append(make("dt", name), value);
  };
  const badge = (tier, basis) => {
    const mark = make("span", basis ? `${tier} from ${basis}` : tier, { className: "k3-tier" });
    mark.dataset.tier = tier;
    return mark;
  };
  const TIERS = {
    measured: "Measured on a real engine; its artifact holds the evidence.", simulated: "From the twin, a simulated cluster: what its model implies, never a measurement.",
    published: "Copied from a publication, as it is printed there.", config: "Read from a recipe or a specification.",
    derived: "Computed from other artifacts, and only as good as the weakest of them.", unverified: "Nothing shows what it ran on.",
  };
  const copier = (label, text) => {
    const button = make("button", label, { type: "button" });
    button.addEventListener("click", async () => {
      try { await navigator.clipboard.writeText(text); button.textContent = "Copied"; }
      catch { window.prompt(label, text); }
    });
    return button;
  };

  // A number cited: no date, since the artifact's seal says which version it is.
  const bibtex = (cited) => {
    const plain = (text) => text.replace(/[\\{}%&#$_~^]/g, (sign) => ({ "\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}" }[sign] || "\\" + sign));
    const fields = { title: plain(cited.title), howpublished: plain(cited.publisher), version: cited.version, note: plain(`${cited.tier}; artifact ${cited.version}`), url: cited.url.replace(/[{}]/g, encodeURIComponent) };
    return `@misc{${cited.id},\n${Object.entries(fields).map(([name, text]) => `  ${name} = {${text}}`).join(",\n")}\n}`;
  };
  const csl = (cited) => ({ id: cited.id, type: "dataset", title: cited.title, publisher: cited.publisher, version: cited.version, note: cited.tier, URL: cited.url });

  const fill = (fact, provenance) => {
    const query = provenance.queries[fact.query] || { sql: "", title: "", labels: {} };
    const shut = make("button", "×", { type: "button", className: "k3-close" });
    shut.setAttribute("aria-label", "Close");
    shut.addEventListener("click", () => { const back = owner; close(); if (back) back.focus({ preventScroll: true }); });
    const full = make("p", fact.shown, { className: "k3-full" });
    card.replaceChildren(shut, full, badge(fact.tier, fact.basis));
    if (fact.relation) {
      const mark = make("span", fact.relation, { className: "k3-relation" });
      mark.dataset.relation = fact.relation;
      card.append(" ", mark);
    }
    const said = [query.labels[fact.column], query.title].filter(Boolean).join(": ");
    if (said) card.append(make("p", said));
    card.append(make("p", fact.live !== undefined ? "Computed in this page from the laws below." : TIERS[fact.tier] || "", { className: "k3-dim" }));
    const list = make("dl");
    if (fact.about) row(list, "formula", fact.about);
    if (fact.value && !fact.shown.replaceAll(",", "").includes(fact.value)) row(list, "in full", fact.value);
    if (fact.n) row(list, "sample", fact.n.replaceAll("=", " "));
    if (fact.disputed) row(list, "contradicted", make("a", "by the document's own numbers", { href: provenance.base + fact.disputed }));
    if (list.children.length) card.append(list);
    const seals = (fact.artifacts || "").split(" ").filter(Boolean), source = make("dl");
    for (const seal of seals.slice(0, 4)) {
      const artifact = provenance.artifacts[seal] || {};
      const link = make("a", `${artifact.name || "artifact"}${artifact.subject ? " · " + artifact.subject : ""}`);
      if (artifact.file) link.href = provenance.base + artifact.file;
      row(source, "artifact", link, " ", make("code", seal.slice(0, 12), { title: seal }));
      if (artifact.evidence) row(source, "evidence", artifact.evidence);
      if (artifact.producer) row(source, "made by", make("code", artifact.producer));
      if (artifact.run_id) row(source, "run", make("code", artifact.run_id));
      if (artifact.data) row(source, "method", make("a", "parameters, inputs and file", { href: `${provenance.base}artifacts.html?q=${artifact.data.slice(0, 12)}` }));
    }
    if (seals.length > 4) row(source, "", `and ${seals.length - 4} more`);
    row(source, "query", make("code", `${fact.query}.${fact.column}`));
    if (fact.where) row(source, "row", make("code", fact.where));
    const command = fact.live || `k3repro artifacts sql "$(cat site/build/queries/${fact.query}.sql)"`;
    const link = fact.live === undefined ? location.href.replace(/#.*$/, "") + "#" + fact.id : location.href;
    const shown = `${fact.value}${fact.unit && !fact.live ? " " + fact.unit : ""}`;
    const cited = {
      id: `k3repro-${fact.id || fact.query}`, url: link, title: `${shown} (${fact.query}.${fact.column})`, publisher: (document.querySelector(".md-header__topic") || {}).innerText || "k3repro",
      version: seals.map((seal) => seal.slice(0, 16)).join(" "), tier: `${fact.tier}${fact.basis ? " from " + fact.basis : ""}`,
    };
    const actions = make("div", null, { className: "k3-actions" }), cites = make("div", null, { className: "k3-actions" });
    actions.append(copier("Copy link", link), copier("Copy command", command));
    cites.append(
      copier("BibTeX", bibtex(cited)),
      copier("CSL-JSON", JSON.stringify([csl(cited)], null, 1)),
      copier("Copy as citation", `${fact.value}${fact.unit ? " " + fact.unit : ""} (${fact.tier}${fact.basis ? " from " + fact.basis : ""}; query ${fact.query}.${fact.column}; artifact ${seals.map((seal) => seal.slice(0, 16)).join(", ")}) ${link}`),
    );
    const fold = make("details"), sql = make("details");
    fold.append(make("summary", "Where it comes from"), source, make("div", "Run it again:"), make("pre", command), cites);
    if (query.sql) { sql.append(make("summary", "SQL"), make("pre", query.sql)); fold.append(sql); }
    fold.open = wide.matches;
    card.append(fold, actions);
  };
  const wide = matchMedia("(min-width: 45em)");

  const place = (element) => {
    const box = element.getBoundingClientRect();
    const width = card.offsetWidth, height = card.offsetHeight;
    const left = Math.max(8, Math.min(box.left, document.documentElement.clientWidth - width - 8));
    const below = box.bottom + height + 12 < window.innerHeight || box.top < height + 12;
    card.style.left = `${left + window.scrollX}px`;
    card.style.top = `${(below ? box.bottom + 6 : box.top - height - 6) + window.scrollY}px`;
  };
  let opening = null;
  const open = (element, pin) => {
    clearTimeout(timer);
    pinned = pin;
    if (owner !== element) { close(); owner = element; pinned = pin; opening = reveal(element); }
    return opening;
  };
  const reveal = async (element) => {
    const provenance = await behind();
    if (owner !== element) return;
    fill(facts(element), provenance);
    card.hidden = false;
    place(element);
    element.setAttribute("aria-expanded", "true");
  };
  const close = () => {
    clearTimeout(timer);
    if (owner) owner.setAttribute("aria-expanded", "false");
    owner = null;
    pinned = false;
    card.hidden = true;
  };
  const later = () => { clearTimeout(timer); if (!pinned) timer = setTimeout(close, 180); };

  const cards = (scope) => {
    // Cells take the focus only where there is a card to open.
    for (const cell of scope.querySelectorAll("td.k3-number[data-value]")) if (cell.closest("table[data-query]") && !cell.querySelector("a[download]")) cell.tabIndex = 0;
    for (const element of scope.querySelectorAll("data.k3-value, td.k3-number[tabindex], .k3-cell[tabindex], output[data-live][tabindex]")) {
      if (!element.matches("td")) element.setAttribute("role", "button");
      element.setAttribute("aria-expanded", "false");
      element.setAttribute("aria-haspopup", "dialog");
      element.addEventListener("pointerenter", (event) => {
        if (event.pointerType === "mouse" && !pinned) { behind(); clearTimeout(timer); timer = setTimeout(() => open(element, false), 120); }
      });
      element.addEventListener("pointerleave", later);
      element.addEventListener("focus", () => { if (element.matches(":focus-visible")) open(element, false); });
      element.addEventListener("blur", (event) => { if (!card.contains(event.relatedTarget)) later(); });
      element.addEventListener("click", () => open(element, true));
      element.addEventListener("keydown", async (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        await open(element, true);
        const first = card.querySelector(".k3-close");
        if (first) first.focus();
      });
    }
  };
  cards(document);
  card.addEventListener("pointerenter", () => clearTimeout(timer));
  card.addEventListener("pointerleave", later);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !card.hidden) { const back = owner; const inside = card.contains(document.activeElement); close(); if (inside && back) back.focus(); }
  });
  document.addEventListener("click", (event) => {
    if (!card.hidden && !card.contains(event.target) && !(owner && owner.contains(event.target))) close();
  });
  window.addEventListener("resize", close);

  // Long tables and trees: what lies beyond the first screen, from the page's data file.
  const parsed = (html) => new DOMParser().parseFromString(html, "text/html").body.firstElementChild;
  const whole = async (table) => {
    const idle = !table.dataset.total || table.dataset.whole;
    if (idle) return;
    table.dataset.whole = "yes";
    const lines = (await behind()).rows[table.closest("[id]").id] || [];
    const added = [...parsed(`<table><tbody>${lines.join("")}</tbody></table>`).rows];
    table.tBodies[0].append(...added);
    cards({ querySelectorAll: (what) => added.flatMap((line) => [...line.querySelectorAll(what)]) });
    table.dispatchEvent(new Event("k3-whole"));
  };
  for (const tree of document.querySelectorAll("ul.k3-tree")) {
    const unfold = async () => {
      if (!tree.dataset.total || tree.dataset.whole) return;
      tree.dataset.whole = "yes";
      const [html] = (await behind()).rows[tree.closest("[id]").id] || [""];
      tree.replaceChildren(...parsed(`<ul>${html}</ul>`).children);
      for (const fold of tree.querySelectorAll("details")) fold.open = true;
      cards(tree);
    };
    for (const fold of tree.querySelectorAll("details")) fold.addEventListener("toggle", unfold);
  }
  // A link to a claim opens it.
  const unfold = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    if (target.matches(".k3-block")) for (const fold of target.querySelectorAll("details")) fold.open = true;
    for (let fold = target.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  };
  addEventListener("hashchange", unfold);
  unfold();

  // Tables: a button in every header sorts by machine value, or by text.
  const key = (cell) => (cell.dataset.value === undefined ? cell.textContent.trim() : Number(cell.dataset.value));
  for (const table of document.querySelectorAll("table[data-query]")) {
    const body = table.tBodies[0];
    if (!body || body.rows.length < 2) continue;
    let original = [...body.rows];
    table.addEventListener("k3-whole", () => { original = [...original, ...[...body.rows].slice(original.length)]; });
    [...heads(table)].forEach((head, index) => {
      const button = make("button", null, { type: "button", className: "k3-sort" });
      button.append(...head.childNodes);
      if (head.title) button.title = head.title; // what takes the focus says how the column is computed
      head.append(button);
      button.addEventListener("click", async () => {
        await whole(table);
        const next = { ascending: "descending", descending: "none" }[head.getAttribute("aria-sort")] || "ascending";
        for (const other of heads(table)) other.removeAttribute("aria-sort");
        if (next !== "none") head.setAttribute("aria-sort", next);
        const sign = next === "descending" ? -1 : 1;
        const compare = (left, right) => {
          const a = key(left.cells[index]), b = key(right.cells[index]);
          return sign * (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", { numeric: true }));
        };
        body.append(...(next === "none" ? original : [...original].sort(compare)));
      });
    });
  }
  // Over a table: a search field and a switch for every badge where it is long, further columns where it is wide. The choice stays in the address.
  let fields = 0;
  const tools = (table) => {
    const bar = make("div", null, { className: "k3-filter" }), shown = make("output");
    const total = Number(table.dataset.total || table.tBodies[0].rows.length);
    if (total >= 12) searchable(table, bar, shown, total);
    if (table.querySelector("th.k3-more")) {
      const button = make("button", "More columns", { type: "button" });
      button.setAttribute("aria-pressed", "false");
      button.addEventListener("click", () => {
        const all = table.classList.toggle("k3-all");
        button.textContent = all ? "Fewer columns" : "More columns";
        button.setAttribute("aria-pressed", String(all));
        scrolls(table.closest(".k3-scroll"));
      });
      bar.append(button);
    }
    shown.setAttribute("aria-live", "polite");
    bar.append(shown);
    if (bar.children.length > 1) (table.closest(".k3-scroll") || table).before(bar);
    if (!table.dataset.total) return;
    const more = make("button", `Show all ${total} rows`, { type: "button", className: "k3-rest" });
    more.addEventListener("click", () => whole(table));
    table.addEventListener("k3-whole", () => more.remove());
    (table.closest(".k3-scroll") || table).after(more);
  };
  const searchable = (table, bar, shown, total) => {
    const number = fields++, chosen = new Set(), parameter = number ? `q${number}` : "q";
    const given = new URLSearchParams(location.search);
    const field = make("input", null, { type: "search", placeholder: "Search", autocomplete: "off", spellcheck: false, value: given.get(parameter) || "" });
    field.setAttribute("aria-label", "Search this table; words narrow it together");
    bar.setAttribute("role", "search");
    bar.setAttribute("aria-label", number ? `Table ${number + 1}` : "Table");
    bar.append(field);
    const apply = async (remember) => {
      const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      if (words.length || chosen.size) await whole(table);
      let count = 0;
      for (const line of table.tBodies[0].rows) {
        const text = line.textContent.toLowerCase(), kinds = [...line.querySelectorAll(".k3-badge")].map((mark) => mark.dataset.badge);
        const fits = words.every((word) => text.includes(word)) && (!chosen.size || kinds.some((kind) => chosen.has(kind)));
        line.hidden = !fits;
        count += fits;
      }
      shown.textContent = words.length || chosen.size ? `${count} of ${total}` : "";
      if (!remember) return;
      const state = new URLSearchParams(location.search);
      for (const [name, value] of [[parameter, field.value.trim()], [`${parameter}-only`, [...chosen].join(" ")]]) {
        if (value) state.set(name, value); else state.delete(name);
      }
      const search = state.toString();
      try { history.replaceState(null, "", location.pathname + (search ? "?" + search : "") + location.hash); } catch { /* some browsers refuse this for files */ }
    };
    field.addEventListener("input", () => apply(true));
    field.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && field.value) { event.preventDefault(); field.value = ""; apply(true); }
    });
    const wanted = (given.get(`${parameter}-only`) || "").split(" ");
    const switches = (kinds) => {
      for (const kind of kinds) if (wanted.includes(kind)) chosen.add(kind);
      field.after(...(kinds.length > 1 ? kinds : []).map((kind) => {
        const button = make("button", kind, { type: "button" });
        button.setAttribute("aria-pressed", String(chosen.has(kind)));
        button.addEventListener("click", () => {
          if (!chosen.delete(kind)) chosen.add(kind);
          button.setAttribute("aria-pressed", String(chosen.has(kind)));
          apply(true);
        });
        return button;
      }));
      if (field.value || chosen.size) apply(false);
    };
    switches(table.dataset.badges ? table.dataset.badges.split("|") : [...new Set([...table.tBodies[0].querySelectorAll(".k3-badge")].map((mark) => mark.dataset.badge))]);
  };

  // What scrolls can be reached by key, under a name of its own.
  const SCROLLS = ".k3-scroll, article pre > code, article table:not([class])";
  const scrolls = (box) => {
    const wide = box && (box.scrollWidth > box.clientWidth || box.scrollHeight > box.clientHeight);
    if (!box || wide === (box.tabIndex === 0)) return;
    const kind = box.matches("code") ? "Code" : "Table", name = `${kind} ${[...document.querySelectorAll(SCROLLS)].indexOf(box) + 1}, scrolls`;
    if (wide) for (const [key, value] of [["tabindex", "0"], ["role", "region"], ["aria-label", name]]) box.setAttribute(key, value);
    else for (const key of ["tabindex", "role", "aria-label"]) box.removeAttribute(key);
  };
  const allScroll = () => document.querySelectorAll(SCROLLS).forEach(scrolls);
  for (const table of document.querySelectorAll("table[data-query]")) if (table.tBodies[0]) tools(table);
  // Whoever goes by key need not pass every cell of a long table.
  for (const links of document.querySelectorAll(".k3-table > .k3-source-links")) {
    const holder = links.parentElement;
    if (holder.querySelectorAll("td[tabindex]").length < 12) continue;
    Object.assign(links, { id: `${holder.id}-after`, tabIndex: -1 });
    holder.prepend(make("a", "Skip this table", { href: `#${links.id}`, className: "k3-skip" }));
  }
  // Without a pointer that hovers, a term is explained when it is tapped.
  if (matchMedia("(hover: none)").matches) for (const term of document.querySelectorAll("abbr[title]")) term.tabIndex = 0;
  allScroll();
  for (const when of ["load", "resize"]) addEventListener(when, allScroll);

  // What only some pages need.
  globalThis.k3 = Object.freeze({ make, load, here, behind });
  load("k3-search.js");
  if (document.querySelector("figure.k3-figure")) load("k3-figures.js");
  if (document.querySelector(".k3-console")) load("k3-console.js");
  if (document.querySelector("form.k3-sizing")) load("k3-sizing.js");
})();
