{
  const holder = document.getElementById("waterfall");
  const source = document.getElementById("waterfall-data");
  if (holder && source) waterfall(holder, JSON.parse(source.textContent));

  function waterfall(holder, data) {
    const ROW = 16, LABEL = 18, AXIS = 22, GAP = 6, LEAST = 3;
    const stage = holder.querySelector(".stage");
    const canvas = holder.querySelector("canvas");
    const tip = holder.querySelector(".tip");
    const chosen = holder.querySelector(".chosen");
    const view = holder.querySelector(".view");
    const pen = canvas.getContext("2d");
    const shortest = Math.max(data.duration / 2e5, 50);
    const lanes = layOut(data.lanes);
    const height = lanes.length ? lanes.at(-1).bottom + GAP : AXIS;
    let from = 0, to = data.duration, width = 0, at = null, colors = {};

    function layOut(found) {
      let y = AXIS;
      return found.map((lane) => {
        let start = 0;
        const starts = lane.start.map((step) => (start += step));
        const top = y + LABEL;
        y = top + lane.rows * ROW + GAP;
        return { ...lane, starts, top, bottom: y - GAP };
      });
    }

    const decimal = (value, digits) => new Intl.NumberFormat(root.lang || "en", {
      minimumFractionDigits: digits, maximumFractionDigits: digits, useGrouping: false,
    }).format(value);
    const time = (ns, digits) => {
      const [factor, unit] = data.units.find(([size]) => Math.abs(ns) >= size) ?? data.units.at(-1);
      const value = ns / factor;
      return `${decimal(value, factor === 1 ? 0 : digits ?? Math.max(0, 3 - String(Math.trunc(Math.abs(value))).length))} ${unit}`;
    };
    const x = (ns) => (ns - from) / (to - from) * width;

    const say = ({ lane, item }) => {
      const name = lane.name[item] < 0
        ? filled(words.several, { count: lane.count[item] })
        : data.names[lane.name[item]];
      return filled(words.slice, {
        name, duration: time(lane.length[item]), start: time(lane.starts[item]), lane: lane.label,
      });
    };

    function readColors() {
      const style = getComputedStyle(root);
      const probe = make("span");
      document.body.append(probe);
      const read = (name) => { probe.style.color = `var(--${name})`; return getComputedStyle(probe).color; };
      colors = { tones: data.tones.map((tone) => read(tone.replace("_", "-"))), ink: read("ink"), muted: read("muted"), grid: read("grid"), paper: read("paper"), focus: read("focus") };
      colors.font = style.fontFamily || getComputedStyle(document.body).fontFamily;
      probe.remove();
    }

    function draw() {
      const scale = devicePixelRatio || 1;
      width = stage.clientWidth;
      canvas.width = Math.max(1, Math.round(width * scale));
      canvas.height = Math.round(height * scale);
      canvas.style.height = `${height}px`;
      pen.setTransform(scale, 0, 0, scale, 0, 0);
      pen.clearRect(0, 0, width, height);
      pen.textBaseline = "middle";
      axis();
      for (const lane of lanes) drawLane(lane);
      view.textContent = filled(words.view, { from: time(from), to: time(to), all: time(data.duration) });
    }

    function axis() {
      const rough = (to - from) / Math.max(2, width / 110);
      const power = 10 ** Math.floor(Math.log10(rough));
      const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
      const [factor, unit] = data.units.find(([size]) => to >= size) ?? data.units.at(-1);
      const digits = Math.min(6, Math.max(0, Math.ceil(-Math.log10(step / factor) - 1e-9)));
      pen.font = `11px ${getComputedStyle(document.body).fontFamily}`;
      for (let tick = Math.ceil(from / step) * step; tick <= to; tick += step) {
        pen.fillStyle = colors.grid;
        pen.fillRect(Math.round(x(tick)), AXIS - 4, 1, height);
        pen.fillStyle = colors.muted;
        const text = `${decimal(tick / factor, digits)} ${unit}`;
        const room = pen.measureText(text).width;
        pen.fillText(text, Math.min(Math.max(2, x(tick) - room / 2), width - room - 2), 10);
      }
    }

    function drawLane(lane) {
      pen.font = `12px ${getComputedStyle(document.body).fontFamily}`;
      const room = pen.measureText(lane.label).width;
      pen.fillStyle = colors.paper;
      pen.fillRect(0, lane.top - LABEL + 2, room + 8, LABEL - 3);
      pen.fillStyle = colors.muted;
      pen.fillText(lane.label, 4, lane.top - LABEL / 2 + 1);
      pen.font = `10.5px ${getComputedStyle(document.body).fontFamily}`;
      lane.starts.forEach((start, item) => {
        const end = start + lane.length[item];
        if (end < from || start > to) return;
        const left = Math.max(-1, x(start)), right = Math.min(width + 1, x(end));
        const top = lane.top + lane.row[item] * ROW;
        const span = Math.max(0.7, right - left);
        pen.globalAlpha = lane.name[item] < 0 ? 0.45 : 1;
        pen.fillStyle = colors.tones[lane.tone[item]];
        pen.fillRect(left, top, span > 3 ? span - 0.7 : span, ROW - 2);
        pen.globalAlpha = 1;
        if (span > 34 && lane.name[item] >= 0) label(data.names[lane.name[item]], left, top, span);
        if (at && at.lane === lane && at.item === item) {
          pen.strokeStyle = colors.ink;
          pen.lineWidth = 2;
          pen.strokeRect(left + 1, top, Math.max(LEAST, span - 1), ROW - 2);
        }
      });
    }

    function label(name, left, top, span) {
      pen.save();
      pen.beginPath();
      pen.rect(left, top, span - 3, ROW);
      pen.clip();
      pen.fillStyle = colors.paper;
      pen.fillText(name.slice(0, 120), Math.max(left, 0) + 4, top + ROW / 2 - 0.5);
      pen.restore();
    }

    function show(begin, length) {
      const span = Math.min(data.duration, Math.max(shortest, length));
      from = Math.min(Math.max(0, begin), data.duration - span);
      to = from + span;
      draw();
    }
    const zoom = (factor, around = (from + to) / 2) => {
      const span = Math.min(data.duration, Math.max(shortest, (to - from) * factor));
      show(around - (around - from) * span / (to - from), span);
    };
    const pan = (share) => show(from + (to - from) * share, to - from);
    const everything = () => show(0, data.duration);

    function find(px, py) {
      const lane = lanes.find((candidate) => py >= candidate.top && py < candidate.bottom);
      if (!lane) return null;
      const row = Math.floor((py - lane.top) / ROW);
      let best = null, distance = LEAST;
      lane.starts.forEach((start, item) => {
        if (lane.row[item] !== row) return;
        const left = x(start), right = x(start + lane.length[item]);
        const away = px < left ? left - px : px > right ? px - right : 0;
        if (away < distance || (away === 0 && best === null)) { best = item; distance = away; }
      });
      return best === null ? null : { lane, item: best };
    }

    function choose(found) {
      at = found;
      chosen.textContent = found ? say(found) : "";
      if (found) {
        const start = found.lane.starts[found.item], end = start + found.lane.length[found.item];
        if (end < from || start > to) show((start + end) / 2 - (to - from) / 2, to - from);
        const top = found.lane.top + found.lane.row[found.item] * ROW;
        if (top < stage.scrollTop + AXIS) stage.scrollTop = top - AXIS - LABEL;
        if (top + ROW > stage.scrollTop + stage.clientHeight) stage.scrollTop = top + 2 * ROW - stage.clientHeight;
      }
      draw();
    }
    const middle = (lane) => {
      const center = at ? at.lane.starts[at.item] + at.lane.length[at.item] / 2 : (from + to) / 2;
      let best = 0;
      lane.starts.forEach((start, item) => {
        const gap = Math.abs(start + lane.length[item] / 2 - center);
        if (gap < Math.abs(lane.starts[best] + lane.length[best] / 2 - center)) best = item;
      });
      return { lane, item: best };
    };
    const beside = (step) => {
      if (!at) return middle(lanes[0]);
      const item = Math.min(Math.max(0, at.item + step), at.lane.starts.length - 1);
      return { lane: at.lane, item };
    };
    const across = (step) => {
      const number = at ? lanes.indexOf(at.lane) + step : 0;
      return middle(lanes[Math.min(Math.max(0, number), lanes.length - 1)]);
    };

    const keys = {
      "+": () => zoom(1 / 1.5, around()), "=": () => zoom(1 / 1.5, around()), "-": () => zoom(1.5, around()),
      0: everything, Home: everything,
      ArrowRight: (event) => (event.shiftKey ? pan(0.2) : choose(beside(1))),
      ArrowLeft: (event) => (event.shiftKey ? pan(-0.2) : choose(beside(-1))),
      ArrowDown: () => choose(across(1)), ArrowUp: () => choose(across(-1)),
      Enter: () => at && show(at.lane.starts[at.item] - at.lane.length[at.item] / 2, at.lane.length[at.item] * 2),
      Escape: () => choose(null),
    };
    const around = () => (at ? at.lane.starts[at.item] + at.lane.length[at.item] / 2 : (from + to) / 2);
    stage.addEventListener("keydown", (event) => {
      const act = event.ctrlKey || event.metaKey || event.altKey ? null : keys[event.key];
      if (act) { event.preventDefault(); act(event); }
    });

    const actions = { in: () => zoom(1 / 1.5), out: () => zoom(1.5), left: () => pan(-0.3), right: () => pan(0.3), all: everything };
    for (const button of holder.querySelectorAll("[data-do]")) {
      button.addEventListener("click", actions[button.dataset.do]);
    }

    const place = (event) => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    const ns = (px) => from + px / width * (to - from);
    /* The wheel scrolls the page until somebody clicks here or holds Ctrl. */
    stage.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && document.activeElement !== stage) return;
      event.preventDefault();
      if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan((event.deltaX || event.deltaY) / width / 2);
      else zoom(1.0015 ** event.deltaY, ns(place(event)[0]));
    }, { passive: false });

    let drag = null;
    stage.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      drag = { px: place(event)[0], from, moved: false };
      stage.focus({ preventScroll: true });
    });
    stage.addEventListener("pointermove", (event) => {
      const [px, py] = place(event);
      if (drag && event.buttons) {
        if (Math.abs(px - drag.px) > 3) { drag.moved = true; stage.setPointerCapture(event.pointerId); }
        if (drag.moved) { tip.hidden = true; show(drag.from - (px - drag.px) / width * (to - from), to - from); }
        return;
      }
      const found = find(px, py);
      tip.hidden = !found;
      if (!found) return;
      tip.textContent = say(found);
      tip.style.left = `${Math.max(4, Math.min(px + 12, width - tip.offsetWidth - 4))}px`;
      tip.style.top = `${py + 18 + tip.offsetHeight > stage.scrollTop + stage.clientHeight ? py - tip.offsetHeight - 8 : py + 18}px`;
    });
    stage.addEventListener("pointerup", (event) => {
      if (drag && !drag.moved) choose(find(...place(event)));
      drag = null;
    });
    stage.addEventListener("pointercancel", () => { drag = null; });
    stage.addEventListener("pointerleave", () => { tip.hidden = true; });
    stage.addEventListener("dblclick", (event) => zoom(1 / 3, ns(place(event)[0])));

    const refresh = () => { readColors(); draw(); };
    addEventListener("themechange", refresh);
    new ResizeObserver(() => { if (stage.clientWidth !== width) draw(); }).observe(stage);
    refresh();
  }
}
