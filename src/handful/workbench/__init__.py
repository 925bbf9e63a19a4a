"""The workbench: a local page for labelling a folder of pictures, and the server behind it.

What it shows is a project (`handful.project`), which `handful.project.live` keeps open.
`server/` is HTTP: `app.py` has the routes, `guard.py` checks every request, `solve.py` runs the process behind POST
/solve, `serve.py` starts the server. `page/` is the page in the browser.
"""
