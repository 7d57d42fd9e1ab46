// What scrolls sideways can be scrolled by the keyboard, too.
for (const box of document.querySelectorAll(".md-typeset__scrollwrap")) box.tabIndex = 0;
