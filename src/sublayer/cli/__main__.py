"""`python -m sublayer.cli`, as torchrun starts it."""

from sublayer.cli import main

main()
