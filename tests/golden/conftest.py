"""Files that older versions wrote, and the scripts that made them, which must not run again."""

collect_ignore_glob = ["v*/*"]
