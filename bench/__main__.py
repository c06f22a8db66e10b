"""`python -m bench`: a Markdown table of ratios; ends with 1 if one that we hold is missed by more than a quarter."""

import argparse
import sys

from bench import agent_loop, node_agent, node_labeler, volume_autoscaler, volume_loop
from bench.rows import HEADER


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="how long each round of each server takes (2)")
    parser.add_argument("--skip-loop", action="store_true", help="leave out what needs a control plane (four minutes)")
    arguments = parser.parse_args()
    rows = [
        node_labeler.throughput(arguments.seconds),
        *volume_autoscaler.sync_times(),
        *volume_autoscaler.stalls(),
        *volume_autoscaler.backend_queries(),
        *node_agent.sync_times(),
        *node_agent.stalls(),
        *volume_loop.polls_at_rest(skip=arguments.skip_loop),
        *agent_loop.heartbeats_at_rest(skip=arguments.skip_loop),
    ]
    print(HEADER, *rows, sep="\n")
    return 1 if any(row.verdict == "MISSED" for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
