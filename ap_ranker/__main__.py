"""`python -m ap_ranker`: the command line, also where no `ap-ranker` is on the path."""

from ap_ranker.cli.main import main

if __name__ == "__main__":
    main()
