"""`python -m sublayer`: the command line."""

from sublayer.cli import main

main()
