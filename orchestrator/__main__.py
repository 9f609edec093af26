"""`python -m orchestrator` is `nmt-ablate`."""

from orchestrator.cli import main

if __name__ == "__main__":
    main()
