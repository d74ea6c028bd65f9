{
  const holder = document.getElementById("flame-view");
  const source = document.getElementById("flames-data");
  if (holder && source) flames(holder, JSON.parse(source.textContent));

  function flames(holder, data) {
    const ROW = 18;
    const stage = holder.querySelector(".stage");
    const chosen = holder.querySelector(".chosen");
    const sought = holder.querySelector(".sought");
    const found = holder.querySelector(".found");
    const buttons = [...holder.querySelectorAll("[data-graph]")];
    const graphs = data.graphs.map(placed);
    const turned = new Map(), upside = holder.querySelector("[data-bottom-up]");
    let graph = graphs[0], top = -1, at = -1, boxes = [];

    /* A row of a graph has its start, the row around it, and those inside it. */
    function placed({ title, frame, depth, size, count, unit }) {
      const rows = [], open = [];
      let all = 0;
      frame.forEach((number, row) => {
        open.length = depth[row];
        const parent = open.length ? open.at(-1) : -1;
        const before = parent < 0 ? all : rows[parent].next;
        if (parent < 0) all += size[row]; else rows[parent].next += size[row];
        rows.push({ parent, depth: depth[row], start: before, next: before, size: size[row], inner: [],
          name: number < 0 ? filled(words.flames_several, { count: count[row] }) : data.names[number],
          tone: number < 0 ? "waiting" : data.tones[number] });
        if (parent >= 0) rows[parent].inner.push(row);
        open.push(row);
      });
      return { title, rows, all, unit, outer: rows.flatMap((row, number) => (row.parent < 0 ? [number] : [])) };
    }

    /* Bottom-up: each frame with the time in itself, largest first, and below it what called it. */
    const MOST_CALLERS = 12;
    function inverted({ title, rows, unit }) {
      const callers = new Map();
      for (const row of rows) {
        const own = row.size - row.inner.reduce((sum, inner) => sum + rows[inner].size, 0);
        if (own <= 0) continue;
        let level = callers;
        for (let place = row, depth = 0; place && depth <= MOST_CALLERS; place = rows[place.parent], depth++) {
          const node = level.get(place.name) ?? { name: place.name, tone: place.tone, size: 0, callers: new Map() };
          node.size += own;
          level.set(place.name, node);
          level = node.callers;
        }
      }
      const turned = [], outer = [];
      let all = 0;
      const lay = (level, parent, begin, depth) => {
        let start = begin;
        for (const node of [...level.values()].sort((a, b) => b.size - a.size)) {
          const row = turned.length;
          turned.push({ parent, depth, start, size: node.size, inner: [], name: node.name, tone: node.tone });
          if (parent < 0) outer.push(row); else turned[parent].inner.push(row);
          lay(node.callers, row, start, depth + 1);
          start += node.size;
        }
        return start;
      };
      all = lay(callers, -1, 0, 0);
      return { title, rows: turned, all, unit, outer };
    }

    const number = (value, digits) => new Intl.NumberFormat(root.lang || "en", {
      maximumSignificantDigits: digits, useGrouping: false,
    }).format(value);
    const amount = (size) => {
      const units = data.units[graph.unit];
      const [factor, name] = units.find(([least]) => Math.abs(size) >= least) ?? units.at(-1);
      return `${number(size / factor, 4)}\u00a0${name}`;
    };
    const say = (row) => filled(words.flames_frame, {
      name: row.name, time: amount(row.size), share: number(100 * row.size / graph.all, 2), all: amount(graph.all),
    });

    function draw() {
      const root = top < 0 ? { start: 0, size: graph.all } : graph.rows[top];
      const least = root.size / Math.max(stage.clientWidth, 300) / 2;
      const within = (row) => row.start >= root.start && row.start + row.size <= root.start + root.size;
      const around = new Set();
      for (let row = top; row >= 0; row = graph.rows[row].parent) around.add(row);
      const text = sought.value.trim().toLowerCase();
      let deepest = 0, hits = 0, sum = 0;
      boxes = [];
      stage.replaceChildren(...graph.rows.flatMap((row, place) => {
        const isHit = text && row.name.toLowerCase().includes(text);
        if (isHit) { hits += 1; if (!inside(row)) sum += row.size; }
        const isAround = around.has(place);
        if (!isAround && (!within(row) || row.size < least)) return [];
        const box = make("div", row.name, `box t-${row.tone}`);
        box.style.left = `${isAround ? 0 : 100 * (row.start - root.start) / root.size}%`;
        box.style.width = `${isAround ? 100 : 100 * row.size / root.size}%`;
        box.style.top = `${row.depth * ROW}px`;
        box.title = say(row);
        box.dataset.row = place;
        box.classList.toggle("around", isAround && place !== top);
        box.classList.toggle("missed", Boolean(text) && !isHit);
        box.classList.toggle("at", place === at);
        deepest = Math.max(deepest, row.depth + 1);
        boxes[place] = box;
        return [box];
      }));
      stage.style.height = `${Math.max(2, deepest) * ROW + 4}px`;
      found.textContent = text
        ? filled(words.flames_found, { count: hits, time: amount(sum), share: number(100 * sum / graph.all, 2) }) : "";
      chosen.textContent = at < 0 ? "" : say(graph.rows[at]);
      function inside(row) {
        for (let up = row.parent; up >= 0; up = graph.rows[up].parent) if (graph.rows[up].name.toLowerCase().includes(text)) return true;
        return false;
      }
    }

    const choose = (row) => { if (row !== undefined) { at = row; draw(); boxes[at]?.scrollIntoView({ block: "nearest" }); } };
    const zoom = (row) => { top = row; at = row; draw(); };
    const largest = (rows) => rows.reduce((best, row) => (graph.rows[row].size > (graph.rows[best]?.size ?? -1) ? row : best), -1);
    const shown = (rows) => rows.filter((row) => boxes[row]);
    const beside = (step) => {
      if (at < 0) return choose(largest(graph.outer));
      const { parent } = graph.rows[at];
      const same = shown(parent < 0 ? graph.outer : graph.rows[parent].inner);
      choose(same[same.indexOf(at) + step]);
    };
    const down = () => {
      const inner = shown(at < 0 ? graph.outer : graph.rows[at].inner);
      if (inner.length) choose(largest(inner));
    };
    const up = () => { if (at >= 0 && graph.rows[at].parent >= 0) choose(graph.rows[at].parent); };
    const keys = {
      ArrowDown: down, ArrowUp: up, ArrowLeft: () => beside(-1), ArrowRight: () => beside(1),
      Enter: () => at >= 0 && zoom(at),
      Backspace: () => zoom(top < 0 ? -1 : graph.rows[top].parent),
      Escape: () => zoom(-1), 0: () => zoom(-1),
    };
    stage.addEventListener("keydown", (event) => {
      const act = event.ctrlKey || event.metaKey || event.altKey ? null : keys[event.key];
      if (act) { event.preventDefault(); act(); }
    });
    stage.addEventListener("click", (event) => {
      const row = event.target.dataset.row;
      stage.focus({ preventScroll: true });
      if (row !== undefined) zoom(Number(row) === top ? graph.rows[top].parent : Number(row));
    });
    holder.querySelector("[data-whole]").addEventListener("click", () => zoom(-1));
    sought.addEventListener("input", draw);
    sought.addEventListener("keydown", (event) => {
      if (event.key === "Escape") { sought.value = ""; draw(); }
    });
    let given = 0;
    const turn = () => {
      const isTurned = upside.getAttribute("aria-pressed") === "true";
      if (isTurned && !turned.has(given)) turned.set(given, inverted(graphs[given]));
      graph = isTurned ? turned.get(given) : graphs[given];
      zoom(-1);
    };
    upside.addEventListener("click", () => {
      upside.setAttribute("aria-pressed", String(upside.getAttribute("aria-pressed") !== "true"));
      turn();
    });
    for (const button of buttons) {
      button.addEventListener("click", () => {
        given = Number(button.dataset.graph);
        for (const other of buttons) other.setAttribute("aria-pressed", String(other === button));
        turn();
      });
    }
    /* From the peak of a curve to what holds most of it. */
    for (const link of document.querySelectorAll("[data-holders]")) {
      link.addEventListener("click", () => {
        const button = buttons[data.graphs.findIndex(({ curve }) => curve === link.dataset.holders)];
        if (!button) return;
        upside.setAttribute("aria-pressed", "false");
        button.click();
        const ends = [...graph.rows.keys()].filter((row) => !graph.rows[row].inner.length && graph.rows[row].tone !== "waiting");
        at = largest(ends.filter((row) => graph.rows[row].depth));
        if (at < 0) at = largest(ends);
        draw();
      });
    }
    draw();
  }
}
