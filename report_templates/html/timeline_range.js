/* What a range of the timeline holds: sums by lane, by class, and by name, of what runs within it. */
const timelineRange = (data, box, nameOf, duration) => {
  const MOST = 12, EVENTS = ["host", "launches", "device", "accelerator"];

  const within = (lane, from, to) => {
    const found = [];
    lane.start.forEach((start, item) => {
      const inside = Math.min(start + lane.length[item], to) - Math.max(start, from);
      if (inside > 0) found.push({ item, inside, row: lane.row[item] });
    });
    return found;
  };
  const add = (sums, key, label, inside, count) => {
    const sum = sums.get(key) ?? { label, ns: 0, count: 0 };
    sums.set(key, { label, ns: sum.ns + inside, count: sum.count + count });
  };
  const largest = (sums) => [...sums.values()].sort((a, b) => b.ns - a.ns);

  const of = (lanes, from, to) => {
    const byLane = new Map(), byClass = new Map(), byName = new Map();
    for (const lane of lanes) {
      for (const { item, inside, row } of within(lane, from, to)) {
        const count = lane.count[item] ?? 1, name = nameOf(lane, item);
        const isOf = lane.kind === "device" || lane.kind === "accelerator";
        if (lane.kind === "idle") { add(byClass, `idle ${name}`, name, inside, count); continue; }
        if (!EVENTS.includes(lane.kind)) continue;
        if (row === 0) add(byLane, `${lane.kind} ${lane.place}`, lane.label, inside, count);
        if (isOf) add(byClass, lane.tone[item], data.toneLabels[lane.tone[item]] ?? "", inside, count);
        add(byName, `${lane.kind} ${count === 1 ? name : ""}`, count === 1 && name ? name : words.range_several, inside, count);
      }
    }
    return { byLane: largest(byLane), byClass: largest(byClass), byName: largest(byName) };
  };

  const table = (title, rows, whole) => {
    const part = make("div"), list = make("table"), body = make("tbody"), head = make("tr");
    for (const [text, isNumber] of [[title], [words.range_time, true], [words.range_count, true]]) {
      const cell = make("th", text, isNumber ? "n" : undefined);
      cell.scope = "col";
      head.append(cell);
    }
    const top = make("thead");
    top.append(head);
    for (const row of rows.slice(0, MOST)) {
      const line = make("tr"), share = Math.round(100 * row.ns / whole);
      line.append(make("td", row.label.length > 90 ? `${row.label.slice(0, 90)}\u2026` : row.label), make("td", `${duration(row.ns)} (${share}\u00a0%)`, "n"), make("td", String(row.count), "n"));
      body.append(line);
    }
    list.append(make("caption", title), top, body);
    part.append(list);
    return part;
  };

  const self = {
    now: null, of,
    set: (from, to) => { self.now = [from, to]; },
    clear: () => { self.now = null; box.hidden = true; },
    tell: (lanes) => {
      const [from, to] = self.now, sums = of(lanes, from, to), whole = to - from;
      const title = make("p", filled(words.range, { from: duration(from), to: duration(to), length: duration(whole) }), "range-title");
      const tables = make("div", undefined, "range-sums");
      for (const [text, rows] of [[words.range_lanes, sums.byLane], [words.range_classes, sums.byClass], [words.range_names, sums.byName]]) {
        if (rows.length) tables.append(table(text, rows, whole));
      }
      box.replaceChildren(title, tables);
      box.hidden = false;
    },
  };
  return self;
};
