"""The HTTP server of the workbench: routes, request checks, uploads, thumbnails."""
