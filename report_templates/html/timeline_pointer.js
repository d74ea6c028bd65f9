/* The mouse and fingers on the timeline: a drag selects a range; with Shift or a finger it pans; wheel and two fingers zoom. */
const timelinePointer = (stage, canvas, act) => {
  const fingers = new Map();
  let drag = null;
  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };

  /* The wheel scrolls the page until somebody clicks here or holds Ctrl. */
  stage.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && document.activeElement !== stage) return;
    event.preventDefault();
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) act.pan((event.deltaX || event.deltaY) / canvas.clientWidth / 2);
    else act.zoom(1.0015 ** event.deltaY, act.ns(place(event)[0]));
  }, { passive: false });

  stage.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    const [px] = place(event);
    fingers.set(event.pointerId, px);
    drag = { px, from: act.view().from, at: act.ns(px), pans: event.shiftKey || event.pointerType === "touch", moved: false };
    stage.focus({ preventScroll: true });
  });
  const pinch = (event) => {
    const other = [...fingers].find(([id]) => id !== event.pointerId)?.[1];
    const before = fingers.get(event.pointerId), now = place(event)[0];
    fingers.set(event.pointerId, now);
    if (other === undefined) return false;
    drag = { ...drag, moved: true, pans: true };
    if (Math.abs(now - other) > 8) act.zoom(Math.abs(before - other) / Math.abs(now - other), act.ns((now + other) / 2));
    return true;
  };
  stage.addEventListener("pointermove", (event) => {
    const [px, py] = place(event);
    if (!drag || !event.buttons) { act.hover(px, py); return; }
    if (fingers.size > 1 && pinch(event)) return;
    if (Math.abs(px - drag.px) > 3 && !drag.moved) { drag.moved = true; stage.setPointerCapture(event.pointerId); act.hover(null); }
    if (!drag.moved) return;
    if (drag.pans) act.move(drag.from - (px - drag.px) / canvas.clientWidth * act.view().span);
    else act.select(drag.at, act.ns(px));
  });
  const lifted = (event) => { fingers.delete(event.pointerId); if (!fingers.size) drag = null; };
  stage.addEventListener("pointerup", (event) => {
    if (drag && !drag.moved) act.click(...place(event));
    else if (drag && !drag.pans) act.selected();
    lifted(event);
  });
  stage.addEventListener("pointercancel", lifted);
  stage.addEventListener("pointerleave", () => act.hover(null));
  stage.addEventListener("dblclick", (event) => act.zoom(1 / 3, act.ns(place(event)[0])));
};
