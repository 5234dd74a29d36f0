"use strict";

// The page's only own script: it starts Swagger UI on this service's description.
SwaggerUIBundle({
  url: document.currentScript.dataset.description,
  dom_id: "#swagger-ui",
  layout: "BaseLayout",
  deepLinking: true,
  showExtensions: true,
  showCommonExtensions: true,
  // Without this line Swagger UI sends the description's address to its maker's validator.
  validatorUrl: null,
});
