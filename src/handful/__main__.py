from handful.cli import main

main()
