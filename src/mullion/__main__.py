"""`python -m mullion` is the command line."""

from mullion.surface.cli import main

if __name__ == "__main__":
    main()
