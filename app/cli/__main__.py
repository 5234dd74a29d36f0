"""``python -m app.cli``: the command line without the console script; ``serve`` starts its worker with it."""

from app.cli import main

if __name__ == "__main__":
    main()
