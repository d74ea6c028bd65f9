/* The timeline: lanes of slices on a canvas, to zoom, pan, walk and search. */
const timeline = (holder, data) => {
  const ROW = 16, LABEL = 18, AXIS = 22, GAP = 6, LEAST = 3, SHORTEST = 20;
  const CAUSES = {
    dataloader: "dataloader", communication: "communication", synchronization: "memcpy", allocation: "memcpy",
    launch_bound: "runtime", host_code: "cpu-exec", compilation: "cpu-exec",
  };
  const part = (name) => holder.querySelector(`.${name}`);
  const stage = part("stage"), canvas = holder.querySelector("canvas"), tip = part("tip"), chosen = part("chosen");
  const which = part("which"), search = part("search"), hits = part("hits"), pen = canvas.getContext("2d");
  const decoded = [], changed = new Set();
  let number = 0, time = null, lanes = [], height = 0, from = 0, to = 1, width = 0, colors = {}, family = "";
  let at = null, marked = null, moment = null, found = null, wanted = null;

  /* Words and colours */
  const { decimal, duration } = timelineData.writing(data.units);
  const nameOf = (lane, item) => (lane.kind === "idle" ? data.causes[lane.name[item]] : data.names[lane.name[item]] ?? "");
  const ranges = timelineRange(data, part("range"), nameOf, duration);
  const countOf = (lane, item) => lane.count[item] ?? 1;
  const endOf = (lane, item) => lane.start[item] + lane.length[item];
  const titleOf = ({ lane, item, merged }) => {
    const count = merged ? merged.reduce((sum, one) => sum + countOf(lane, one), 0) : countOf(lane, item);
    const name = nameOf(lane, item);
    if (count === 1) return name;
    return name ? filled(words.block, { count, name }) : filled(words.several, { count });
  };
  const say = (slice) => {
    const { lane, item, merged } = slice;
    const first = merged ? merged[0] : item, end = merged ? Math.max(...merged.map((one) => endOf(lane, one))) : endOf(lane, item);
    return filled(words.slice, {
      name: titleOf(slice), duration: duration(end - lane.start[first]), start: duration(lane.start[first]), lane: lane.label,
    });
  };
  const readColors = () => {
    const probe = make("span");
    document.body.append(probe);
    const read = (name) => { probe.style.color = `var(--${name})`; return getComputedStyle(probe).color; };
    colors = { tones: data.tones.map((tone) => read(tone.replace("_", "-"))), causes: data.causeIds.map((id) => read(CAUSES[id] ?? "idle")) };
    for (const name of ["ink", "muted", "grid", "paper", "highlight"]) colors[name] = read(name);
    family = getComputedStyle(document.body).fontFamily;
    probe.remove();
  };

  /* Drawing */
  const x = (ns) => (ns - from) / (to - from) * width;
  const layOut = () => {
    let y = AXIS;
    lanes = time.lanes.map((lane) => {
      const top = y + LABEL, isEmpty = !hasAny(lane);
      y = top + (isEmpty ? 0 : lane.rows * ROW) + GAP;
      return { ...lane, top, bottom: y - GAP, isEmpty };
    });
    height = y + GAP;
  };
  /* A lane in which nothing runs at the times that are shown has only its name. */
  const hasAny = (lane) => lane.byRow.some((row) => {
    const place = firstAt(row, from);
    return place < row.items.length && lane.start[row.items[place]] <= to;
  });
  /* Position in a row of the first slice that reaches a moment. */
  const firstAt = (row, ns) => {
    let low = 0, high = row.items.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (row.reach[middle] < ns) low = middle + 1; else high = middle;
    }
    return low;
  };
  const draw = () => {
    const scale = devicePixelRatio || 1;
    width = stage.clientWidth;
    canvas.width = Math.max(1, Math.round(width * scale));
    canvas.height = Math.round(height * scale);
    canvas.style.height = `${height}px`;
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.textBaseline = "middle";
    shade();
    axis();
    lanes.forEach(drawLane);
    highlight();
    arrows();
    if (ranges.now) frame();
    part("view").textContent = filled(words.view, { from: duration(from), to: duration(to), all: duration(time.duration) });
  };
  const band = (start, end, color, alpha) => {
    const left = Math.max(0, x(start)), right = Math.min(width, x(end));
    if (right - left < 1) return;
    pen.globalAlpha = alpha;
    pen.fillStyle = color;
    pen.fillRect(left, AXIS, right - left, height);
    pen.globalAlpha = 1;
  };
  const shade = () => {
    const idle = lanes.find((lane) => lane.kind === "idle");
    if (!idle) return;
    const [row] = idle.byRow;
    for (let place = firstAt(row, from); place < row.items.length && idle.start[row.items[place]] < to; place++) {
      const item = row.items[place];
      band(idle.start[item], endOf(idle, item), colors.causes[idle.name[item]], 0.1);
    }
  };
  const axis = () => {
    const rough = (to - from) / Math.max(2, width / 110), power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
    const [factor, unit] = data.units.find(([size]) => to >= size) ?? data.units.at(-1);
    const digits = Math.min(6, Math.max(0, Math.ceil(-Math.log10(step / factor) - 1e-9)));
    pen.font = `11px ${family}`;
    for (let tick = Math.ceil(from / step) * step; tick <= to; tick += step) {
      pen.fillStyle = colors.grid;
      pen.fillRect(Math.round(x(tick)), AXIS - 4, 1, height);
      pen.fillStyle = colors.muted;
      const text = `${decimal(tick / factor, digits)} ${unit}`, room = pen.measureText(text).width;
      pen.fillText(text, Math.min(Math.max(2, x(tick) - room / 2), width - room - 2), 10);
    }
  };
  const drawLane = (lane) => {
    pen.font = `12px ${family}`;
    const room = pen.measureText(lane.label).width;
    pen.fillStyle = colors.paper;
    pen.fillRect(0, lane.top - LABEL + 2, room + 8, LABEL - 3);
    pen.fillStyle = colors.muted;
    pen.globalAlpha = lane.isEmpty ? 0.6 : 1;
    pen.fillText(lane.label, 4, lane.top - LABEL / 2 + 1);
    pen.globalAlpha = 1;
    if (lane.isEmpty) return;
    pen.font = `10.5px ${family}`;
    lane.byRow.forEach((row, depth) => drawRow(lane, row, lane.top + depth * ROW));
    if (at && at.lane.kind === lane.kind && at.lane.place === lane.place && at.lane.label === lane.label) outline(lane);
  };
  const drawRow = (lane, row, top) => {
    let last = -1;
    for (let place = firstAt(row, from); place < row.items.length; place++) {
      const item = row.items[place], start = lane.start[item];
      if (start > to) break;
      const left = Math.max(-1, x(start)), right = Math.min(width + 1, x(endOf(lane, item)));
      const pixel = Math.floor(left), span = Math.max(0.7, right - left);
      if (span <= 1 && pixel === last) continue;
      last = span <= 1 ? pixel : -1;
      const several = countOf(lane, item) > 1 || lane.name[item] < 0;
      pen.globalAlpha = found && !found.has(lane.name[item]) ? 0.15 : several ? 0.55 : 1;
      pen.fillStyle = lane.kind === "idle" ? colors.causes[lane.name[item]] : colors.tones[lane.tone[item]];
      pen.fillRect(left, top, span > 3 ? span - 0.7 : span, ROW - 2);
      pen.globalAlpha = 1;
      if (span > 34) label(titleOf({ lane, item }), left, top, span);
    }
  };
  const label = (name, left, top, span) => {
    pen.save();
    pen.beginPath();
    pen.rect(left, top, span - 3, ROW);
    pen.clip();
    pen.fillStyle = colors.paper;
    pen.fillText(name.slice(0, 120), Math.max(left, 0) + 4, top + ROW / 2 - 0.5);
    pen.restore();
  };
  const outline = (lane) => {
    const left = Math.max(-2, x(at.lane.start[at.item])), right = Math.min(width + 2, x(endOf(at.lane, at.item)));
    pen.strokeStyle = colors.ink;
    pen.lineWidth = 2;
    pen.strokeRect(left + 1, lane.top + lane.row[at.item] * ROW, Math.max(LEAST, right - left - 1), ROW - 2);
  };
  /* Whether a lane shows what a part of a finding is about. */
  const isOf = (lane, part) => {
    if (part.kind === "idle") return lane.kind === "idle";
    if (part.kind === "device") return lane.kind === "device" && (part.lane === null || lane.place.split("/")[0] === part.lane);
    return lane.place === part.lane && (part.kind === "call" ? lane.kind === "launches" : lane.kind === "host" || lane.kind === "owners");
  };
  const highlight = () => {
    for (const part of marked ?? []) {
      for (const lane of lanes.filter((one) => isOf(one, part))) {
        part.start.forEach((begin, index) => {
          const start = begin - time.start, end = start + part.length[index];
          if (end < from || start > to) return;
          const left = Math.max(-2, x(start)), span = Math.max(2, Math.min(width + 2, x(end)) - left);
          pen.fillStyle = colors.highlight;
          pen.globalAlpha = 0.22;
          pen.fillRect(left, lane.top - 3, span, lane.bottom - lane.top + 3);
          pen.globalAlpha = 1;
          pen.fillRect(left, lane.top - 4, span, 3);
        });
      }
    }
    if (moment !== null) {
      pen.fillStyle = colors.highlight;
      pen.fillRect(x(moment) - 1, AXIS, 2, height);
    }
  };
  const frame = () => {
    const [left, right] = ranges.now.map(x);
    pen.fillStyle = pen.strokeStyle = colors.highlight;
    pen.globalAlpha = 0.18;
    pen.fillRect(left, AXIS, right - left, height);
    pen.globalAlpha = 1;
    pen.lineWidth = 1.5;
    pen.strokeRect(left, AXIS, right - left, height - AXIS - 1);
  };
  const arrows = () => {
    if (!at) return;
    for (const [call, kernel] of linked(at)) {
      const a = laid(call.lane), b = laid(kernel.lane);
      if (!a || !b) continue;
      const x1 = x(call.lane.start[call.item]), x2 = x(kernel.lane.start[kernel.item]);
      const y1 = a.top + ROW / 2, y2 = b.top + b.row[kernel.item] * ROW + ROW / 2;
      pen.strokeStyle = pen.fillStyle = colors.ink;
      pen.lineWidth = 1.5;
      pen.beginPath();
      pen.moveTo(x1, y1);
      pen.bezierCurveTo(x1 + 24, y1, x2 - 24, y2, x2, y2);
      pen.stroke();
      pen.beginPath();
      pen.moveTo(x2, y2); pen.lineTo(x2 - 7, y2 - 4); pen.lineTo(x2 - 7, y2 + 4);
      pen.fill();
    }
  };
  const laid = (lane) => lanes.find((one) => one.kind === lane.kind && one.place === lane.place && one.label === lane.label);

  /* Launches: the number of a call counts over all lanes of calls. */
  const callAt = (wantedCall) => {
    let before = 0;
    for (const lane of time.calls) {
      if (wantedCall < before + lane.start.length) return { lane, item: wantedCall - before };
      before += lane.start.length;
    }
    return null;
  };
  const linked = ({ lane, item }) => {
    if (lane.kind === "device") {
      const call = (lane.launch[item] ?? -1) >= 0 ? callAt(lane.launch[item]) : null;
      return call ? [[call, { lane, item }]] : [];
    }
    if (lane.kind !== "launches") return [];
    let call = item;
    for (const one of time.calls) { if (one.place === lane.place) break; call += one.start.length; }
    const pairs = [];
    for (const other of time.lanes) {
      if (other.kind === "device") other.launch.forEach((own, kernel) => { if (own === call) pairs.push([{ lane, item }, { lane: other, item: kernel }]); });
    }
    return pairs;
  };
  const follow = () => {
    const [pair] = at ? linked(at) : [];
    if (pair) choose(at.lane.kind === "device" ? pair[0] : pair[1]);
  };

  /* A range: what is in it is said below. */
  const toRange = (one, two, isDone = true) => {
    ranges.set(Math.max(0, Math.min(one, two)), Math.min(time.duration, Math.max(one, two)));
    draw();
    if (isDone) ranges.tell(time.lanes);
  };
  const extend = (side) => {
    const now = at ? (side ? endOf(at.lane, at.item) : at.lane.start[at.item]) : (from + to) / 2;
    toRange(now, ranges.now?.[1 - side] ?? now);
  };

  /* Moving */
  const told = () => { for (const one of changed) one(); };
  const show = (begin, length) => {
    const span = Math.min(time.duration, Math.max(SHORTEST, length));
    from = Math.min(Math.max(0, begin), time.duration - span);
    to = from + span;
    layOut();
    draw();
    told();
  };
  const middle = () => (at ? at.lane.start[at.item] + at.lane.length[at.item] / 2 : (from + to) / 2);
  const zoom = (factor, around = (from + to) / 2) => {
    const span = Math.min(time.duration, Math.max(SHORTEST, (to - from) * factor));
    show(around - (around - from) * span / (to - from), span);
  };
  const pan = (share) => show(from + (to - from) * share, to - from);
  const everything = () => show(0, time.duration);
  const fit = () => at && show(at.lane.start[at.item] - at.lane.length[at.item] / 2, at.lane.length[at.item] * 2);
  const select = (index) => {
    number = index;
    time = decoded[index] ??= timelineData.decoded(data, data.times[index], words.idle_lane);
    which.value = String(index);
    from = 0; to = time.duration; at = null; moment = null;
    layOut();
    ranges.clear();
    part("from-finding").hidden = true;
    chosen.textContent = "";
    part("its-finding").hidden = true;
    part("notes").textContent = time.notes.join(" ");
    if (wanted !== null) look();
  };

  /* Choosing */
  const find = (px, py) => {
    const lane = lanes.find((one) => py >= one.top && py < one.bottom);
    if (!lane) return idleAt(px, py);
    const row = lane.byRow[Math.floor((py - lane.top) / ROW)], merged = [];
    let best = null, distance = LEAST;
    if (!row) return null;
    const begin = from + (px - LEAST) / width * (to - from), end = from + (px + LEAST) / width * (to - from);
    for (let place = firstAt(row, begin); place < row.items.length && lane.start[row.items[place]] <= end; place++) {
      const item = row.items[place], left = x(lane.start[item]), right = x(endOf(lane, item));
      const away = px < left ? left - px : px > right ? px - right : 0;
      if (right - left <= 1 && Math.floor(left) === Math.floor(px)) merged.push(item);
      if (away < distance || (away === 0 && best === null)) { best = item; distance = away; }
    }
    if (merged.length > 1) {
      const longest = merged.reduce((most, item) => (lane.length[item] > lane.length[most] ? item : most));
      return { lane, item: longest, merged };
    }
    return best === null ? idleAt(px, py) : { lane, item: best };
  };
  const idleAt = (px, py) => {
    const lane = lanes.find((one) => one.kind === "idle");
    if (!lane || py < AXIS) return null;
    const ns = from + px / width * (to - from), [row] = lane.byRow, item = row.items[firstAt(row, ns)];
    return item !== undefined && lane.start[item] <= ns && x(endOf(lane, item)) - x(lane.start[item]) >= 2 ? { lane, item } : null;
  };
  const choose = (slice) => {
    at = slice;
    chosen.textContent = slice ? say(slice) : "";
    open(slice);
    if (slice) {
      const { lane, item } = slice;
      if (endOf(lane, item) < from || lane.start[item] > to) show((lane.start[item] + endOf(lane, item) - to + from) / 2, to - from);
      const own = laid(lane), top = own.top + own.row[item] * ROW;
      if (top < stage.scrollTop + AXIS) stage.scrollTop = top - AXIS - LABEL;
      if (top + ROW > stage.scrollTop + stage.clientHeight) stage.scrollTop = top + 2 * ROW - stage.clientHeight;
    }
    draw();
  };
  /* The finding that an idle time belongs to, below the timeline. */
  const open = (slice) => {
    const box = part("its-finding"), finding = slice?.lane.kind === "idle" ? data.findings[slice.lane.finding[slice.item]] : null;
    box.hidden = !finding;
    box.replaceChildren();
    if (!finding) return;
    const title = make("p", undefined, "title"), link = make("a", finding.title);
    link.href = `#${finding.id}`;
    title.append(link);
    const summary = document.querySelector(`#${CSS.escape(finding.id)} > p:not([class])`);
    box.append(title, make("p", finding.saving, "saving"), make("p", summary?.textContent ?? ""));
  };
  const nearest = (lane) => {
    const center = middle();
    let best = 0;
    lane.start.forEach((start, item) => {
      if (Math.abs(start + lane.length[item] / 2 - center) < Math.abs(lane.start[best] + lane.length[best] / 2 - center)) best = item;
    });
    return { lane, item: best };
  };
  const beside = (step) => (at
    ? { lane: at.lane, item: Math.min(Math.max(0, at.item + step), at.lane.start.length - 1) }
    : nearest(lanes[0]));
  const across = (step) => {
    const shown = lanes.filter((lane) => !lane.isEmpty), place = at ? shown.indexOf(laid(at.lane)) + step : 0;
    return nearest(shown[Math.min(Math.max(0, place), shown.length - 1)]);
  };

  /* Searching */
  const look = () => {
    const text = search.value.trim().toLowerCase();
    found = wanted = null;
    hits.textContent = "";
    if (text) {
      found = new Set(data.names.keys().filter((name) => data.names[name].toLowerCase().includes(text)));
      wanted = lanes.filter((lane) => !["idle", "path", "owners", "marks"].includes(lane.kind))
        .flatMap((lane) => lane.start.map((_, item) => ({ lane, item })).filter(({ item }) => found.has(lane.name[item])))
        .sort((a, b) => a.lane.start[a.item] - b.lane.start[b.item]);
      hits.textContent = hitsText(0);
    }
  };
  const hitsText = (shown) => filled(words.hits, {
    shown, all: wanted.length, time: duration(wanted.reduce((sum, { lane, item }) => sum + lane.length[item], 0)),
  });
  const hit = (step) => {
    if (!wanted?.length) return;
    const now = wanted.findIndex((one) => at && one.lane.place === at.lane.place && one.lane.kind === at.lane.kind && one.item === at.item);
    const next = now < 0 ? (step > 0 ? 0 : wanted.length - 1) : (now + step + wanted.length) % wanted.length;
    choose(wanted[next]);
    hits.textContent = hitsText(next + 1);
  };
  search.addEventListener("input", () => { look(); draw(); });
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter") { event.preventDefault(); hit(event.shiftKey ? -1 : 1); }
    if (event.key === "Escape") { search.value = ""; look(); draw(); stage.focus({ preventScroll: true }); }
  });

  /* Keys, buttons, mouse and touch */
  const keys = {
    "+": () => zoom(1 / 1.5, middle()), "=": () => zoom(1 / 1.5, middle()), "-": () => zoom(1.5, middle()),
    w: () => zoom(1 / 1.5, middle()), s: () => zoom(1.5, middle()), a: () => pan(-0.2), d: () => pan(0.2),
    0: everything, Home: everything, f: fit, Enter: fit, g: follow, n: () => hit(1), N: () => hit(-1),
    ArrowRight: (event) => (event.shiftKey ? pan(0.2) : choose(beside(1))),
    ArrowLeft: (event) => (event.shiftKey ? pan(-0.2) : choose(beside(-1))),
    ArrowDown: () => choose(across(1)), ArrowUp: () => choose(across(-1)), Escape: () => { ranges.clear(); choose(null); },
    m: () => at && toRange(at.lane.start[at.item], endOf(at.lane, at.item)), "[": () => extend(0), "]": () => extend(1),
  };
  stage.addEventListener("keydown", (event) => {
    const act = event.ctrlKey || event.metaKey || event.altKey ? null : keys[event.key];
    if (act) { event.preventDefault(); act(event); }
  });
  const actions = {
    in: () => zoom(1 / 1.5), out: () => zoom(1.5), left: () => pan(-0.3), right: () => pan(0.3), all: everything,
    previous: () => hit(-1), next: () => hit(1),
  };
  for (const button of holder.querySelectorAll("[data-do]")) button.addEventListener("click", actions[button.dataset.do]);
  data.times.forEach((one, index) => which.append(new Option(one.label, index)));
  which.parentElement.hidden = data.times.length < 2;
  which.addEventListener("change", () => { marked = null; select(Number(which.value)); draw(); told(); });

  const hover = (px, py) => {
    const slice = px === null ? null : find(px, py);
    tip.hidden = !slice;
    if (!slice) return;
    tip.textContent = say(slice);
    tip.style.left = `${Math.max(4, Math.min(px + 12, width - tip.offsetWidth - 4))}px`;
    tip.style.top = `${py + 18 + tip.offsetHeight > stage.scrollTop + stage.clientHeight ? py - tip.offsetHeight - 8 : py + 18}px`;
  };
  timelinePointer(stage, canvas, {
    ns: (px) => from + px / width * (to - from), view: () => ({ from, span: to - from }), pan, zoom, hover,
    move: (begin) => show(begin, to - from), click: (px, py) => choose(find(px, py)),
    select: (one, two) => toRange(one, two, false), selected: () => ranges.tell(time.lanes),
  });

  select(0);
  /* A finding that leads here is named above the timeline, with a way back. */
  const arrive = (finding) => {
    const box = part("from-finding");
    box.hidden = !finding;
    if (!finding) return;
    const title = box.querySelector("a");
    title.textContent = finding.title;
    title.href = `#${finding.id}`;
  };
  const refresh = () => { readColors(); draw(); };
  addEventListener("themechange", refresh);
  new ResizeObserver(() => { if (stage.clientWidth !== width) draw(); }).observe(stage);
  refresh();
  return {
    holder, data, changed,
    /* Shows a range of a time, and what is to be seen there. */
    go: (index, begin, end, finding, instant) => {
      select(index);
      marked = finding ? timelineData.spansOf(finding) : null;
      moment = instant ?? null;
      show(begin, end - begin);
      arrive(finding);
    },
    range: () => ranges.now && { range: ranges.now, ...ranges.of(time.lanes, ...ranges.now) },
    laid: (kind) => lanes.find((lane) => lane.kind === kind),
    state: () => ({ number, from, to, time, lanes, at, marked }),
  };
};
