/* Columns of the timeline, out of texts in which a number has as many digits of 5 bits as it needs (base64 VLQ). */
const timelineData = (() => {
  const values = new Int8Array(128);
  [..."ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"].forEach((digit, value) => {
    values[digit.charCodeAt(0)] = value;
  });

  const unpack = (text) => {
    const found = [];
    for (let at = 0, value = 0, scale = 1; at < text.length; at++) {
      const digit = values[text.charCodeAt(at)];
      value += (digit & 31) * scale;
      if (digit & 32) { scale *= 32; continue; }
      found.push(value % 2 ? -(value - 1) / 2 : value / 2);
      value = 0; scale = 1;
    }
    return found;
  };
  const sums = (steps) => { let sum = 0; return steps.map((step) => (sum += step)); };

  /* Slices by row of the lane; each row knows up to where any of its slices reaches, so that it can be searched. */
  const withRows = (lane) => {
    lane.byRow = Array.from({ length: lane.rows }, () => ({ items: [], reach: [] }));
    lane.start.forEach((start, item) => {
      const row = lane.byRow[lane.row[item]];
      row.items.push(item);
      row.reach.push(Math.max(row.reach.at(-1) ?? 0, start + lane.length[item]));
    });
    return lane;
  };

  const simple = (given, lane) => withRows({
    ...lane, rows: 1, start: sums(unpack(given.start)), length: unpack(given.length),
    row: new Array(unpack(given.length).length).fill(0), count: [], launch: [],
  });

  const ofIdle = (idle, label) => {
    const lane = simple(idle, { kind: "idle", label, place: "" });
    return { ...lane, name: unpack(idle.cause), finding: unpack(idle.finding) };
  };

  const decoded = (data, time, idleLabel) => {
    const tones = (kind) => (data.toneOf[kind] = typeof data.toneOf[kind] === "string"
      ? unpack(data.toneOf[kind]) : data.toneOf[kind]);
    const lanes = time.lanes.map((lane) => {
      const name = unpack(lane.name);
      return withRows({
        ...lane, name, start: sums(unpack(lane.start)), length: unpack(lane.length), row: unpack(lane.row),
        count: unpack(lane.count), launch: sums(unpack(lane.launch)), tone: name.map((one) => tones(lane.kind).at(one)),
      });
    });
    const at = lanes.findIndex((lane) => lane.kind === "device");
    if (time.idle.start) lanes.splice(at < 0 ? lanes.length : at, 0, ofIdle(time.idle, idleLabel));
    if (time.path) {
      const path = simple(time.path, { kind: "path", label: time.path.label, place: "" });
      lanes.unshift({ ...path, name: unpack(time.path.name), tone: unpack(time.path.tone) });
    }
    return { ...time, lanes, calls: lanes.filter((lane) => lane.kind === "launches") };
  };

  const spansOf = (finding) => finding.spans.map((part) => ({
    ...part, start: sums(unpack(part.start)), length: unpack(part.length),
  }));

  /* How numbers and times are written. */
  const writing = (units) => {
    const decimal = (value, digits) => new Intl.NumberFormat(root.lang || "en", {
      minimumFractionDigits: digits, maximumFractionDigits: digits, useGrouping: false,
    }).format(value);
    const duration = (ns) => {
      const [factor, unit] = units.find(([size]) => Math.abs(ns) >= size) ?? units.at(-1);
      const value = ns / factor;
      const digits = factor === 1 ? 0 : Math.max(0, 3 - String(Math.trunc(Math.abs(value))).length);
      return `${decimal(value, digits)} ${unit}`;
    };
    return { decimal, duration };
  };

  return { decoded, spansOf, writing };
})();
