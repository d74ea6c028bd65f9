/* Addresses of the timeline: #step=8&t=12-62&finding=..., in ms from the start of the step; #at=465 in ms of the recording. */
{
  const holder = document.getElementById("waterfall");
  const source = document.getElementById("waterfall-data");
  if (holder && source) linked(window.shownTimeline = timeline(holder, JSON.parse(source.textContent)));

  function linked(shown) {
    const { data } = shown, MS = 1e6;
    const text = (ns) => String(Number((ns / MS).toFixed(6)));
    let settled = true;

    const parsed = () => {
      const given = new URLSearchParams(location.hash.slice(1).replaceAll("+", "%2B"));
      if (given.has("at")) return ofMoment(Number(given.get("at")) * MS);
      const key = ["step", "time"].filter((name) => given.has(name)).map((name) => `${name}=${encodeURIComponent(given.get(name))}`)[0];
      const index = data.times.findIndex((one) => decodeURIComponent(one.key) === (key && decodeURIComponent(key)));
      if (index < 0) return null;
      const [from, to] = (given.get("t") ?? "").split("-").map((ms) => Number(ms) * MS);
      const finding = data.findings.find((one) => one.id === given.get("finding"));
      const whole = !(to > from);
      return { index, from: whole ? 0 : from, to: whole ? data.times[index].duration : to, finding };
    };
    const ofMoment = (ns) => {
      const index = data.times.findIndex((one) => ns >= one.start && ns <= one.start + one.duration);
      if (index < 0) return null;
      const one = data.times[index], around = one.duration / 50, moment = ns - one.start;
      return { index, from: Math.max(0, moment - around), to: Math.min(one.duration, moment + around), moment };
    };

    const follow = () => {
      const found = parsed();
      settled = false;
      if (found) {
        const { from, to } = found, margin = found.moment === undefined && found.finding ? (to - from) / 20 : 0;
        shown.go(found.index, Math.max(0, from - margin), to + margin, found.finding, found.moment);
        holder.scrollIntoView({ behavior: "instant", block: "start" });
        holder.querySelector(".stage").focus({ preventScroll: true });
      } else if (!location.hash || wasHere) {
        const { time } = shown.state();
        shown.go(0, 0, time === null ? 1 : data.times[0].duration);
      }
      wasHere = Boolean(found);
      settled = true;
    };
    let wasHere = false;
    addEventListener("hashchange", follow);
    if (location.hash) follow();

    /* What somebody zooms to is in the address, too, without a step in the history. */
    let waiting = 0;
    shown.changed.add(() => {
      if (!settled) return;
      clearTimeout(waiting);
      waiting = setTimeout(() => {
        const { number, from, to, marked } = shown.state();
        const finding = marked ? parsed()?.finding : null;
        const parts = [data.times[number].key, `t=${text(from)}-${text(to)}`, ...(finding ? [`finding=${finding.id}`] : [])];
        history.replaceState(null, "", `#${parts.join("&")}`);
        wasHere = true;
      }, 400);
    });

    /* A click on a finding of the first screen shows it; one on idle time opens its finding. */
    for (const card of document.querySelectorAll("[data-shows]")) {
      card.addEventListener("click", (event) => { if (!event.target.closest("a")) location.hash = card.dataset.shows; });
    }
    for (const area of document.querySelectorAll(".idle-area[data-finding]")) {
      area.addEventListener("click", () => { location.hash = area.dataset.finding; });
    }
  }
}
