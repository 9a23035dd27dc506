/* SQL over the site's artifacts: DuckDB-WASM in a worker, loaded when asked for, artifacts fetched when a query names them. */
(() => {
  "use strict";
  const { make, load, here } = globalThis.k3;
  const box = document.querySelector(".k3-console");
  const data = JSON.parse(box.querySelector("script.k3-console-data").textContent);
  const said = box.querySelector(".k3-console-said"), area = box.querySelector("textarea"), line = box.querySelector(".k3-console-line");
  const run = box.querySelector("[name=run]"), link = box.querySelector("[name=link]"), output = box.querySelector("output");
  const root = here + "../../", engine = here + "../duckdb/";
  const MOST = 1000;
  const quote = (text) => "'" + String(text).replaceAll("'", "''") + "'";
  const name = (text) => '"' + String(text).replaceAll('"', '""') + '"';
  const command = () => { line.textContent = `k3repro artifacts sql ${"'" + area.value.trim().replaceAll("'", "'\\''") + "'"}`; };
  area.addEventListener("input", command);

  const asked = /^#sql=(.*)$/.exec(location.hash);
  if (asked) { try { area.value = decodeURIComponent(asked[1]); } catch { /* not ours */ } }
  command();
  link.addEventListener("click", async () => {
    const url = `${location.href.replace(/#.*$/, "")}#sql=${encodeURIComponent(area.value)}`;
    try { history.replaceState(null, "", url); await navigator.clipboard.writeText(url); link.textContent = "Copied"; } catch { window.prompt("Link", url); }
  });
  if (location.protocol === "file:") {
    said.textContent = "From disk a browser lets no worker start. Run k3repro site serve and open this page there, or use the line below in a terminal.";
    run.disabled = true;
    return;
  }
  said.textContent = "Ready. The engine is loaded with the first query.";

  const script = (source) => new Promise((resolve, reject) => {
    const element = make("script", null, { src: source });
    element.addEventListener("load", resolve);
    element.addEventListener("error", () => reject(new Error(`${source} does not load`)));
    document.head.append(element);
  });
  let connection = null, database = null;
  const rowsOf = (table) => table.toArray().map((row) => row.toJSON());
  const start = async () => {
    said.textContent = "Loading the engine.";
    await script(engine + "arrow.js");
    await script(engine + "duckdb.js");
    const { AsyncDuckDB, VoidLogger } = globalThis.k3Duckdb;
    database = new AsyncDuckDB(new VoidLogger(), new Worker(engine + "worker.js"));
    await database.instantiate(new URL(engine + "duckdb-eh.wasm", location.href).href);
    await database.open({});
    connection = await database.connect();
    for (const setting of ["autoinstall_known_extensions", "autoload_known_extensions"]) await connection.query(`SET ${setting} = false`);
    const columns = Object.keys(data.artifacts[0] || { seal: "" });
    const cell = (value) => (value === null || value === undefined ? "NULL" : typeof value === "boolean" || typeof value === "number" ? String(value) : Array.isArray(value) ? `[${value.map(quote).join(", ")}]::VARCHAR[]` : quote(value));
    const values = data.artifacts.map((row) => `(${columns.map((column) => cell(row[column])).join(", ")})`).join(", ");
    await connection.query(`CREATE TABLE artifacts AS SELECT * FROM (VALUES ${values}) AS t(${columns.map(name).join(", ")})`);
  };
  const attached = new Map();
  const attach = async (seal) => {
    if (attached.has(seal)) return attached.get(seal);
    const response = await fetch(root + data.files[seal]);
    if (!response.ok) throw new Error(`${data.files[seal]}: ${response.status}`);
    const alias = `a_${seal.slice(0, 16)}`;
    await database.registerFileBuffer(alias, new Uint8Array(await response.arrayBuffer()));
    await connection.query(`ATTACH ${quote(alias)} AS ${name(alias)} (READ_ONLY)`);
    attached.set(seal, alias);
    return alias;
  };
  const made = new Set();
  const facts = new Map(data.artifacts.map((row) => [row.seal, row]));
  const view = async (title) => {
    if (made.has(title)) return;
    const parts = [];
    for (const seal of data.views[title]) {
      const row = facts.get(seal), alias = await attach(seal), table = title.slice(row.name.length + 1);
      const fixed = ["seal", "subject", "tier", "basis", "run_id"].map((column) => `${quote(row[column])} AS ${column}`).join(", ");
      parts.push(`SELECT ${fixed}, * FROM ${name(alias)}.main.${name(table)}`);
    }
    await connection.query(`CREATE VIEW ${name(title)} AS ${parts.join(" UNION ALL BY NAME ")}`);
    made.add(title);
  };
  const views = async (sql) => {
    const words = new Set(sql.toLowerCase().match(/[a-z_][a-z0-9_]*/g) || []);
    for (const title of Object.keys(data.views)) if (words.has(title)) { said.textContent = `Opening ${title}.`; await view(title); }
  };
  // Read-only for real: one statement that only reads. The engine is a copy in memory, but a reader who drops a table should not wonder.
  const READS = /^\s*(?:(?:--[^\n]*\n|\/\*[\s\S]*?\*\/)\s*)*(?:select|with|from|values|describe|summarize|show|explain)\b/i;
  const WRITES = /\b(?:insert|update|delete|create|drop|alter|attach|detach|copy|export|import|install|load|pragma|set|call|vacuum|checkpoint)\b/i;
  const query = async (sql) => {
    const bare = sql.replace(/'(?:[^']|'')*'|"(?:[^"]|"")*"/g, "''");
    if (!READS.test(sql) || WRITES.test(bare) || bare.includes(";")) throw new Error("Only one statement that reads: SELECT, WITH, DESCRIBE, SHOW TABLES.");
    if (/^\s*show\s+(?:all\s+)?tables\s*$/i.test(sql)) return ["artifacts", ...Object.keys(data.views)].map((title) => ({ name: title, artifacts: (data.views[title] || [1]).length }));
    if (!connection) await start();
    await views(sql);
    return rowsOf(await connection.query(sql));
  };
  const text = (value) => (value === null || value === undefined ? "" : typeof value === "object" && value.toArray ? [...value.toArray()].map(text).join(", ") : String(value));
  const show = (rows) => {
    const table = make("table", null, { className: "k3-grid" }), head = make("tr"), body = make("tbody");
    head.append(...Object.keys(rows[0] || {}).map((column) => make("th", column, { scope: "col" })));
    for (const row of rows.slice(0, MOST)) { const line = make("tr"); line.append(...Object.values(row).map((value) => make("td", text(value), { className: typeof value === "number" || typeof value === "bigint" ? "k3-number" : "" }))); body.append(line); }
    const top = make("thead");
    top.append(head);
    table.append(top, body);
    const scroll = make("div", null, { className: "k3-scroll", tabIndex: 0 });
    scroll.setAttribute("role", "region");
    scroll.setAttribute("aria-label", "Answer");
    scroll.append(table);
    output.replaceChildren(scroll);
  };
  const ask = async () => {
    run.disabled = true;
    try {
      const rows = await query(area.value.trim().replace(/;\s*$/, ""));
      show(rows);
      said.textContent = `${rows.length} rows${rows.length > MOST ? `, the first ${MOST} shown` : ""}. Computed here, bound to nothing.`;
    } catch (error) {
      output.replaceChildren();
      said.textContent = String(error.message || error).split("\n")[0];
    }
    run.textContent = "Run";
    run.disabled = false;
  };
  run.addEventListener("click", ask);
  area.addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); ask(); } });
  // For a test that opens everything: each view once, with its number of rows.
  box.k3Views = async () => { const counts = {}; for (const title of Object.keys(data.views)) counts[title] = Number((await query(`SELECT count(*)::INTEGER AS n FROM ${title}`))[0].n); return counts; };
})();
