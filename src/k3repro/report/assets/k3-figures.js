/* Charts drawn live over their static drawings, switches that choose rows and scales, and journeys played step by step. */
(() => {
  "use strict";
  const { make, load } = globalThis.k3;
  const figures = [...document.querySelectorAll("figure.k3-figure")];
  const dark = () => document.body.getAttribute("data-md-color-scheme") === "slate";
  // A dark page: every colour of the theme and of the specification by its counterpart.
  const inDark = (node) => Array.isArray(node) ? node.map(inDark) : node && typeof node === "object" ? Object.fromEntries(Object.entries(node).map(([name, item]) => [name, name === "datasets" ? item : inDark(item)])) : (window.k3Dark || {})[node] || node;
  const shade = (spec) => (dark() ? inDark(spec) : spec);
  const COMPOSED = ["facet", "hconcat", "vconcat", "concat", "repeat"];
  const composed = (spec) => COMPOSED.some((part) => part in spec) || (spec.encoding && ["facet", "row", "column"].some((part) => part in spec.encoding));

  // Switches: rows of one value, a small chart per value, another scale. The rows themselves are never touched.
  const walk = (node, visit) => {
    if (Array.isArray(node)) return node.forEach((item) => walk(item, visit));
    if (!node || typeof node !== "object") return;
    if (node.encoding) visit(node.encoding);
    for (const [key, item] of Object.entries(node)) if (key !== "datasets" && key !== "usermeta") walk(item, visit);
  };
  const APPLY = {
    filter: (spec, { name }, chosen) => {
      if (chosen) spec.datasets.rows = spec.datasets.rows.filter((row) => row[name] === chosen);
    },
    log: (spec, { name }, chosen) => walk(spec, (encoding) => {
      const channel = encoding[name];
      if (!channel || channel.type !== "quantitative") return;
      const { base, constant, exponent, type, ...scale } = channel.scale || {};
      channel.scale = { ...scale, type: chosen ? "log" : "linear", ...(chosen ? {} : { zero: false }) };
    }),
    facet: (spec, { name, label }, chosen, width) => {
      if (!chosen) return;
      const inner = {};
      for (const part of ["mark", "layer", "encoding", "transform", "params"]) if (part in spec) { inner[part] = spec[part]; delete spec[part]; }
      const columns = width > 560 ? 2 : 1;
      inner.width = Math.max(120, Math.floor(width / columns) - 110);
      inner.height = 170;
      delete spec.width; delete spec.height;
      Object.assign(spec, { facet: { field: name, type: "nominal", title: label }, columns, spec: inner });
    },
  };
  const isLog = (spec, name) => {
    let found = false;
    walk(spec, (encoding) => { if (encoding[name] && encoding[name].scale && encoding[name].scale.type === "log") found = true; });
    return found;
  };
  const state = new Map();
  const switches = (figure, spec) => {
    const made = (spec.usermeta && spec.usermeta.switches) || [];
    const chosen = made.map(({ kind, name }) => (kind === "log" ? isLog(spec, name) : kind === "facet" ? false : ""));
    state.set(figure, { made, chosen });
    if (!made.length) return;
    const bar = make("div", null, { className: "k3-switches" });
    bar.setAttribute("role", "group");
    bar.setAttribute("aria-label", "What this chart shows");
    made.forEach(({ kind, name, label }, index) => {
      if (kind === "filter") {
        const field = make("label", label + " "), select = make("select");
        select.append(make("option", "all", { value: "" }));
        for (const value of new Set(spec.datasets.rows.map((row) => row[name]))) if (value !== null) select.append(make("option", value, { value }));
        select.addEventListener("change", () => { chosen[index] = select.value; drawOne(figure); });
        field.append(select);
        bar.append(field);
        return;
      }
      const button = make("button", kind === "facet" ? `side by side: ${label}` : label, { type: "button" });
      button.setAttribute("aria-pressed", String(chosen[index]));
      button.addEventListener("click", () => {
        chosen[index] = !chosen[index];
        button.setAttribute("aria-pressed", String(chosen[index]));
        drawOne(figure);
      });
      bar.append(button);
    });
    figure.querySelector(".k3-chart").before(bar);
  };

  const views = new Map();
  const exports = (figure) => {
    const links = figure.querySelector(".k3-source-links");
    const explore = links && links.querySelector(".k3-explore");
    if (explore) explore.remove();
    for (const kind of links ? ["svg", "png"] : []) {
      const button = make("button", `Save as ${kind.toUpperCase()}`, { type: "button" });
      button.addEventListener("click", async () => {
        const url = await views.get(figure).result.view.toImageURL(kind, kind === "png" ? 2 : 1);
        make("a", null, { href: url, download: `${figure.dataset.figure}.${kind}` }).click();
      });
      links.append(button);
    }
  };
  const specOf = (figure) => JSON.parse(figure.querySelector("script.k3-spec").textContent);
  const embed = async (figure) => {
    const spec = specOf(figure);
    const box = figure.querySelector(".k3-chart");
    const { made, chosen } = state.get(figure);
    made.forEach((item, index) => {
      const changed = item.kind !== "log" || chosen[index] !== isLog(spec, item.name);
      if (changed) APPLY[item.kind](spec, item, chosen[index], box.clientWidth);
    });
    // A layer that no row is left for would only make Vega complain.
    const rows = spec.datasets.rows;
    const idle = (layer) => (layer.transform || []).some(({ filter }) => filter && "equal" in filter && !rows.some((row) => row[filter.field] === filter.equal));
    if (spec.layer && !spec.layer.every(idle)) spec.layer = spec.layer.filter((layer) => !idle(layer));
    const target = views.has(figure) ? views.get(figure).element : make("div");
    if (views.has(figure) && views.get(figure).result) views.get(figure).result.finalize();
    if (!target.isConnected) box.append(target);
    if (!composed(spec)) {
      // Vega-Lite complains about a height in steps beside a width that fits, so the same height is given in pixels.
      const y = (spec.encoding || ((spec.layer || [])[0] || {}).encoding || {}).y || {}, step = spec.height === undefined ? 20 : spec.height.step;
      if (step && ["nominal", "ordinal"].includes(y.type)) spec.height = step * Math.max(1, new Set(spec.datasets.rows.map((row) => row[y.field])).size);
      spec.width = "container";
      spec.autosize = { type: "fit-x", contains: "padding" };
      // The fit knows axes and legends, not marks at the edge or what is written right of them.
      const named = (spec.layer || []).some(({ mark, encoding: { x } = {} }) => (mark && mark.type === "text" && mark.align === "left") || (x && x.axis && x.axis.labelAngle < 0));
      spec.padding = { left: 5, top: 8, right: named ? 46 : 9, bottom: 5 };
    }
    if (spec.facet && spec.columns && box.clientWidth < 560) spec.columns = 1;
    // Numbers inside marks shrink with them: those of a cell further than those of a bar.
    if (box.clientWidth < 450) for (const { mark, encoding: { x } = {} } of spec.layer || []) if (mark && mark.type === "text" && mark.align !== "left") mark.fontSize = x && x.type === "nominal" ? 7 : 9;
    const look = shade(structuredClone(window.k3Theme || {}));
    if (box.clientWidth < 450) look.legend = { ...look.legend, direction: "vertical", columns: 1, labelLimit: box.clientWidth - 40 };
    const result = await window.vegaEmbed(target, shade(spec), {
      renderer: "svg", ast: true, config: look, tooltip: true, mode: "vega-lite", actions: false,
    });
    if (!views.has(figure)) exports(figure);
    views.set(figure, { element: target, result });
    const still = box.querySelector(".k3-static");
    if (still) still.hidden = true;
    figure.dispatchEvent(new Event("k3-drawn"));
  };
  // The drawing stands by itself; it comes alive when a reader points at it, turns a switch, or holds a narrow screen.
  let engine = null;
  const vega = () => engine ||= new Promise((resolve) => load("vega.js", resolve));
  const queue = new Map();
  // One drawing of a figure at a time: a switch turned twice must not leave two charts.
  const drawOne = (figure) => {
    const next = (queue.get(figure) || Promise.resolve()).then(vega).then(() => embed(figure))
      .catch((error) => console.warn("k3: chart stays static", error));
    queue.set(figure, next);
    return next;
  };
  const wake = (figure) => { if (!queue.has(figure)) drawOne(figure); };
  const sleeping = (figure) => {
    for (const event of ["pointerenter", "focusin", "touchstart"]) figure.querySelector(".k3-chart").addEventListener(event, () => wake(figure), { once: true, passive: true });
    const links = figure.querySelector(".k3-source-links"), explore = make("button", "Explore this chart", { type: "button", className: "k3-explore" });
    explore.addEventListener("click", () => wake(figure));
    if (links) links.append(explore);
    const still = figure.querySelector(".k3-static svg");
    if (still && figure.clientWidth < .75 * Number(still.getAttribute("width"))) near.observe(figure);
  };
  const near = new IntersectionObserver((seen) => {
    for (const entry of seen) if (entry.isIntersecting) { near.unobserve(entry.target); wake(entry.target); }
  }, { rootMargin: "300px" });
  let drawn = dark();
  const redraw = () => {
    if (drawn === dark()) return; // the theme sets the attribute more than once while it starts
    drawn = dark();
    [...queue.keys()].forEach(drawOne);
  };
  globalThis.k3Figures = Object.freeze({ drawAll: () => Promise.all(figures.map(drawOne)) });

  // Journeys: the list of steps becomes a player. It starts when asked to, and never moves by itself for those who prefer stillness.
  const journey = (figure) => {
    const list = figure.querySelector("ol.k3-steps");
    const steps = list ? [...list.children] : [];
    if (!steps.length) return;
    const still = matchMedia("(prefers-reduced-motion: reduce)");
    const stages = [...new Set(steps.map((step) => step.dataset.stage))];
    const acts = [...new Set(steps.map((step) => step.dataset.act))];
    const strip = (names, className, label) => {
      const row = make("ol", null, { className });
      row.setAttribute("aria-label", label);
      row.append(...names.map((name) => make("li", name)));
      return row;
    };
    const actRow = strip(acts, "k3-acts", "Acts"), stageRow = strip(stages, "k3-stages", "Where the request is");
    const bar = make("div", null, { className: "k3-player" });
    bar.setAttribute("role", "group");
    bar.setAttribute("aria-label", "Steps of the journey");
    const back = make("button", "Back", { type: "button" }), play = make("button", "Play", { type: "button" }), next = make("button", "Next", { type: "button" });
    const all = make("button", "All steps", { type: "button" });
    let at = 0, timer = 0, whole = false;
    const mark = (row, names, current) => [...row.children].forEach((item, index) => {
      item.classList.toggle("k3-done", index < names.indexOf(current));
      if (names[index] === current) item.setAttribute("aria-current", "step"); else item.removeAttribute("aria-current");
    });
    const dim = () => {
      // Marks stand in the order of the rows: those of later steps wait.
      for (const group of figure.querySelectorAll(".k3-chart .role-mark")) {
        const marks = [...group.children].filter((item) => item.tagName === "path" || item.tagName === "text");
        if (marks.length !== steps.length) continue;
        marks.forEach((item, index) => { item.style.opacity = whole || index <= at ? "" : ".3"; });
      }
    };
    const show = (index) => {
      at = Math.max(0, Math.min(steps.length - 1, index));
      steps.forEach((step, number) => { step.hidden = !whole && number !== at; });
      mark(actRow, acts, steps[at].dataset.act);
      mark(stageRow, stages, steps[at].dataset.stage);
      back.disabled = whole || at === 0;
      next.disabled = whole || at === steps.length - 1;
      all.setAttribute("aria-pressed", String(whole));
      dim();
    };
    const stop = () => { clearTimeout(timer); timer = 0; play.textContent = "Play"; list.setAttribute("aria-live", "polite"); };
    const tick = () => {
      if (at === steps.length - 1) return stop();
      show(at + 1);
      timer = setTimeout(tick, 1400 + 28 * steps[at].textContent.length);
    };
    play.addEventListener("click", () => {
      if (timer) return stop();
      whole = false;
      show(at === steps.length - 1 ? 0 : at);
      play.textContent = "Pause";
      list.setAttribute("aria-live", "off"); // a reader who plays sees every step; one who steps hears each
      timer = setTimeout(tick, 1400);
    });
    back.addEventListener("click", () => { stop(); show(at - 1); });
    next.addEventListener("click", () => { stop(); show(at + 1); });
    all.addEventListener("click", () => { stop(); whole = !whole; show(at); });
    bar.addEventListener("keydown", (event) => {
      const turn = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (turn) { event.preventDefault(); stop(); show(at + turn); }
    });
    document.addEventListener("visibilitychange", () => { if (document.hidden) stop(); });
    addEventListener("beforeprint", () => { stop(); whole = true; show(at); });
    addEventListener("afterprint", () => { whole = false; show(at); });
    figure.addEventListener("k3-drawn", dim);
    if (still.matches) figure.classList.add("k3-still");
    bar.append(back, play, next, all);
    list.before(actRow, stageRow, bar);
    list.setAttribute("aria-live", "polite");
    show(0);
  };

  for (const figure of figures) { switches(figure, specOf(figure)); journey(figure); sleeping(figure); }
  new MutationObserver(redraw).observe(document.body, { attributes: true, attributeFilter: ["data-md-color-scheme"] });
})();
