"""`python -m ctlpp`."""

from ctlpp.cli.main import program

if __name__ == "__main__":
    program()
