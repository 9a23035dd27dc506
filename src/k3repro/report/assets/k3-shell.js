/* k3repro: the frame of a page. Colours, the drawer of a phone, the place in the contents, the way back up. */
(() => {
  "use strict";
  const all = (what) => [...document.querySelectorAll(what)];
  document.documentElement.classList.replace("no-js", "js");

  // Light or dark: a radio each, whose label leads to the other; what a reader chose is kept under the theme's own name.
  const colours = all("[data-md-component=palette] input");
  const paint = (index) => {
    const color = {};
    for (const name of ["media", "scheme", "primary", "accent"]) {
      color[name] = colours[index].getAttribute(`data-md-color-${name}`);
      document.body.setAttribute(`data-md-color-${name}`, color[name]);
    }
    colours.forEach((input, at) => { input.nextElementSibling.hidden = at !== index; });
    return { index, color };
  };
  colours.forEach((input, index) => {
    input.addEventListener("change", () => globalThis.__md_set("__palette", paint(index)));
    input.addEventListener("keydown", (event) => { if (event.key === "Enter") { const next = colours[(index + 1) % colours.length]; next.click(); next.focus(); } });
  });
  if (colours.length) {
    const kept = globalThis.__md_get("__palette"), wanted = colours.findIndex((input) => matchMedia(input.dataset.mdColorMedia).matches);
    const index = colours[kept && kept.index] ? kept.index : Math.max(0, wanted);
    paint(index);
    colours[index].checked = true;
  }

  // Labels that take the focus are pressed by key; the drawer closes by key too.
  const drawer = document.getElementById("__drawer");
  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.target.matches("label")) event.target.click();
    if (event.key === "Escape" && drawer) drawer.checked = false;
  });
  // The theme shows the focus by a class.
  document.addEventListener("focusin", ({ target }) => { if (target.matches(":focus-visible")) target.classList.add("focus-visible"); });
  document.addEventListener("focusout", ({ target }) => target.classList.remove("focus-visible"));

  // The section in sight is the active one of the contents, and the entry of the page is in sight in the menu.
  const places = all(".md-nav--secondary a[href^='#']").map((link) => ({ link, head: document.getElementById(decodeURIComponent(link.hash.slice(1))) })).filter(({ head }) => head);
  const up = document.querySelector(".md-top");
  let last = scrollY, waiting = false;
  const scrolled = () => {
    waiting = false;
    const above = places.filter(({ head }) => head.getBoundingClientRect().top < 120);
    places.forEach(({ link }, at) => {
      link.classList.toggle("md-nav__link--passed", at < above.length);
      link.classList.toggle("md-nav__link--active", at === above.length - 1);
    });
    if (up) up.hidden = scrollY < 600 || scrollY >= last;
    last = scrollY;
  };
  addEventListener("scroll", () => { if (!waiting) { waiting = true; requestAnimationFrame(scrolled); } }, { passive: true });
  scrolled();
  if (up) up.addEventListener("click", () => scrollTo({ top: 0, behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" }));
  for (const link of all(".md-sidebar .md-nav__link--active[href]")) {
    const box = link.closest(".md-sidebar__scrollwrap");
    if (box && link.clientHeight) box.scrollTop = link.getBoundingClientRect().top - box.getBoundingClientRect().top - box.clientHeight / 2;
  }
})();
