"""`python -m ctlpp`."""

from ctlpp.cli.main import main

if __name__ == "__main__":
    main()
