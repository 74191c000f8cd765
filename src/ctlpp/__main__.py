"""`python -m ctlpp`."""

from ctlpp.cli.main import main

main()
