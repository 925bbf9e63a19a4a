"""`python -m handful` is the same as the command `handful`."""

from handful.cli import main

main()
