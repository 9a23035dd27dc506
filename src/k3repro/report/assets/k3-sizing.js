/* Sizing in the page: at a simulated workload the cheapest row within the limits wins, as k3repro.sizing chooses. Between simulated
   workloads there is no answer, only those of the neighbours: neither more users, longer prompts nor longer replies are the safe side. */
(() => {
  "use strict";
  const METRICS = { ttft: ["ttft_s", "s"], tpot: ["tpot_ms", "ms"], e2e: ["e2e_s", "s"] };
  const AXES = ["isl", "osl", "users"];
  const around = (value, factor) => [value / factor, value * factor];
  const VERDICTS = ["fits", "yes", "likely", "possible", "unknown", "no"];

  // The simulated points on either side of a value, or the value alone where it is one; none beyond the axis.
  const beside = (axis, value) => {
    const above = axis.findIndex((point) => point >= value);
    return axis[above] === value ? [value] : above > 0 ? axis.slice(above - 1, above + 1) : [];
  };

  // data: axes, columns, points by platform, and the words that coded columns count; asked: isl, osl, users, ttft, tpot, e2e (null: no limit), percentile.
  // verdict: of the row of fewest nodes within the limits; `surer`: rows of more nodes, each surer than those before; between: `neighbours` have an answer each; outside: `beyond` names an axis.
  const choose = (data, platform, asked) => {
    const points = AXES.reduce((found, name) => found.flatMap((point) => beside(data.axes[name], asked[name]).map((value) => ({ ...point, [name]: value }))), [{}]);
    if (!points.length) return { verdict: "outside", row: null, beyond: AXES.filter((name) => !beside(data.axes[name], asked[name]).length) };
    if (points.length > 1) return { verdict: "between", row: null, neighbours: points.map((point) => ({ ...point, ...at(data, platform, point, asked) })) };
    return at(data, platform, points[0], asked);
  };
  const at = (data, platform, point, asked) => {
    const column = Object.fromEntries(data.columns.map((name, index) => [name, index]));
    const limits = Object.keys(METRICS).filter((name) => asked[name] !== null && asked[name] !== undefined);
    const value = (row, name) => row[column[`${METRICS[name][0]}_${asked.percentile}`]];
    const tightest = (row) => limits.reduce((best, name) => (best === null || value(row, name) / asked[name] > value(row, best) / asked[best] ? name : best), null);
    const excess = (row) => value(row, tightest(row)) / asked[tightest(row)];
    const rank = (row) => [row[column.nodes], -row[column.tokens_per_s], row[column.replicas], row[column.max_num_seqs], row[column.prefill_pools]];
    const before = (a, b) => { const x = rank(a), y = rank(b); for (let i = 0; i < 5; i++) if (x[i] !== y[i]) return x[i] - y[i]; return 0; };
    const rows = [...(data.points[platform][AXES.map((name) => point[name]).join("/")] ?? [])].sort(before);
    const coded = new Set(data.coded);
    const place = (one) => VERDICTS.indexOf(one.verdict);
    // One word for a row: that of its least sure limit.
    const judged = (source) => {
      const row = named(source);
      const words = limits.map((name) => {
        const factor = row[`${name}_factor`], worst = row[`${name}_worst`], time = value(source, name);
        return factor === null ? "unknown" : time * factor > asked[name] ? "possible" : worst === null || time * worst > asked[name] ? "likely" : "yes";
      });
      const verdict = VERDICTS[Math.max(...words.map((word) => VERDICTS.indexOf(word)), 0)];
      return { source, row, verdict, least: limits.filter((_, index) => words[index] === verdict) };
    };
    const named = (row) => Object.fromEntries(data.columns.map((name, index) => [name, coded.has(name) ? data.words[row[index]] : row[index]]));
    if (!rows.length) return { verdict: "no", row: null, nearest: null };
    const kept = rows.filter((one) => limits.every((name) => value(one, name) <= asked[name])).map((one) => judged(one));
    if (!kept.length) return { verdict: "no", row: null, nearest: named(rows.reduce((best, one) => (excess(one) < excess(best) ? one : best))) };
    const tight = tightest(kept[0].source), { row } = kept[0];
    const binds = tight === "tpot" ? "decode" : tight === "ttft" ? row.binds_ttft : row.binds_e2e;
    const picks = kept.reduce((found, one) => (found.length && place(one) >= place(found.at(-1)) ? found : [...found, one]), []).map(({ row: one, verdict, least }) => ({ row: one, verdict, least }));
    return { ...picks[0], surer: picks.slice(1), binds };
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
  const NAMES = { isl: "prompts", osl: "replies", users: "users" };
  const problem = (name, value) => {
    if (Number.isNaN(value)) return "Write a number, for example 200K.";
    if (!(value > 0)) return "More than zero, please.";
    if (AXES.includes(name) && !Number.isInteger(value)) return "A whole number, please.";
    return value > (name === "users" ? 20_000 : 1e7) ? "Beyond any deployment." : "";
  };
  const hint = (name, value, data) => {
    const axis = data.axes[name], near = beside(axis, value);
    return near[0] === value ? "" : near.length ? `Simulated at ${near.map((point) => plain(point)).join(" and ")}.` : `Simulated from ${plain(axis[0])} to ${plain(axis.at(-1))}.`;
  };
  const svg = (name, attributes, text) => {
    const item = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) item.setAttribute(key, value);
    if (text !== undefined) item.textContent = text;
    return item;
  };
  const LABELS = { ttft: "first token", tpot: "an output token", e2e: "whole request" };
  const limitsOf = (asked) => Object.keys(METRICS).filter((name) => asked[name] !== null).map((name) => `${LABELS[name]} within ${plain(asked[name], 3)} ${METRICS[name][1]} at ${asked.percentile}`).join(" and ");
  const steps = (data, asked, platforms) => {
    const users = data.axes.users, width = 640, height = 230, left = 46, bottom = 36, top = 26;
    const lines = platforms.map((name) => users.map((count) => choose(data, name, { ...asked, users: count }).row?.nodes ?? null));
    const most = Math.max(4, ...lines.flat().filter((value) => value !== null));
    const x = (index) => left + (index * (width - left - 90)) / (users.length - 1), y = (value) => top + (1 - value / most) * (height - top - bottom);
    const drawing = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Fewest nodes against users, ${limitsOf(asked) || "without a limit"}: ${platforms.map((name, k) => `${name.toUpperCase()} ${users.map((count, i) => `${count}: ${lines[k][i] ?? "none"}`).join(", ")}`).join("; ")}` });
    for (const tick of [0, Math.round(most / 2), most]) {
      drawing.append(svg("line", { x1: left, x2: width - 90, y1: y(tick), y2: y(tick), class: "k3-grid-line" }), svg("text", { x: left - 6, y: y(tick) + 4, "text-anchor": "end" }, plain(tick)));
    }
    users.forEach((count, index) => drawing.append(svg("text", { x: x(index), y: height - bottom + 16, "text-anchor": "middle" }, plain(count))));
    const limits = limitsOf(asked);
    drawing.append(svg("text", { x: left - 34, y: top - 12 }, `fewest nodes, ${limits || "without a limit"}`), svg("text", { x: (left + width - 90) / 2, y: height - 4, "text-anchor": "middle" }, "users"));
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
        const why = empty ? "" : problem(input.name, asked[input.name]);
        form.querySelector(`[data-live="problem-${input.name}"]`).textContent = why || (AXES.includes(input.name) ? hint(input.name, asked[input.name], data) : "");
        input.toggleAttribute("aria-invalid", Boolean(why));
        wrong ||= Boolean(why);
      }
      return wrong ? null : asked;
    };
    const band = (row, name, percentile) => {
      const [quantity, unit] = METRICS[name], value = row[`${quantity}_${percentile}`], factor = row[`${name}_factor`];
      const range = factor === null ? "error unknown" : `${around(value, factor).map(short).join(" to ")} ${unit} with the twin's median error`;
      return `${short(value)} ${unit}${unit === "s" ? minutes(value) : ""} (${range})`;
    };
    const shape = (row) => `${row.replicas > 1 ? `${row.replicas} times ` : ""}${2 * row.prefill_pools} prefill and ${2 * row.decode_pools} decode nodes, ${row.max_num_seqs} slots a DP rank`;
    const amid = (neighbours) => {
      const nodes = neighbours.filter((one) => one.row).map((one) => one.row.nodes), low = Math.min(...nodes), high = Math.max(...nodes);
      const none = neighbours.length - nodes.length, said = neighbours.map((one) => `${plain(one.isl)} / ${plain(one.osl)} / ${plain(one.users)}: ${one.row ? plain(one.row.nodes) : "none"}`);
      const range = !nodes.length ? "" : none ? `${plain(low)} or more` : low === high ? plain(low) : `${plain(low)} to ${plain(high)}`;
      return { verdict: `not simulated: ${range || "no"} nodes at its neighbours, which is no bound; the command below simulates it`, reason: `Nodes at the neighbours (prompt / reply / users): ${said.join("; ")}.` };
    };
    const WORDS = {
      fits: () => "memory fits; say how long the first token may take to size for speed",
      yes: () => "yes: kept even if the twin is off by its worst error there",
      likely: (got) => `likely: ${named(got.least)} kept if the twin is off by its median error, by its worst not, or too few cells tell`,
      possible: (got) => `possible: the simulated ${named(got.least)} keeps its limit by less than the twin's median error`,
      unknown: (got) => `unknown: nothing printed says how wrong the simulated ${named(got.least)} may be`,
    };
    const surer = (got) => got.surer.map((one) => `${one.verdict}: ${plain(one.row.nodes)} nodes, ${shape(one.row)}`).join("; ");
    const named = (metrics) => metrics.map((metric) => metric.toUpperCase()).join(" and ");
    const texts = (name, asked, got) => {
      const none = { nodes: "–", verdict: got.verdict, surer: "", shape: "", ttft: "", tpot: "", e2e: "", rate: "", binds: "", cost: "", reason: "" };
      if (got.verdict === "outside") return { ...none, verdict: "not simulated", reason: `These ${got.beyond.map((axis) => NAMES[axis]).join(" and ")} are outside what was simulated ahead; the command below simulates them.` };
      if (got.verdict === "between") return { ...none, ...amid(got.neighbours) };
      if (!got.row && !got.nearest) return { ...none, reason: "A request this long does not fit a DP rank of this platform." };
      if (!got.row) {
        const gives = Object.keys(METRICS).filter((metric) => asked[metric] !== null).map((metric) => `${metric.toUpperCase()} ${short(got.nearest[`${METRICS[metric][0]}_${asked.percentile}`])} ${METRICS[metric][1]}`).join(", ");
        return { ...none, reason: `Nothing tried up to 32 nodes keeps these limits; the nearest, ${shape(got.nearest)}, gives ${gives}.` };
      }
      const row = got.row, price = asked[`price_${name}`];
      return {
        nodes: plain(row.nodes),
        verdict: WORDS[got.verdict](got), surer: surer(got),
        shape: shape(row),
        ttft: band(row, "ttft", asked.percentile), tpot: band(row, "tpot", asked.percentile), e2e: band(row, "e2e", asked.percentile),
        rate: `${short(row.tokens_per_s)} tokens/s, of them ${short(row.out_tokens_per_s)} output`,
        binds: got.binds, cost: price === null || price === undefined ? "" : `$${plain(row.nodes * price, 2)}`, reason: "",
      };
    };
    const command = (asked) => {
      const goals = Object.keys(METRICS).filter((name) => asked[name] !== null).map((name) => ` --${name} ${asked[name]}@${asked.percentile}`).join("");
      return `k3repro capacity size ${AXES.map((axis) => `--${axis} ${asked[axis]}`).join(" ")}${goals} --max-nodes 32`;
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
      said.command = asked ? command(asked) : "";
      said.same = !asked ? "" : AXES.every((axis) => data.axes[axis].includes(asked[axis])) ? "The same answer:" : "To simulate it:";
      for (const [name, text] of Object.entries(said)) form.querySelector(`[data-live="${name}"]`).textContent = text;
      form.querySelector("figure.k3-steps").replaceChildren(...(asked && data.axes.isl.includes(asked.isl) && data.axes.osl.includes(asked.osl) ? [steps(data, asked, platforms)] : []));
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
