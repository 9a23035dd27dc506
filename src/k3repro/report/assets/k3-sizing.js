/* Sizing in the page: a workload is rounded up to the simulated grid, and the cheapest row within the limits wins,
   as k3repro.sizing chooses. */
(() => {
  "use strict";
  const METRICS = { ttft: ["ttft_s", "s"], tpot: ["tpot_ms", "ms"], e2e: ["e2e_s", "s"] };
  const up = (axis, value) => axis.find((point) => point >= value) ?? null;

  // data: axes, columns, points by platform, and the words that coded columns count; asked: isl, osl, users, ttft, tpot, e2e (null: no limit), percentile.
  const choose = (data, platform, asked) => {
    const point = {};
    for (const name of ["isl", "osl", "users"]) {
      point[name] = up(data.axes[name], asked[name]);
      if (point[name] === null) return { point: null, row: null, verdict: "outside", beyond: name };
    }
    const column = Object.fromEntries(data.columns.map((name, index) => [name, index]));
    const limits = Object.keys(METRICS).filter((name) => asked[name] !== null && asked[name] !== undefined);
    const value = (row, name) => row[column[`${METRICS[name][0]}_${asked.percentile}`]];
    const rank = (row) => [row[column.nodes], -row[column.tokens_per_s], row[column.max_num_seqs], row[column.prefill_pools]];
    const before = (a, b) => { const x = rank(a), y = rank(b); for (let i = 0; i < 4; i++) if (x[i] !== y[i]) return x[i] - y[i]; return 0; };
    const rows = [...(data.points[platform][`${point.isl}/${point.osl}/${point.users}`] ?? [])].sort(before);
    const row = rows.find((one) => limits.every((name) => value(one, name) <= asked[name])) ?? null;
    if (!row) return { point, row: null, verdict: "no", best: rows.length ? Object.fromEntries(limits.map((name) => [name, Math.min(...rows.map((one) => value(one, name)))])) : {} };
    const coded = new Set(data.coded);
    const found = Object.fromEntries(data.columns.map((name, index) => [name, coded.has(name) ? data.words[row[index]] : row[index]]));
    const unknown = limits.filter((name) => found[`${name}_error`] === null);
    const tight = limits.reduce((best, name) => (best === null || value(row, name) / asked[name] > value(row, best) / asked[best] ? name : best), null);
    const binds = tight === "tpot" ? "decode" : tight === "ttft" ? found.binds_ttft : found.binds_e2e;
    return { point, row: found, verdict: unknown.length ? "unknown" : "yes", unknown, binds };
  };
  globalThis.k3Sizing = Object.freeze({ choose });
  if (typeof document === "undefined") return;

  const plain = (number, digits = 0) => number.toLocaleString("en-US", { maximumFractionDigits: digits });
  const short = (number) => plain(Number(number.toPrecision(3)), 2);
  const minutes = (seconds) => (seconds < 120 ? "" : seconds < 7200 ? `, ${plain(seconds / 60)} minutes` : `, ${plain(seconds / 3600, 1)} hours`);
  const number = (text) => {
    const match = /^\s*([\d,]*\.?\d+|\d[\d,]*\.?)\s*([kKM]?)\s*$/.exec(text);
    return match ? Number(match[1].replaceAll(",", "")) * { "": 1, k: 1e3, K: 1e3, M: 1e6 }[match[2]] : NaN;
  };
  const WHOLE = new Set(["isl", "osl", "users"]);
  const NAMES = { isl: "prompt", osl: "reply", users: "users" };
  const problem = (name, value, data) => {
    if (Number.isNaN(value)) return "Write a number, for example 200K.";
    if (!(value > 0)) return "More than zero, please.";
    if (WHOLE.has(name) && !Number.isInteger(value)) return "A whole number, please.";
    const most = WHOLE.has(name) ? data.axes[name].at(-1) : 1e7;
    return value > most ? (WHOLE.has(name) ? `Simulated up to ${plain(most)}; the command line goes further.` : "Beyond any limit.") : "";
  };
  const svg = (name, attributes, text) => {
    const item = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) item.setAttribute(key, value);
    if (text !== undefined) item.textContent = text;
    return item;
  };
  const steps = (data, asked, platforms) => {
    const users = data.axes.users, width = 640, height = 230, left = 46, bottom = 36, top = 26;
    const lines = platforms.map((name) => users.map((count) => choose(data, name, { ...asked, users: count }).row?.nodes ?? null));
    const most = Math.max(4, ...lines.flat().filter((value) => value !== null));
    const x = (index) => left + (index * (width - left - 90)) / (users.length - 1), y = (value) => top + (1 - value / most) * (height - top - bottom);
    const drawing = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Nodes against users: ${platforms.map((name, k) => `${name.toUpperCase()} ${users.map((count, i) => `${count}: ${lines[k][i] ?? "none"}`).join(", ")}`).join("; ")}` });
    for (const tick of [0, Math.round(most / 2), most]) {
      drawing.append(svg("line", { x1: left, x2: width - 90, y1: y(tick), y2: y(tick), class: "k3-grid-line" }), svg("text", { x: left - 6, y: y(tick) + 4, "text-anchor": "end" }, plain(tick)));
    }
    users.forEach((count, index) => drawing.append(svg("text", { x: x(index), y: height - bottom + 16, "text-anchor": "middle" }, plain(count))));
    drawing.append(svg("text", { x: left - 34, y: top - 12 }, "nodes"), svg("text", { x: (left + width - 90) / 2, y: height - 4, "text-anchor": "middle" }, "users"));
    platforms.forEach((name, k) => {
      let path = "", last = null, end = null;
      lines[k].forEach((value, index) => {
        if (value === null) { last = null; return; }
        path += last === null ? `M${x(index)},${y(value)}` : `V${y(value)}H${x(index)}`;
        end = last = [x(index), y(value)];
      });
      drawing.append(svg("path", { d: path, class: `k3-step k3-step-${k}`, fill: "none" }));
      if (end) drawing.append(svg("text", { x: end[0] + 8, y: end[1] + 4 + 12 * k, class: `k3-step-label k3-step-${k}` }, name.toUpperCase()));
    });
    return drawing;
  };

  const fill = (form) => {
    const data = window.k3Grids[form.dataset.query], platforms = Object.keys(data.points);
    const fields = [...form.elements].filter((item) => item.name);
    form.querySelector("p").remove();
    const DEFAULTS = { isl: "200K", osl: "256", users: "32", ttft: "600", e2e: "", tpot: "" };
    const read = () => {
      const asked = { percentile: "p95" };
      let wrong = false;
      for (const input of fields) {
        if (input.tagName === "SELECT") { asked[input.name] = input.value; continue; }
        const empty = !input.required && !input.value.trim();
        asked[input.name] = empty ? null : number(input.value);
        const why = empty ? "" : problem(input.name, asked[input.name], data);
        form.querySelector(`[data-live="problem-${input.name}"]`).textContent = why;
        input.toggleAttribute("aria-invalid", Boolean(why));
        wrong ||= Boolean(why);
      }
      return wrong ? null : asked;
    };
    const band = (row, name, percentile) => {
      const [quantity, unit] = METRICS[name], value = row[`${quantity}_${percentile}`], error = row[`${name}_error`];
      const range = error === null ? "error unknown" : `${short(value / (1 + error))} to ${short(value / Math.max(0.05, 1 - error))} ${unit} with the twin's median error`;
      return `${short(value)} ${unit}${unit === "s" ? minutes(value) : ""} (${range})`;
    };
    const texts = (name, asked, got) => {
      const none = { nodes: "–", verdict: "", shape: "", ttft: "", tpot: "", e2e: "", rate: "", binds: "", cost: "", reason: "" };
      if (!got.row) {
        const best = Object.entries(got.best ?? {}).map(([metric, value]) => `${metric.toUpperCase()} ${short(value)} ${METRICS[metric][1]}`).join(", ");
        return { ...none, verdict: "no", reason: got.point ? `Nothing on the grid keeps these limits${best ? `; the quickest is ${best}` : ": a request this long does not fit"}.` : "" };
      }
      const row = got.row, price = asked[`price_${name}`];
      return {
        nodes: plain(row.nodes),
        verdict: Object.keys(METRICS).every((metric) => asked[metric] === null) ? "memory fits; say how long the first token may take to size for speed" : got.verdict === "yes" ? "yes: memory fits, latency simulated" : `unknown: memory fits, and nothing printed says how wrong the simulated ${got.unknown.map((metric) => metric.toUpperCase()).join(" and ")} may be`,
        shape: `${2 * row.prefill_pools} prefill and ${2 * row.decode_pools} decode nodes, ${row.max_num_seqs} slots a DP rank`,
        ttft: band(row, "ttft", asked.percentile), tpot: band(row, "tpot", asked.percentile), e2e: band(row, "e2e", asked.percentile),
        rate: `${short(row.tokens_per_s)} tokens/s, of them ${short(row.out_tokens_per_s)} output`,
        binds: got.binds, cost: price === null || price === undefined ? "" : `$${plain(row.nodes * price, 2)}`, reason: "",
      };
    };
    const command = (asked, point) => {
      const goals = Object.keys(METRICS).filter((name) => asked[name] !== null).map((name) => ` --${name} ${asked[name]}@${asked.percentile}`).join("");
      return `k3repro capacity size --isl ${point.isl} --osl ${point.osl} --users ${point.users}${goals} --max-nodes 32`;
    };
    const refresh = (remember) => {
      const asked = read(), said = {};
      const got = asked ? platforms.map((name) => choose(data, name, asked)) : [];
      platforms.forEach((name, k) => {
        const found = asked ? texts(name, asked, got[k]) : {};
        for (const output of form.querySelectorAll(`section[data-platform="${name}"] output`)) {
          output.textContent = found[output.dataset.live.slice(name.length + 1)] ?? "–";
          const line = output.closest("dl > div");
          if (line) line.hidden = !output.textContent;
        }
      });
      const point = got[0]?.point ?? null;
      said.rounded = point && ["isl", "osl", "users"].some((name) => point[name] !== asked[name]) ? `Simulated for the next point of the grid: ${["isl", "osl", "users"].map((name) => `${NAMES[name]} ${plain(point[name])}`).join(", ")}. The same answer:` : point ? "The same answer:" : "";
      said.command = point ? command(asked, point) : "";
      for (const [name, text] of Object.entries(said)) form.querySelector(`[data-live="${name}"]`).textContent = text;
      form.querySelector("figure.k3-steps").replaceChildren(...(point ? [steps(data, asked, platforms)] : []));
      if (!remember) return;
      const state = new URLSearchParams(fields.map((input) => [input.name, input.value]).filter(([, value]) => value));
      try { history.replaceState(null, "", `${location.pathname}${location.search}#${form.id}?${state}`); } catch { /* some browsers refuse this for files */ }
    };
    const restore = () => {
      const [id, query] = decodeURI(location.hash.slice(1)).split("?");
      const state = new URLSearchParams(id === form.id ? query : "");
      for (const input of fields) if (state.has(input.name)) input.value = state.get(input.name);
    };
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("input", () => refresh(true));
    addEventListener("hashchange", () => { restore(); refresh(false); });
    for (const input of fields) if (input.tagName === "INPUT") input.value = DEFAULTS[input.name] ?? "";
    restore();
    refresh(false);
  };

  // The grid comes when a form does into view, or when the address asks it something.
  const { load } = globalThis.k3, woken = new Map();
  const wake = (form) => {
    if (!woken.has(form)) woken.set(form, new Promise((resolve) => load(`../../behind/grid/${form.dataset.query}.js`, () => { fill(form); resolve(); })));
    return woken.get(form);
  };
  const forms = [...document.querySelectorAll("form.k3-sizing")];
  const near = new IntersectionObserver((seen) => {
    for (const entry of seen) if (entry.isIntersecting) { near.unobserve(entry.target); wake(entry.target); }
  }, { rootMargin: "300px" });
  for (const form of forms) if (location.hash.startsWith(`#${form.id}?`)) wake(form); else near.observe(form);
  globalThis.k3Forms = Object.freeze({ wakeAll: () => Promise.all(forms.map(wake)) });
})();
