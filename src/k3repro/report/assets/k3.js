/* k3repro: cards under numbers, tables to sort, search and filter, charts. No network, no eval, text only through textContent. */
(() => {
  "use strict";
  const make = (tag, text, properties) => {
    const element = Object.assign(document.createElement(tag), properties || {});
    if (text !== undefined && text !== null) element.textContent = text;
    return element;
  };
  const here = document.currentScript.src.replace(/k3\.js$/, "");
  const script = document.querySelector("script.k3-provenance");
  const provenance = script ? JSON.parse(script.textContent) : { queries: {}, artifacts: {}, base: "" };

  // What the card shows: the element itself, or its cell, row and table.
  const facts = (element) => {
    if (element.matches("data")) return { ...element.dataset, value: element.value, id: element.id };
    if (element.matches("output")) {
      const form = element.closest("form");
      return { ...element.dataset, value: element.textContent, query: form.dataset.query, id: form.id, live: form.dataset.command || "" };
    }
    if (element.matches(".k3-cell")) {
      const list = element.closest("[data-query]");
      return { ...list.dataset, ...element.dataset, id: (element.closest("[id]") || {}).id };
    }
    const table = element.closest("table");
    const head = table.tHead.rows[0].cells[element.cellIndex];
    const unit = head.querySelector(".k3-unit");
    // Cell, row or body: the nearest that cites says all there is; nothing is inherited past it.
    const cited = [element, element.closest("tr"), element.closest("tbody")].find((item) => item.dataset.artifacts);
    return {
      ...cited.dataset, ...element.dataset, query: table.dataset.query, column: head.dataset.column,
      unit: unit ? unit.textContent.replace(/[()]/g, "") : "", about: head.title, id: (element.closest("[id]") || {}).id,
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

  const fill = (fact) => {
    card.replaceChildren();
    card.append(make("p", `${fact.value}${fact.unit && !fact.value.endsWith(fact.unit) ? " " + fact.unit : ""}`, { className: "k3-full" }), badge(fact.tier, fact.basis));
    if (fact.relation) {
      const mark = make("span", fact.relation, { className: "k3-relation" });
      mark.dataset.relation = fact.relation;
      card.append(" ", mark);
    }
    const list = make("dl");
    if (fact.about) row(list, "formula", fact.about);
    if (fact.live !== undefined) row(list, "answer", "computed in this page from the laws below");
    else row(list, "sample", fact.n ? fact.n.replaceAll("=", " ") : "not stated by the query");
    const seals = (fact.artifacts || "").split(" ").filter(Boolean);
    for (const seal of seals.slice(0, 4)) {
      const artifact = provenance.artifacts[seal] || {};
      const link = make("a", `${artifact.name || "artifact"}${artifact.subject ? " · " + artifact.subject : ""}`);
      if (artifact.file) link.href = provenance.base + artifact.file;
      row(list, "artifact", link, " ", make("code", seal.slice(0, 12), { title: seal }));
      if (artifact.evidence) row(list, "evidence", artifact.evidence);
      if (artifact.run_id) row(list, "run", make("code", artifact.run_id));
      if (artifact.data) row(list, "digest", make("code", artifact.data.slice(0, 16), { title: artifact.data }));
    }
    if (seals.length > 4) row(list, "", `and ${seals.length - 4} more`);
    row(list, "query", make("code", `${fact.query}.${fact.column}`));
    if (fact.where) row(list, "row", make("code", fact.where));
    card.append(list);
    const sql = provenance.queries[fact.query];
    if (sql) {
      const fold = make("details");
      fold.append(make("summary", "SQL"), make("pre", sql));
      card.append(fold);
    }
    const command = fact.live || `k3repro artifacts sql "$(cat site/build/queries/${fact.query}.sql)"`;
    const link = fact.live === undefined ? location.href.replace(/#.*$/, "") + "#" + fact.id : location.href;
    const shown = `${fact.value}${fact.unit && !fact.live ? " " + fact.unit : ""}`;
    const cited = {
      id: `k3repro-${fact.id || fact.query}`, url: link, title: `${shown} (${fact.query}.${fact.column})`, publisher: (document.querySelector(".md-header__topic") || {}).innerText || "k3repro",
      version: seals.map((seal) => seal.slice(0, 16)).join(" "), tier: `${fact.tier}${fact.basis ? " from " + fact.basis : ""}`,
    };
    const actions = make("div", null, { className: "k3-actions" });
    actions.append(
      copier("Copy link", link),
      copier("BibTeX", bibtex(cited)),
      copier("CSL-JSON", JSON.stringify([csl(cited)], null, 1)),
      copier("Copy as citation", `${fact.value}${fact.unit ? " " + fact.unit : ""} (${fact.tier}${fact.basis ? " from " + fact.basis : ""}; query ${fact.query}.${fact.column}; artifact ${seals.map((seal) => seal.slice(0, 16)).join(", ")}) ${link}`),
      copier("Copy command", command),
    );
    const reproduce = make("pre", command);
    card.append(make("div", "Run it again:"), reproduce, actions);
  };

  const place = (element) => {
    const box = element.getBoundingClientRect();
    const width = card.offsetWidth, height = card.offsetHeight;
    const left = Math.max(8, Math.min(box.left, document.documentElement.clientWidth - width - 8));
    const below = box.bottom + height + 12 < window.innerHeight || box.top < height + 12;
    card.style.left = `${left + window.scrollX}px`;
    card.style.top = `${(below ? box.bottom + 6 : box.top - height - 6) + window.scrollY}px`;
  };
  const open = (element, pin) => {
    clearTimeout(timer);
    pinned = pin;
    if (owner === element && !card.hidden) return;
    close();
    owner = element;
    pinned = pin;
    fill(facts(element));
    card.hidden = false;
    place(element);
    element.setAttribute("aria-expanded", "true");
    element.after(card.ownerDocument.createTextNode(""));
  };
  const close = () => {
    clearTimeout(timer);
    if (owner) owner.setAttribute("aria-expanded", "false");
    owner = null;
    pinned = false;
    card.hidden = true;
  };
  const later = () => { clearTimeout(timer); if (!pinned) timer = setTimeout(close, 180); };

  // Cells take the focus only where there is a card to open.
  for (const cell of document.querySelectorAll("table[data-query] td.k3-number[data-value]")) if (!cell.querySelector("a[download]")) cell.tabIndex = 0;
  for (const element of document.querySelectorAll("data.k3-value, table[data-query] td.k3-number[tabindex], .k3-cell[tabindex], output[data-live][tabindex]")) {
    if (!element.matches("td")) element.setAttribute("role", "button");
    element.setAttribute("aria-expanded", "false");
    element.setAttribute("aria-haspopup", "dialog");
    element.addEventListener("pointerenter", (event) => {
      if (event.pointerType === "mouse" && !pinned) { clearTimeout(timer); timer = setTimeout(() => open(element, false), 120); }
    });
    element.addEventListener("pointerleave", later);
    element.addEventListener("focus", () => { if (element.matches(":focus-visible")) open(element, false); });
    element.addEventListener("blur", (event) => { if (!card.contains(event.relatedTarget)) later(); });
    element.addEventListener("click", () => open(element, true));
    element.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); open(element, true); const first = card.querySelector("button, a, summary"); if (first) first.focus(); }
    });
  }
  card.addEventListener("pointerenter", () => clearTimeout(timer));
  card.addEventListener("pointerleave", later);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !card.hidden) { const back = owner; const inside = card.contains(document.activeElement); close(); if (inside && back) back.focus(); }
  });
  document.addEventListener("click", (event) => {
    if (!card.hidden && !card.contains(event.target) && !(owner && owner.contains(event.target))) close();
  });
  window.addEventListener("resize", close);

  // Tables: a button in every header sorts by machine value, or by text.
  const key = (cell) => (cell.dataset.value === undefined ? cell.textContent.trim() : Number(cell.dataset.value));
  for (const table of document.querySelectorAll("table[data-query]")) {
    const body = table.tBodies[0];
    if (!body || body.rows.length < 2) continue;
    const original = [...body.rows];
    [...table.tHead.rows[0].cells].forEach((head, index) => {
      const button = make("button", null, { type: "button", className: "k3-sort" });
      button.append(...head.childNodes);
      if (head.title) button.title = head.title; // what takes the focus says how the column is computed
      head.append(button);
      button.addEventListener("click", () => {
        const next = { ascending: "descending", descending: "none" }[head.getAttribute("aria-sort")] || "ascending";
        for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
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
  // Long tables: a search field, and a switch for every badge that a column shows. The choice stays in the address.
  const filterable = [...document.querySelectorAll("table[data-query]")].filter((table) => table.tBodies[0] && table.tBodies[0].rows.length >= 12);
  filterable.forEach((table, number) => {
    const rows = [...table.tBodies[0].rows].map((row) => ({
      row, text: row.textContent.toLowerCase(), badges: [...row.querySelectorAll(".k3-badge")].map((badge) => badge.dataset.badge),
    }));
    const kinds = [...new Set(rows.flatMap((item) => item.badges))];
    const chosen = new Set();
    const bar = make("div", null, { className: "k3-filter" });
    bar.setAttribute("role", "search");
    const field = make("input", null, { type: "search", placeholder: "Search", autocomplete: "off", spellcheck: false });
    field.setAttribute("aria-label", "Search this table; words narrow it together");
    const shown = make("output");
    const parameter = number ? `q${number}` : "q";
    const apply = (remember) => {
      const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      let count = 0;
      for (const item of rows) {
        const fits = words.every((word) => item.text.includes(word)) && (!chosen.size || item.badges.some((kind) => chosen.has(kind)));
        item.row.hidden = !fits;
        count += fits;
      }
      shown.textContent = words.length || chosen.size ? `${count} of ${rows.length}` : "";
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
    bar.append(field);
    const given = new URLSearchParams(location.search);
    field.value = given.get(parameter) || "";
    for (const kind of (given.get(`${parameter}-only`) || "").split(" ")) if (kinds.includes(kind)) chosen.add(kind);
    for (const kind of kinds.length > 1 ? kinds : []) {
      const button = make("button", kind, { type: "button" });
      button.setAttribute("aria-pressed", String(chosen.has(kind)));
      button.addEventListener("click", () => {
        if (!chosen.delete(kind)) chosen.add(kind);
        button.setAttribute("aria-pressed", String(chosen.has(kind)));
        apply(true);
      });
      bar.append(button);
    }
    shown.setAttribute("aria-live", "polite");
    bar.append(shown);
    (table.closest(".k3-scroll") || table).before(bar);
    apply(false);
  });

  for (const box of document.querySelectorAll(".k3-scroll")) {
    if (box.scrollWidth > box.clientWidth) {
      box.tabIndex = 0;
      box.setAttribute("role", "region");
      box.setAttribute("aria-label", "Table, scrolls sideways");
    }
  }

  // What only some pages need.
  const load = (name, then) => {
    const element = make("script", null, { src: here + name, async: true });
    if (then) element.addEventListener("load", then);
    document.head.append(element);
  };
  globalThis.k3 = Object.freeze({ make, load, here });
  load("k3-search.js");
  if (document.querySelector("figure.k3-figure")) load("k3-figures.js");
  if (document.querySelector(".k3-console")) load("k3-console.js");
  if (document.querySelector("form.k3-calculator")) load("k3-law.js", () => load("k3-calculator.js"));
})();
