"""``python -m app.cli``: the command line without the console script. ``carrel serve`` starts its worker in this
way.
"""

from app.cli import main

if __name__ == "__main__":
    main()
