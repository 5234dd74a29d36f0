"use strict";

// The page's only own script: it starts Redoc on this service's description.
Redoc.init(
  document.currentScript.dataset.description,
  {
    // The search index needs a worker that is made of text, which the page's policy forbids.
    disableSearch: true,
    jsonSampleExpandLevel: 3,
    sortRequiredPropsFirst: true,
    // Without fonts of another origin.
    theme: { typography: { fontFamily: "system-ui, sans-serif", headings: { fontFamily: "system-ui, sans-serif" } } },
  },
  document.getElementById("redoc"),
);
