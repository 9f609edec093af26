"""`python -m orchestrator` is `nmt-ablate`."""

from orchestrator.cli.main import main

if __name__ == "__main__":
    main()
