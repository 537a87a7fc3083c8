"""`python -m matcha_gnn` is the command `matcha`."""

from matcha_gnn.cli import main

if __name__ == "__main__":
    main()
