// What scrolls sideways can be reached and scrolled by keyboard.
function reachable() {
  for (const one of document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset pre > code, .md-typeset pre")) {
    if (one.scrollWidth > one.clientWidth && !one.hasAttribute("tabindex")) one.tabIndex = 0
  }
}
addEventListener("load", () => {
  new MutationObserver(reachable).observe(document.body, { childList: true, subtree: true })
  addEventListener("resize", reachable)
  reachable()
})
