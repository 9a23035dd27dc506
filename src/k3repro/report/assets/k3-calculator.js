/* The capacity model, live: laws evaluated as they are stored, limits compared as k3repro.capacity does it. */
(() => {
  "use strict";
  const plain = (number, digits = 0) => number.toLocaleString("en-US", { maximumFractionDigits: digits });
  const law = (tree, variables) => { try { return globalThis.k3Law.evaluate(tree, variables); } catch { return null; } };
  const RANGE_NAMES = { osl: "reply length", isl: "prompt length", concurrency: "requests in flight" };

  // row: laws and launch of one platform; asked: context, concurrency, reply, pool_bytes, slots, latency, price (null where not given).
  const answer = (row, asked) => {
    const { context, concurrency, reply, pool_bytes, slots } = asked;
    const block = law(row.law, { pool: pool_bytes, context }), pool = law(row.pool_law, { pool: pool_bytes, context });
    const reasons = [];
    const found = { block, pool, limit: slots, effective: null, binds: null, next: null, pools: null, nodes: null, wall: null, cost: null };
    if (!block) {
      Object.assign(found, { effective: 0, binds: "blocks" });
      reasons.push("One request of this context needs more than a lane's pool: enlarge the KV pool.");
    } else if (context > row.max_model_len) {
      Object.assign(found, { effective: 0, binds: "max_model_len", next: slots < block ? "slots" : "blocks" });
      reasons.push(`The engine accepts requests up to ${plain(row.max_model_len)} tokens; the pool would hold this one.`);
    } else {
      const byBlocks = block <= slots;
      Object.assign(found, { effective: Math.min(block, slots), binds: byBlocks ? "blocks" : "slots", next: byBlocks ? "slots" : "blocks" });
      reasons.push(byBlocks ? "A larger KV pool would hold more." : "A higher max_num_seqs would admit more: a setting, not hardware.");
      found.pools = Math.ceil(concurrency / found.effective);
      found.nodes = found.pools * row.decode_nodes + row.prefill_nodes;
      if (found.pools > 1) reasons.push("That many requests need more than one decode pool, or they queue.");
    }
    const at = { osl: reply, isl: context - reply, concurrency };
    if (row.wall === null) reasons.push("Time: not modelled, no wall law for this platform.");
    else {
      const outside = Object.keys(row.wall.range).sort().filter((name) => !(row.wall.range[name][0] <= at[name] && at[name] <= row.wall.range[name][1]));
      if (!outside.length) found.wall = law(row.wall.formula, at);
      for (const name of outside) {
        const [low, high] = row.wall.range[name];
        reasons.push(`Time: not modelled, ${RANGE_NAMES[name]} ${plain(at[name])} is outside the calibrated ${low === high ? plain(low) : `${plain(low)} to ${plain(high)}`}.`);
      }
    }
    if (found.nodes !== null && asked.price !== null) found.cost = found.nodes * asked.price;
    // First-token time has no law, so nothing here is ever more than "memory holds it".
    const late = found.wall !== null && asked.latency !== null && found.wall > asked.latency;
    if (late) reasons.push("A request alone takes longer than it may.");
    found.verdict = found.effective === 0 || late ? "no" : found.wall === null || asked.latency === null ? "it fits; time unknown" : "it fits; decode in time, first token not modelled";
    return { ...found, reasons };
  };
  globalThis.k3Calculator = Object.freeze({ answer });
  if (typeof document === "undefined") return;

  const number = (text) => {
    const match = /^\s*([\d,]*\.?\d+|\d[\d,]*\.?)(?:e(\d+))?\s*([kKMG]?)\s*$/.exec(text);
    return match ? Number(match[1].replaceAll(",", "") + (match[2] ? "e" + match[2] : "")) * { "": 1, k: 1e3, K: 1e3, M: 1e6, G: 1e9 }[match[3]] : NaN;
  };
  const WHOLE = new Set(["context", "concurrency", "reply", "slots", "pool_bytes"]);
  for (const form of document.querySelectorAll("form.k3-calculator")) {
    const rows = JSON.parse(form.querySelector("script.k3-laws").textContent);
    const field = (name) => form.elements.namedItem(name);
    const names = [...form.elements].map((item) => item.name).filter(Boolean);
    const rowOf = () => rows.find((row) => row.platform === field("platform").value && row.caching === field("caching").value);
    form.querySelector("p").remove();
    const LARGEST = { concurrency: 1e6, context: 1e9, reply: 1e9, slots: 1e6, pool_bytes: 1e15 };
    const problem = (name, value, asked) => {
      if (Number.isNaN(value)) return "Not a number. Write digits, commas, or k, M, G: 200k.";
      if (!(value > 0) && !(name === "price" && value === 0)) return "Needs to be above zero.";
      if (WHOLE.has(name) && !Number.isInteger(value)) return "Needs a whole number.";
      if (value > LARGEST[name]) return `More than this model speaks of: at most ${plain(LARGEST[name])}.`;
      if (name === "reply" && asked.context > 0 && value >= asked.context) return "As long as the context: leaves no prompt. Make it shorter.";
      return "";
    };
    // What is wrong stands under its field, and is read out with it.
    const said = new Map();
    const tell = (input, why) => {
      if (!said.has(input)) {
        const line = Object.assign(document.createElement("span"), { className: "k3-error", id: `${form.id}-${input.name}-error` });
        input.closest("label").append(line);
        input.setAttribute("aria-describedby", line.id);
        said.set(input, line);
      }
      said.get(input).textContent = why;
      input.setCustomValidity(why);
      if (why) input.setAttribute("aria-invalid", "true"); else input.removeAttribute("aria-invalid");
      const fold = input.closest("details");
      if (why && fold) fold.open = true;
    };
    const read = () => {
      const asked = {};
      let wrong = false;
      for (const name of names) {
        const input = field(name);
        if (input.tagName !== "INPUT") continue;
        const blank = !input.value.trim(), empty = !input.required && blank;
        asked[name] = empty ? null : number(input.value);
        const why = empty ? "" : blank ? "Needs a number." : problem(name, asked[name], asked);
        tell(input, why);
        wrong ||= Boolean(why);
      }
      return wrong ? null : asked;
    };
    const write = (texts) => {
      for (const output of form.querySelectorAll("output[data-live]")) {
        const text = texts[output.dataset.live];
        if (Array.isArray(text)) output.replaceChildren(...text.map((line) => Object.assign(document.createElement("span"), { textContent: line + " " })));
        else output.textContent = text === null || text === undefined ? "not modelled" : text;
      }
    };
    const refresh = (remember) => {
      const asked = read(), row = rowOf();
      if (!asked || !row) return write(Object.fromEntries([...form.querySelectorAll("output[data-live]")].map((item) => [item.dataset.live, item.dataset.live === "verdict" ? "Correct the field marked in red" : "—"])));
      const got = answer(row, asked);
      write({
        ...got,
        ...Object.fromEntries(["block", "pool", "limit", "effective", "pools", "nodes"].map((name) => [name, got[name] === null ? (name === "pools" || name === "nodes" ? "none fits" : null) : plain(got[name])])),
        binds: got.next ? `${got.binds}, then ${got.next}` : got.binds,
        wall: got.wall === null ? null : `${plain(got.wall, 2)} s`,
        cost: got.cost === null ? (asked.price === null ? "no price given" : "none fits") : plain(got.cost, 2),
      });
      const command = `k3repro capacity size --platform ${row.platform.toLowerCase()} --context ${asked.context} --concurrency ${asked.concurrency} --reply ${asked.reply} --pool ${asked.pool_bytes} ${row.caching === "on" ? "--prefix-caching" : "--no-prefix-caching"}`
        + `${asked.latency === null ? "" : ` --latency ${asked.latency}`}${asked.price === null ? "" : ` --price ${asked.price}`}`;
      form.dataset.command = command;
      if (!remember) return;
      const state = new URLSearchParams(names.map((name) => [name, field(name).value]).filter(([, value]) => value));
      try { history.replaceState(null, "", `${location.pathname}${location.search}#${form.id}?${state}`); } catch { /* some browsers refuse this for files */ }
    };
    // What a launch sets follows the platform, until the address or the reader says otherwise.
    const launch = () => { const row = rowOf(); for (const name of ["pool_bytes", "slots"]) field(name).value = row[name]; };
    const restore = () => {
      const [id, query] = decodeURI(location.hash.slice(1)).split("?");
      if (id !== form.id || !query) return;
      const state = new URLSearchParams(query);
      for (const name of ["platform", "caching"]) if ([...field(name).options].some((option) => option.value === state.get(name))) field(name).value = state.get(name);
      launch();
      for (const name of names) if (field(name).tagName === "INPUT" && state.has(name)) field(name).value = state.get(name);
      form.scrollIntoView({ block: "nearest" });
    };
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("input", (event) => { if (["platform", "caching"].includes(event.target.name)) launch(); refresh(true); });
    addEventListener("hashchange", () => { restore(); refresh(false); });
    form.reset();
    launch();
    restore();
    refresh(false);
  }
})();
