// Loads the modules of the page. Chromium ends all connections when an interface of the machine changes, as it does when
// a pod starts, and a module that failed to load stays failed until the page is loaded again.
'use strict';

const TRIES = 5;
const PAUSE_MS = 500;
const COUNT = 'coracle.tries';

import('./main.js').then(() => sessionStorage.removeItem(COUNT), (error) => {
  const tries = Number(sessionStorage.getItem(COUNT)) + 1;
  sessionStorage.setItem(COUNT, tries);
  if (tries < TRIES) {
    setTimeout(() => location.reload(), PAUSE_MS * tries);
    return;
  }
  sessionStorage.removeItem(COUNT);
  document.getElementById('link').textContent = `This page could not be loaded: ${error.message}`;
});
