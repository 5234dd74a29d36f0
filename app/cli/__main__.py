"""``python -m app.cli``: how ``serve`` starts its worker, whatever the console script is called."""

from app.cli import main

if __name__ == "__main__":
    main()
