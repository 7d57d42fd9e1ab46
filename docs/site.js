// What scrolls sideways can be scrolled by the keyboard, too. The theme wraps tables when it gets to them.
const reachable = () => {
  for (const box of document.querySelectorAll(".md-typeset__scrollwrap")) box.tabIndex = 0;
};
reachable();
new MutationObserver(reachable).observe(document.body, { childList: true, subtree: true });
